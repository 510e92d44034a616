/**
 * Reads the balances of both sides of a trade that was refused for a low balance. The balances show whether a side
 * never had the funds, or whether older trades may still deliver them (`older-trades.ts`). They are read at the block
 * of the refusal. The balances at a later block could already include such an older trade, which would then count
 * twice.
 */

import { headerOf } from '#chain/block-reads.ts'
import type { ChainClient } from '#chain/clients.ts'
import { Fault } from '#domain/fault.ts'
import type { BlockPlace, ChainFunds, FundsQuestion, FundsToken } from '#domain/funds.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { isPaying, neededBy, SIDES, type TradeSide, takenFrom } from '../trade-sides.ts'
import { unusedPermit } from './settlement-batch.ts'
import type { RefusedTrade } from './simulation.ts'

export type HoldingsRead = (
  refused: readonly RefusedTrade[],
  trades: readonly TradeToSettle[],
  options: { readonly usedPermits: ReadonlySet<OrderHash> },
) => Promise<readonly RefusedTrade[]>

/**
 * Reasons with which the contract refuses a trade for a low balance. An older trade of the same trader may bring the
 * missing tokens.
 */
const LACKS_BALANCE: ReadonlySet<string> = new Set([
  'InsufficientCollateral',
  'InsufficientShares',
  'BothUnfunded',
])

export function makeHoldingsRead(
  client: ChainClient,
  readFunds: (questions: readonly FundsQuestion[], at: BlockPlace) => Promise<ChainFunds[]>,
): HoldingsRead {
  return async (refused, trades, { usedPermits }) => {
    const short = new Set(
      refused.filter(({ reason }) => LACKS_BALANCE.has(reason)).map(({ tradeId }) => tradeId),
    )
    if (short.size === 0) return refused
    const asked = trades.filter(({ tradeId }) => short.has(tradeId))
    // All refusals of one submission have the same block, so use the block of the first refusal.
    const block = refused.find(({ tradeId }) => short.has(tradeId))?.block ?? 0
    const funds = await readFunds(questionsOf(asked), await placeOf(client, block))
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
 * Returns each side's balance of the token that it delivers, and the allowance of a side that pays dollars. Leaves out
 * a side whose allowance is too low or whose approval is missing, because no older trade can change that. Leaves out
 * the allowance of a side with an unused permit, because the permit replaces it.
 */
function holdingsOf(
  trade: TradeToSettle,
  byOwner: ReadonlyMap<Address, ChainFunds>,
  usedPermits: ReadonlySet<OrderHash>,
): NonNullable<RefusedTrade['has']> {
  const buyer = holdingOf(trade, 'buyer', byOwner, usedPermits)
  const seller = holdingOf(trade, 'seller', byOwner, usedPermits)
  return {
    ...(buyer.balance === undefined ? {} : { buyer: buyer.balance }),
    ...(buyer.allowance === undefined ? {} : { allowance: buyer.allowance }),
    ...(seller.balance === undefined ? {} : { seller: seller.balance }),
    ...(seller.allowance === undefined ? {} : { sellerAllowance: seller.allowance }),
  }
}

function holdingOf(
  trade: TradeToSettle,
  side: TradeSide,
  byOwner: ReadonlyMap<Address, ChainFunds>,
  usedPermits: ReadonlySet<OrderHash>,
): { readonly balance?: bigint; readonly allowance?: bigint } {
  const funds = byOwner.get(trade[side])
  if (funds === undefined) return {}
  const { token, amount } = neededBy(trade, side)
  if (!isPaying(trade, side)) {
    return funds.isApproved ? { balance: funds.tokens.get(token) ?? 0n } : {}
  }
  const { balance, allowance } = funds
  const order = side === 'buyer' ? trade.buy : trade.sell
  if (unusedPermit(order, usedPermits) !== undefined) return { balance }
  return allowance >= amount ? { balance, allowance } : {}
}

async function placeOf(client: ChainClient, block: number): Promise<BlockPlace> {
  const header = await headerOf(client, block)
  if (header === undefined) {
    throw new Fault(
      'CHAIN_UNAVAILABLE',
      'the Ethereum node does not have a block that was read before: it is behind',
      {
        retryable: true,
      },
    )
  }
  return { block, blockHash: header.hash }
}

function questionsOf(trades: readonly TradeToSettle[]): FundsQuestion[] {
  const tokens = new Map<Address, FundsToken[]>()
  const ask = (owner: Address, token: FundsToken): void => {
    const asked = tokens.get(owner)
    if (asked === undefined) tokens.set(owner, [token])
    else asked.push(token)
  }
  for (const trade of trades) {
    for (const side of SIDES) ask(trade[side], takenFrom(trade, side).token)
  }
  return [...tokens].map(([owner, asked]) => ({ owner, tokens: asked }))
}
