/**
 * Trades that lack a balance which older trades of the same trader will bring, such as a sale of shares that were
 * bought a moment ago. An older trade brings dollars or shares, and never an allowance, an approval or a permit. So a
 * trade waits only if the side at fault lacks a balance, and if both sides' balances together with their trades in
 * flight cover it, and if the buyer's allowance covers it after these. It waits for these trades and for nothing else.
 * Once they are decided, it is submitted again if they brought the missing balance, and fails if not. Other actions of
 * the trader meanwhile change nothing.
 *
 *   Ann has 2 YES on chain   1. buys 5 YES, sent, in no block      2. sells 6 YES: refused, has 2, waits for 1
 *                            1 settles: 2 + 5 cover 6, submitted again.    1 fails: 2 fails too, at once.
 */

import { type FundsToken, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { Address, TradeId } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import type { Trade, TradeToSettle } from '#domain/trade.ts'
import type { RefusedTrade } from './chain/simulation.ts'
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
  /** Set if older trades will bring the missing balance. */
  readonly missing: MissingBalance | undefined
}

/** Returns refused trades that are still being submitted, the oldest first, and for each whether it waits. */
export function judge(state: SettlementState, refused: readonly RefusedTrade[]): readonly Judged[] {
  const found = refused
    .flatMap((refusal) => {
      const pending = state.trades.get(refusal.tradeId)
      return pending?.stage === 'submitting' ? [{ pending, refusal }] : []
    })
    .sort((a, b) => byAge(a.pending.trade, b.pending.trade))
  const isOwing = found.some(({ refusal }) => refusal.has !== undefined)
  const inFlight: InFlight = isOwing ? tradesInFlight(state, refused) : new Map()
  return found.map(({ pending, refusal }) => {
    const missing = missingOf(state, pending.trade, refusal, inFlight)
    // A younger trade may need the tokens that this one brings.
    if (missing !== undefined) note(inFlight, pending.trade, false)
    return { pending, refusal, missing }
  })
}

function missingOf(
  state: SettlementState,
  trade: TradeToSettle,
  refusal: RefusedTrade,
  inFlight: InFlight,
): MissingBalance | undefined {
  const sides: MissingSide[] = []
  if (isAllowanceTaken(state, trade, refusal, inFlight)) return undefined
  // The other side must stay covered too: older trades may take from it meanwhile.
  for (const side of ['buyer', 'seller'] as const) {
    const has = refusal.has?.[side]
    if (has === undefined) return undefined
    const { token, amount: needs } = takenFrom(trade, side)
    const changes = new Map<TradeId, bigint>()
    for (const other of settlingBefore(state, trade, side, inFlight)) {
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
  inFlight: InFlight,
): TradeToSettle[] {
  return (inFlight.get(trade[side]) ?? []).flatMap(({ other, isSent }) => {
    // A younger trade counts too once it is sent.
    if (!isSent && byAge(other, trade) >= 0) return []
    // An older trade with a later permit of the same owner waits for this one.
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
  inFlight: InFlight,
): boolean {
  if (has?.allowance === undefined) return false
  const before = settlingBefore(state, trade, 'buyer', inFlight).filter(
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

type InFlight = Map<Address, { readonly other: TradeToSettle; readonly isSent: boolean }[]>

function note(inFlight: InFlight, other: TradeToSettle, isSent: boolean): void {
  for (const trader of new Set([other.buyer, other.seller])) {
    const known = inFlight.get(trader) ?? []
    inFlight.set(trader, known)
    known.push({ other, isSent })
  }
}

/** Returns trades that are sent and in no block yet. */
function unminedTrades({ flight, trades }: SettlementState): TradeToSettle[] {
  return [...flight.batches.values()]
    .filter(({ mined, ended }) => !mined && !ended)
    .flatMap(({ tradeIds }) => tradeIds.flatMap((tradeId) => trades.get(tradeId)?.trade ?? []))
}

/**
 * Returns by trader the trades that are to be sent, or are sent and in no block that the simulation has seen. It
 * leaves out refused trades, and trades with retries, which may take long.
 */
function tradesInFlight(state: SettlementState, refused: readonly RefusedTrade[]): InFlight {
  const unmined = new Set(unminedTrades(state).map(({ tradeId }) => tradeId))
  const without = new Set(refused.map(({ tradeId }) => tradeId))
  const inFlight: InFlight = new Map()
  for (const trade of state.older.minedSince.values()) note(inFlight, trade, true)
  for (const { stage, retries, trade } of state.trades.values()) {
    if (retries > 0 || without.has(trade.tradeId)) continue
    const isSent = unmined.has(trade.tradeId)
    const isToBeSent = stage !== 'sent' && stage !== 'awaitingMarket' && stage !== 'ended'
    if (isToBeSent || isSent) note(inFlight, trade, isSent)
  }
  return inFlight
}

/** Makes the trade wait for older ones. Those that came into a block during its submission are decided. */
export function awaitOlder(
  state: SettlementState,
  pending: PendingSettlement,
  missing: MissingBalance,
  context: SettlementContext,
): void {
  leaveQueue(state, pending)
  moveTo(pending, 'awaitingOlder')
  pending.missing = missing
  pending.trouble = `${missing.refusal.reason}: it waits for older trades of the same trader`
  state.older.waiting.add(pending.trade.tradeId)
  for (const { tradeId } of state.older.minedSince.values()) applyDecided(pending, tradeId, 'mined')
  requeueOrFail(state, pending, context)
}

/** Handles decided trades: those that wait for them are submitted again, or fail. */
export function resumeWaiting(state: SettlementState, context: SettlementContext): void {
  // A trade that fails in this loop also decides those that wait for it.
  while (state.older.decided.size > 0) {
    const decided = [...state.older.decided]
    state.older.decided.clear()
    for (const waiting of state.older.waiting) {
      const pending = state.trades.get(waiting)
      if (pending?.stage !== 'awaitingOlder') {
        state.older.waiting.delete(waiting)
        continue
      }
      // Apply all first: the block that brings the missing balance may also take it.
      for (const [tradeId, how] of decided) {
        applyDecided(pending, tradeId, how, state.trades.get(tradeId)?.trade)
      }
      requeueOrFail(state, pending, context)
    }
  }
}

/**
 * Applies a decided trade to one that waits. The decided one may also have taken from its balance without being
 * awaited. Tokens that such a trade brings do not count: it may be younger, and its traders chose it meanwhile.
 */
function applyDecided(
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

function requeueOrFail(
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
