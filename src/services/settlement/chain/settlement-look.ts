/**
 * What balances alone tell of trades, by one question for all of them: those that nothing covers would be
 * refused, whatever else a simulation says. It knows more than a look does, and costs a hundred times as much
 * on a node, so strangers without funds are found here. Each trader is given what he has at the newest block and
 * everything that the trades before could bring him: what is refused here is refused there.
 *
 *   Ann has nothing, Bob 5 YES   1. Bob sells Ann 5 at 0.40: Ann lacks 2.00  →  refused
 *                                2. Ann sells Cid 5: she has nothing, and 1 brings nothing  →  refused
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
import type { RefusedTrade } from './settlement-trial.ts'

type LookOptions = {
  readonly usedPermits: ReadonlySet<OrderHash>
  /** The newest block that was seen. */
  readonly headNumber: number
}

export type SettlementLook = {
  /** Those of the trades that nothing covers. The oldest come first; their markets are on chain. */
  uncovered(trades: readonly TradeToSettle[], options: LookOptions): Promise<RefusedTrade[]>
  /** The same refusals, with what both sides have where a balance is too low. */
  withFunds(
    refused: readonly RefusedTrade[],
    trades: readonly TradeToSettle[],
    options: LookOptions,
  ): Promise<readonly RefusedTrade[]>
}

/** What owners have at the newest block. */
export type OwnersLook = (
  questions: readonly FundsQuestion[],
  options: { readonly headNumber: number },
) => Promise<ChainFunds[]>

type ReadFunds = (questions: readonly FundsQuestion[], at: BlockPlace) => Promise<ChainFunds[]>

export function makeSettlementLook(client: ChainClient, readFunds: ReadFunds): SettlementLook {
  const fundsOf = async (trades: readonly TradeToSettle[], headNumber: number) =>
    readFunds(questionsOf(trades), await newestBlock(client, headNumber))
  return {
    async uncovered(trades, { usedPermits, headNumber }) {
      if (trades.length === 0) return []
      const funds = await fundsOf(trades, headNumber)
      return withHoldings(uncovered(trades, funds, usedPermits), trades, funds, usedPermits)
    },
    async withFunds(refused, trades, { usedPermits, headNumber }) {
      const short = new Set(
        refused.filter(({ reason }) => LACKS_BALANCE.has(reason)).map(({ tradeId }) => tradeId),
      )
      if (short.size === 0) return refused
      const asked = trades.filter(({ tradeId }) => short.has(tradeId))
      return withHoldings(refused, asked, await fundsOf(asked, headNumber), usedPermits)
    },
  }
}

/** Refusals for a missing balance, which an older trade of the same trader may bring. */
const LACKS_BALANCE: ReadonlySet<string> = new Set([
  'InsufficientCollateral',
  'InsufficientShares',
  'BothUnfunded',
])

/**
 * If a balance is too low, adds what each side has of the token that it pays with. It leaves out a side without
 * allowance or approval, because no trade brings these. An order with a permit may bring its allowance.
 */
function withHoldings(
  refused: readonly RefusedTrade[],
  trades: readonly TradeToSettle[],
  funds: readonly ChainFunds[],
  usedPermits: ReadonlySet<OrderHash>,
): RefusedTrade[] {
  const byOwner = new Map(funds.map((each) => [each.owner, each]))
  const byId = new Map(trades.map((trade) => [trade.tradeId, trade]))
  return refused.map((refusal) => {
    const trade = byId.get(refusal.tradeId)
    if (trade === undefined || !LACKS_BALANCE.has(refusal.reason)) return refusal
    const [buyer, seller] = [byOwner.get(trade.buyer), byOwner.get(trade.seller)]
    const isAllowed =
      buyer !== undefined &&
      (buyer.allowance >= costOf(trade) || unusedPermit(trade.buy, usedPermits) !== undefined)
    const has = {
      ...(isAllowed ? { buyer: buyer.balance } : {}),
      ...(seller?.isApproved === true ? { seller: seller.tokens.get(sharesOf(trade)) ?? 0n } : {}),
    }
    return { ...refusal, has }
  })
}

