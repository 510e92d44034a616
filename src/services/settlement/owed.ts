/**
 * Trades that lack a balance which older trades of the same trader will bring, such as a sale of shares that were
 * bought a moment ago. An older trade brings dollars or shares, and never an allowance, an approval or a permit. So a
 * trade waits only if the side at fault lacks a balance, and if both sides' balances together with their trades in
 * flight cover it, and the buyer's allowance covers it after these. It waits for these trades and for nothing else. Once they are decided, it is examined again if
 * they brought what was missing, and fails if not. Other actions of the trader meanwhile change nothing.
 *
 *   Ann has 2 YES on chain   1. buys 5 YES, sent, in no block      2. sells 6 YES: refused, has 2, waits for 1
 *                            1 settles: 2 + 5 cover 6, examined again.     1 fails: 2 fails too, at once.
 */

import { type FundsToken, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { Address, TradeId } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import type { Trade, TradeToSettle } from '#domain/trade.ts'
import type { RefusedTrade } from './chain/settlement-trial.ts'
import { isPermitBefore, permitOf } from './permit-turns.ts'
import { leaveQueue, requeue } from './queue.ts'
import { end } from './reports.ts'
import {
  type Decided,
  type MissingBalance,
  type MissingSide,
  moveTo,
  type PendingSettlement,
  type SettlementContext,
  type SettlementState,
} from './state.ts'
import { byAge } from './turns.ts'

type Judged = {
  readonly pending: PendingSettlement
  readonly refusal: RefusedTrade
  /** The older trades that it waits for, if it does. */
  readonly owed: MissingBalance | undefined
}

/** Refused trades that are still being sent, the oldest first. */
export function judge(state: SettlementState, refused: readonly RefusedTrade[]): readonly Judged[] {
  const found = refused
    .flatMap((refusal) => {
      const pending = state.trades.get(refusal.tradeId)
      return pending?.stage === 'submitting' ? [{ pending, refusal }] : []
    })
    .sort((a, b) => byAge(a.pending.trade, b.pending.trade))
  const isOwing = found.some(({ refusal }) => refusal.has !== undefined)
  const underWay: UnderWay = isOwing ? tradesUnderWay(state, refused) : new Map()
  return found.map(({ pending, refusal }) => {
    const owed = owedOf(state, pending.trade, refusal, underWay)
    // A younger trade may need what this one brings once it has settled.
    if (owed !== undefined) note(underWay, pending.trade, false)
    return { pending, refusal, owed }
  })
}

function owedOf(
  state: SettlementState,
  trade: TradeToSettle,
  refusal: RefusedTrade,
  underWay: UnderWay,
): MissingBalance | undefined {
  const sides: MissingSide[] = []
  if (isAllowanceTaken(state, trade, refusal, underWay)) return undefined
  // The other side has to stay covered as well: older trades may take from it meanwhile.
  for (const side of ['buyer', 'seller'] as const) {
    const has = refusal.has?.[side]
    if (has === undefined) return undefined
    const { token, amount: needs } = takenFrom(trade, side)
    const changes = new Map<TradeId, bigint>()
    for (const other of settlingBefore(state, trade, side, underWay)) {
      const change = changeOf(other, trade[side], token)
      if (change !== 0n) changes.set(other.tradeId, change)
    }
    const all = [...changes.values()]
    const isAtFault = refusal.fault === side || refusal.fault === 'both'
    if (isAtFault && all.every((change) => change < 0n)) return undefined
    if (all.reduce((sum, change) => sum + change, has) < needs) return undefined
    sides.push({ trader: trade[side], token, has, needs, changes, counted: new Set() })
  }
  return { refusal, sides }
}

/** Returns the trades of this side that settle before the trade, if they settle. */
function settlingBefore(
  state: SettlementState,
  trade: TradeToSettle,
  side: 'buyer' | 'seller',
  underWay: UnderWay,
): TradeToSettle[] {
  return (underWay.get(trade[side]) ?? []).flatMap(({ other, isSent }) => {
    // A younger trade counts too once it is sent.
    if (!isSent && byAge(other, trade) >= 0) return []
    // An older one that brings a later permit of the same owner waits for this one.
    return !isSent && isPermitBefore(state, trade, other) ? [] : [other]
  })
}

/**
 * True if trades before this one take so much of its buyer's allowance that the rest does not cover it: the buyer
 * could raise the allowance while it waits. A permit among them replaces the allowance, so the rest is unknown.
 */
function isAllowanceTaken(
  state: SettlementState,
  trade: TradeToSettle,
  { has }: RefusedTrade,
  underWay: UnderWay,
): boolean {
  if (has?.allowance === undefined) return false
  const before = settlingBefore(state, trade, 'buyer', underWay).filter(
    ({ buyer }) => buyer === trade.buyer,
  )
  if (before.some((other) => permitOf(state, other) !== undefined)) return false
  const all = [trade, ...before].map((each) => takenFrom(each, 'buyer').amount)
  return all.reduce((sum, amount) => sum + amount) > has.allowance
}

function takenFrom(
  { marketId, outcome, price, size }: Trade,
  side: 'buyer' | 'seller',
): { readonly token: FundsToken; readonly amount: bigint } {
  return side === 'buyer'
    ? { token: STABLECOIN, amount: BigInt(costCeil(price, size)) }
    : { token: outcomeToken(marketId, outcome), amount: BigInt(size) }
}

/** Returns the change of the trader's token balance by a trade. */
function changeOf(trade: Trade, trader: Address, token: FundsToken): bigint {
  const [cost, shares] = [takenFrom(trade, 'buyer'), takenFrom(trade, 'seller')]
  let change = 0n
  if (trade.buyer === trader && shares.token === token) change += shares.amount
  if (trade.seller === trader && shares.token === token) change -= shares.amount
  if (trade.seller === trader && cost.token === token) change += cost.amount
  if (trade.buyer === trader && cost.token === token) change -= cost.amount
  return change
}

type UnderWay = Map<Address, { readonly other: TradeToSettle; readonly isSent: boolean }[]>

function note(underWay: UnderWay, other: TradeToSettle, isSent: boolean): void {
  for (const trader of new Set([other.buyer, other.seller])) {
    const known = underWay.get(trader) ?? []
    underWay.set(trader, known)
    known.push({ other, isSent })
  }
}

/** Trades that are sent and in no block yet. */
function unminedTrades({ flight, trades }: SettlementState): TradeToSettle[] {
  return [...flight.batches.values()]
    .filter(({ mined, ended }) => !mined && !ended)
    .flatMap(({ tradeIds }) => tradeIds.flatMap((tradeId) => trades.get(tradeId)?.trade ?? []))
}

/**
 * Returns by trader the trades that are to be sent, or are sent and in no block that the examination has seen. It
 * leaves out refused trades, and trades with retries, which may be retried for long.
 */
function tradesUnderWay(state: SettlementState, refused: readonly RefusedTrade[]): UnderWay {
  const unmined = new Set(unminedTrades(state).map(({ tradeId }) => tradeId))
  const without = new Set(refused.map(({ tradeId }) => tradeId))
  const underWay: UnderWay = new Map()
  for (const trade of state.older.minedSince.values()) note(underWay, trade, true)
  for (const { stage, retries, trade } of state.trades.values()) {
    if (retries > 0 || without.has(trade.tradeId)) continue
    const isSent = unmined.has(trade.tradeId)
    const isToBeSent = stage !== 'sent' && stage !== 'awaitingMarket' && stage !== 'ended'
    if (isToBeSent || isSent) note(underWay, trade, isSent)
  }
  return underWay
}

/** Makes the trade wait for older ones. Those that came into a block during its examination are decided. */
export function awaitOlder(
  state: SettlementState,
  pending: PendingSettlement,
  owed: MissingBalance,
  context: SettlementContext,
): void {
  leaveQueue(state, pending)
  moveTo(pending, 'awaitingOlder')
  pending.missing = owed
  pending.trouble = `${owed.refusal.reason}: it waits for older trades of the same trader`
  state.older.waiting.add(pending.trade.tradeId)
  for (const { tradeId } of state.older.minedSince.values()) count(pending, tradeId, 'mined')
  goOn(state, pending, context)
}

/** Handles decided trades: those that wait for them are examined again, or fail. */
export function settleOwed(state: SettlementState, context: SettlementContext): void {
  // A trade that fails here also decides those that wait for it.
  while (state.older.decided.size > 0) {
    const decided = [...state.older.decided]
    state.older.decided.clear()
    for (const waiting of state.older.waiting) {
      const pending = state.trades.get(waiting)
      if (pending?.stage !== 'awaitingOlder') {
        state.older.waiting.delete(waiting)
        continue
      }
      // All before it goes on: the block that brings what is missing may also take it.
      for (const [tradeId, how] of decided) {
        count(pending, tradeId, how, state.trades.get(tradeId)?.trade)
      }
      goOn(state, pending, context)
    }
  }
}

/**
 * Applies a decided trade to one that waits. The decided one may also have taken from its balance without being
 * awaited. What such a trade brings does not count: it may be younger, and its traders chose it meanwhile.
 */
function count(
  { missing }: PendingSettlement,
  tradeId: TradeId,
  how: Decided,
  trade?: Trade,
): void {
  for (const side of missing?.sides ?? []) {
    const expected = side.changes.get(tradeId)
    side.changes.delete(tradeId)
    if (side.counted.has(tradeId)) continue
    if (how === 'mined') side.counted.add(tradeId)
    if (expected !== undefined && how !== 'failed') side.has += expected
    else if (how === 'mined' && trade !== undefined) {
      const change = changeOf(trade, side.trader, side.token)
      if (change < 0n) side.has += change
    }
  }
}

function goOn(
  state: SettlementState,
  { missing, trade }: PendingSettlement,
  context: SettlementContext,
): void {
  if (missing === undefined) return
  if (missing.sides.some(({ changes }) => changes.size > 0)) return
  const ahead = unminedTrades(state)
  const isCovered = ({ trader, token, has, needs }: MissingSide): boolean => {
    // A sent trade settles before this one; its result is not known yet.
    const taken = ahead.map((other) => changeOf(other, trader, token)).filter((by) => by < 0n)
    return taken.reduce((sum, by) => sum + by, has) >= needs
  }
  if (missing.sides.every(isCovered)) {
    requeue(state, trade.tradeId, 0)
    return
  }
  const { reason, fault } = missing.refusal
  end(state, trade.tradeId, { status: 'failed', reason, fault }, context)
}
