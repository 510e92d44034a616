/** Positions and activity of the account, read again whenever they may have changed. */

import { effect, signal, untracked } from '@preact/signals'
import { account, client, trading } from './account.ts'
import { chain, onReconnect } from './exchange.ts'
import { refreshFunds } from './funds.ts'
import { wantMarket } from './markets.ts'
import { ownOrders } from './own-orders.ts'
import {
  type OwnTrade,
  type Payout,
  type Position,
  readActivity,
  readPositions,
  readRealisedProfit,
} from './reads.ts'
import { showError, showToast } from './toasts.ts'

const REFRESH_MS = 5_000
/**
 * Winning outcomes of decided markets, by market id. There are few such markets, so all are kept while the page is
 * open.
 */
const winners = signal<ReadonlyMap<string, 0 | 1>>(new Map())

export const positions = signal<readonly Position[] | undefined>(undefined)
/** Realised profit over all markets, including markets in which the account no longer has shares. */
export const realisedProfit = signal<bigint | undefined>(undefined)
export const ownTrades = signal<readonly OwnTrade[] | undefined>(undefined)
export const payouts = signal<readonly Payout[]>([])
/** Ids of markets with a redemption in progress. */
export const redeeming = signal<ReadonlySet<string>>(new Set())

export function winnerOf(marketId: string): 0 | 1 | undefined {
  return winners.value.get(marketId)
}

async function refresh(): Promise<void> {
  const address = account.value?.address
  const chainId = chain.value?.chainId
  if (address === undefined || chainId === undefined) return
  try {
    const [held, happened, made] = await Promise.all([
      readPositions({ address, chainId }),
      readActivity({ address, chainId }),
      readRealisedProfit({ address, chainId }),
    ])
    if (account.value?.address !== address) return
    positions.value = held
    realisedProfit.value = made
    ownTrades.value = happened.activity
    payouts.value = happened.settlements
    for (const { marketId, resolved } of held) {
      if (resolved) void readWinner(marketId)
      else void wantMarket(marketId)
    }
  } catch (error) {
    if (positions.value === undefined) showError(error)
  }
}

async function readWinner(marketId: string): Promise<void> {
  if (winners.value.has(marketId)) return
  const { winningOutcome } = await client.value.resolution
    .status(marketId)
    .catch(() => ({ winningOutcome: undefined }))
  if (winningOutcome === undefined) return
  winners.value = new Map(winners.value).set(marketId, winningOutcome)
}

/** Reads the positions repeatedly while a view shows them. Used as `useEffect(watchPositions, [])`. */
export function watchPositions(): () => void {
  const stop = effect(() => {
    // Read the positions again when the account or `ownOrders` changes. An order that changed may have traded.
    if (account.value === undefined || chain.value === undefined) {
      positions.value = undefined
      realisedProfit.value = undefined
      return
    }
    ownOrders.value
    untracked(() => void refresh())
  })
  const timer = setInterval(() => {
    if (!document.hidden) void refresh()
  }, REFRESH_MS)
  const forget = onReconnect(() => void refresh())
  return () => {
    stop()
    clearInterval(timer)
    forget()
  }
}

/** Redeems the shares of a decided market. The relayer sends the transaction and pays the gas. */
export async function redeem({ marketId, contractAddress }: Position): Promise<void> {
  redeeming.value = new Set([...redeeming.value, marketId])
  try {
    const { relayer } = await trading()
    await relayer.ctfRedemption({ market: { id: marketId, contractAddress } })
    showToast('done', 'Redeemed. The money is on its way to your account.')
    await Promise.all([refresh(), refreshFunds()])
  } catch (error) {
    showError(error)
  } finally {
    redeeming.value = new Set([...redeeming.value].filter((id) => id !== marketId))
  }
}