export function makeOwnersLook(client: ChainClient, readFunds: ReadFunds): OwnersLook {
  return async (questions, { headNumber }) =>
    questions.length === 0 ? [] : readFunds(questions, await newestBlock(client, headNumber))
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
  for (const { buyer, seller, marketId, outcome } of trades) {
    const shares = outcomeToken(marketId, outcome)
    ask(buyer, STABLECOIN)
    ask(seller, shares)
  }
  return [...tokens].map(([owner, asked]) => ({ owner, tokens: asked }))
}

type Purse = {
  readonly has: Map<FundsToken, bigint>
  readonly allowance: bigint
  readonly isApproved: boolean
}

/** Those that nothing covers, with what `settle` would say of them. */
function uncovered(
  trades: readonly TradeToSettle[],
  funds: readonly ChainFunds[],
  usedPermits: ReadonlySet<OrderHash>,
): RefusedTrade[] {
  const purses = new Map<Address, Purse>()
  for (const { owner, balance, tokens, allowance, isApproved } of funds) {
    const has = new Map<FundsToken, bigint>([...tokens, [STABLECOIN, balance]])
    purses.set(owner, { has, allowance, isApproved })
  }
  const bring = (owner: Address, token: FundsToken, amount: bigint): void => {
    const has = purses.get(owner)?.has
    has?.set(token, (has.get(token) ?? 0n) + amount)
  }
  // With a permit in the batch its owner's trades may change places, and his allowance rises.
  const permitted = new Set<Address>()
  for (const { buy } of trades) {
    if (unusedPermit(buy, usedPermits) !== undefined) permitted.add(buy.trader)
  }
  for (const trade of trades) {
    if (permitted.has(trade.seller)) bring(trade.seller, STABLECOIN, costOf(trade))
    if (permitted.has(trade.buyer)) bring(trade.buyer, sharesOf(trade), BigInt(trade.size))
  }
  const refused: RefusedTrade[] = []
  for (const trade of trades) {
    const { tradeId, buyer, seller } = trade
    const buyerLacks = lackOfBuyer(purses.get(buyer), trade)
    const sellerLacks = lackOfSeller(purses.get(seller), trade)
    // Whether a permit is good, and so whose fault it is, is told by a simulation only.
    const isUnsure = buyerLacks === 'InsufficientAllowance' && permitted.has(buyer)
    if (isUnsure || (buyerLacks === undefined && sellerLacks === undefined)) {
      // What it takes is not counted: it may fail for a reason that balances do not tell.
      bring(seller, STABLECOIN, costOf(trade))
      bring(buyer, sharesOf(trade), BigInt(trade.size))
    } else if (buyerLacks !== undefined && sellerLacks !== undefined) {
      refused.push({ tradeId, fault: 'both', reason: 'BothUnfunded' })
    } else if (buyerLacks !== undefined) {
      refused.push({ tradeId, fault: 'buyer', reason: buyerLacks })
    } else if (sellerLacks !== undefined) {
      refused.push({ tradeId, fault: 'seller', reason: sellerLacks })
    }
  }
  return refused
}

function costOf({ price, size }: TradeToSettle): bigint {
  return BigInt(costCeil(price, size))
}

function sharesOf({ marketId, outcome }: TradeToSettle): FundsToken {
  return outcomeToken(marketId, outcome)
}

function lackOfBuyer(purse: Purse | undefined, trade: TradeToSettle): string | undefined {
  if (purse === undefined) return undefined
  const cost = costOf(trade)
  if ((purse.has.get(STABLECOIN) ?? 0n) < cost) return 'InsufficientCollateral'
  return purse.allowance < cost ? 'InsufficientAllowance' : undefined
}

function lackOfSeller(purse: Purse | undefined, trade: TradeToSettle): string | undefined {
  if (purse === undefined) return undefined
  if ((purse.has.get(sharesOf(trade)) ?? 0n) < BigInt(trade.size)) return 'InsufficientShares'
  return purse.isApproved ? undefined : 'SharesNotApproved'
}
