/**
 * The account's funds on the chain, its allowances for the exchange, and the part of its stablecoin that the exchange
 * has not reserved.
 */

import { computed, effect, signal, untracked } from '@preact/signals'
import type { Funds } from '#protocol/shapes/users.ts'
import { type ChainFunds, readFunds } from '../wallet/token-reads.ts'
import { account, node } from './account.ts'
import { chain, config, onReconnect, stream } from './exchange.ts'

const REFRESH_MS = 15_000

type Read = { readonly address: string; readonly funds: ChainFunds }

const read = signal<Read | undefined>(undefined)

/** Funds of the account; undefined until they are read, or if they cannot be read. */
export const funds = computed(() =>
  read.value?.address === account.value?.address ? read.value?.funds : undefined,
)

/** Reserved and free amounts of each token; undefined if the exchange does not reserve funds. */
const reserved = signal<Funds | undefined>(undefined)

/** Stablecoin available for a further order; undefined if the exchange does not reserve funds. */
export const freeStablecoin = computed(() => {
  const token = reserved.value?.tokens.find((one) => one.token === 'stablecoin')
  return token === undefined ? undefined : BigInt(token.free)
})

/** Reads the funds from the chain. Called after a transfer of money, and at intervals. */
export async function refreshFunds(): Promise<void> {
  const chosen = account.value
  const where = chain.value
  if (chosen === undefined || where === undefined) return
  try {
    const found = await readFunds(node.value ?? chosen.provider, where, chosen.address)
    read.value = { address: chosen.address, funds: found }
  } catch {
    // The last known amounts may be outdated, so the page shows none. Without amounts, the page does not check whether
    // funds are missing.
    read.value = undefined
  }
}

export function followFunds(): void {
  effect(() => {
    if (account.value !== undefined && chain.value !== undefined) void refreshFunds()
  })
  effect(() => {
    reserved.value = undefined
    const trader = account.value?.address
    const chainId = chain.value?.chainId
    const reserves = config.value?.risk.funds === 'reserve'
    if (trader === undefined || chainId === undefined || !reserves) return
    const following = untracked(() =>
      stream().funds({ trader, chainId }, (message) => {
        reserved.value = message
      }),
    )
    // The exchange rejects this subscription for an account that it does not know. Such an account has no reserved
    // funds.
    following.ready.catch(() => undefined)
    return () => following.close()
  })
  onReconnect(() => void refreshFunds())
  setInterval(() => {
    if (!document.hidden) void refreshFunds()
  }, REFRESH_MS)
}
