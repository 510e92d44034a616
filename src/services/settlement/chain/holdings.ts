/**
 * Adds to refusals for a low balance what both sides hold at the newest block. Settlement needs it to tell a trader who
 * never had the funds from one whose older trades are about to bring them (`older-trades.ts`).
 */

import { headerOf } from '#chain/block-reads.ts'
import type { ChainClient } from '#chain/clients.ts'
import { Fault } from '#domain/fault.ts'
import {
  type BlockPlace,
  type ChainFunds,
  type FundsQuestion,
  type FundsToken,
  outcomeToken,
  STABLECOIN,
} from '#domain/funds.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { unusedPermit } from './settlement-batch.ts'
import type { RefusedTrade } from './simulation.ts'

export type HoldingsRead = (
  refused: readonly RefusedTrade[],
  trades: readonly TradeToSettle[],
  options: {
    readonly usedPermits: ReadonlySet<OrderHash>
    /** The newest block that was seen. */
    readonly headNumber: number
  },
) => Promise<readonly RefusedTrade[]>

/** Refusals for a missing balance, which an older trade of the same trader may bring. */
const LACKS_BALANCE: ReadonlySet<string> = new Set([
  'InsufficientCollateral',
  'InsufficientShares',
  'BothUnfunded',
])

export function makeHoldingsRead(
  client: ChainClient,
  readFunds: (questions: readonly FundsQuestion[], at: BlockPlace) => Promise<ChainFunds[]>,
): HoldingsRead {
  return async (refused, trades, { usedPermits, headNumber }) => {
    const short = new Set(
      refused.filter(({ reason }) => LACKS_BALANCE.has(reason)).map(({ tradeId }) => tradeId),
    )
    if (short.size === 0) return refused
    const asked = trades.filter(({ tradeId }) => short.has(tradeId))
    const funds = await readFunds(questionsOf(asked), await newestBlock(client, headNumber))
    const byOwner = new Map(funds.map((each) => [each.owner, each]))
    const byId = new Map(asked.map((trade) => [trade.tradeId, trade]))
    return refused.map((refusal) => {
      const trade = byId.get(refusal.tradeId)
      return trade === undefined
        ? refusal
        : { ...refusal, has: holdingsOf(trade, byOwner, usedPermits) }
    })
  }
}

/**
 * Returns what each side has of the token that it pays with, and the buyer's allowance. It leaves out a side without
 * allowance or approval, because no trade brings these. An order with a permit may bring its allowance.
 */
function holdingsOf(
  trade: TradeToSettle,
  byOwner: ReadonlyMap<Address, ChainFunds>,
  usedPermits: ReadonlySet<OrderHash>,
): NonNullable<RefusedTrade['has']> {
  const [buyer, seller] = [byOwner.get(trade.buyer), byOwner.get(trade.seller)]
  const cost = BigInt(costCeil(trade.price, trade.size))
  const isPermitted = unusedPermit(trade.buy, usedPermits) !== undefined
  const isAllowed = buyer !== undefined && (isPermitted || buyer.allowance >= cost)
  return {
    ...(isAllowed ? { buyer: buyer.balance } : {}),
    ...(isAllowed && !isPermitted ? { allowance: buyer.allowance } : {}),
    ...(seller?.isApproved === true ? { seller: seller.tokens.get(sharesOf(trade)) ?? 0n } : {}),
  }
}

async function newestBlock(client: ChainClient, seen: number): Promise<BlockPlace> {
  const head = await headerOf(client, 'latest')
  if (head === undefined || head.number < seen) {
    throw new Fault('CHAIN_UNAVAILABLE', 'the node is behind what was seen', { retryable: true })
  }
  return { block: head.number, blockHash: head.hash }
}

function questionsOf(trades: readonly TradeToSettle[]): FundsQuestion[] {
  const tokens = new Map<Address, FundsToken[]>()
  const ask = (owner: Address, token: FundsToken): void => {
    const asked = tokens.get(owner)
    if (asked === undefined) tokens.set(owner, [token])
    else asked.push(token)
  }
  for (const trade of trades) {
    ask(trade.buyer, STABLECOIN)
    ask(trade.seller, sharesOf(trade))
  }
  return [...tokens].map(([owner, asked]) => ({ owner, tokens: asked }))
}

function sharesOf({ marketId, outcome }: TradeToSettle): FundsToken {
  return outcomeToken(marketId, outcome)
}
