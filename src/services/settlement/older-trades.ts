/**
 * Makes a trade wait if it lacks a balance that older trades of the same trader will bring. Example: a sale of shares
 * that were bought a moment ago. An older trade brings dollars or shares, but never an allowance, an approval or a
 * permit. So a trade waits only if all of this is true:
 * - the side at fault lacks a balance, and nothing else;
 * - for each side, the balance covers the trade once the trader's trades in flight have settled;
 * - for each side that pays dollars, the allowance covers the trade and the trader's trades in flight.
 *
 * The trade waits only until these older trades are decided (settled in a block, or not). If they brought the missing
 * balance, the trade is submitted again, otherwise it fails. Other actions of the trader during the wait change
 * nothing, and no younger trade takes the balance first (`claims.ts`).
 *
 *     Ann has 2 YES on chain. Trade 1 buys 5 YES; it is sent, in no block yet. Trade 2 sells 6 YES: refused, waits.
 *     If trade 1 settles, Ann has 7 YES, and trade 2 is submitted again. If trade 1 fails, trade 2 fails at once.
 */

import type { Address, TradeId } from '#domain/ids.ts'
import type { Trade, TradeToSettle } from '#domain/trade.ts'
import { ALLOWANCE, changeOf, unminedTrades } from './balance-changes.ts'
import type { RefusedTrade } from './chain/simulation.ts'
import { isPermitBefore, permitOf } from './permit-turns.ts'
import { leaveQueue, requeue } from './queue.ts'
import { end } from './reports.ts'
import {
  type MissingBalance,
  type MissingSide,
  moveTo,
  type PendingSettlement,
  type SettlementContext,
  type SettlementState,
} from './state.ts'
import { neededBy, SIDES, type TradeSide } from './trade-sides.ts'
import { byAge } from './turns.ts'

type Judged = {
  readonly pending: PendingSettlement
  readonly refusal: RefusedTrade
  /** Set if the trade waits for older trades to bring a missing balance. */
  readonly missing: MissingBalance | undefined
}

/**
 * Decides for each refused trade whether it waits for older trades, and begins with the oldest trade. Leaves out trades
 * that are no longer being submitted.
 */
export function judge(
  state: SettlementState,
  refused: readonly RefusedTrade[],
  nowMs: number,
): readonly Judged[] {
  const found = refused
    .flatMap((refusal) => {
      const pending = state.trades.get(refusal.tradeId)
      return pending?.stage === 'submitting' ? [{ pending, refusal }] : []
    })
    .sort((a, b) => byAge(a.pending.trade, b.pending.trade))
  const isOwing = found.some(({ refusal }) => refusal.has !== undefined)
  const inFlight: InFlight = isOwing ? tradesInFlight(state, refused) : new Map()
  return found.map(({ pending, refusal }) => {
    const missing = missingOf(state, pending.trade, refusal, { inFlight, nowMs })
    // Count this waiting trade as in flight: trades judged later are younger, and may need the tokens that this trade
    // brings.
    if (missing !== undefined) note(inFlight, pending.trade, false)
    return { pending, refusal, missing }
  })
}

function missingOf(
  state: SettlementState,
  trade: TradeToSettle,
  refusal: RefusedTrade,
  { inFlight, nowMs }: { readonly inFlight: InFlight; readonly nowMs: number },
): MissingBalance | undefined {
  const sides: MissingSide[] = []
  // Both sides are checked, because older trades may also take tokens from the side that is not at fault.
  for (const side of SIDES) {
    const has = refusal.has?.[side]
    if (has === undefined) return undefined
    const { token, amount: needs } = neededBy(trade, side)
    const before = settlingBefore(state, trade, side, inFlight)
    const balance = sideOf({ trader: trade[side], token, has, needs }, before)
    const isAtFault = refusal.fault === side || refusal.fault === 'both'
    if (isAtFault && [...balance.changes.values()].every((change) => change < 0n)) return undefined
    sides.push(balance)
    const allowance = allowanceOf(trade, side, { refusal, before, state })
    if (allowance !== undefined) sides.push(allowance)
  }
  if (!sides.every(isCovering)) return undefined
  return { refusal, block: refusal.block ?? 0, sinceMs: nowMs, sides }
}

/** Returns the trades of this side's trader that settle before the given trade, if they settle at all. */
function settlingBefore(
  state: SettlementState,
  trade: TradeToSettle,
  side: TradeSide,
  inFlight: InFlight,
): TradeToSettle[] {
  return (inFlight.get(trade[side]) ?? []).flatMap(({ other, isSent }) => {
    // Include an unsent trade only if it is older than the given trade. Include every sent trade.
    if (!isSent && byAge(other, trade) >= 0) return []
    // Leave out an older trade whose permit has a higher nonce than the given trade's permit of the same owner. The
    // older trade must wait for the given trade.
    return !isSent && isPermitBefore(state, trade, other) ? [] : [other]
  })
}

/**
 * Returns the allowance of a side that pays dollars, with what each earlier trade takes from it. If too little would
 * remain for the given trade, this trade must not wait, because the trader could raise the allowance in the meantime.
 * Returns undefined if a permit of this trade, or of an earlier trade, sets the allowance.
 */
function allowanceOf(
  trade: TradeToSettle,
  side: TradeSide,
  {
    refusal: { has },
    before,
    state,
  }: {
    readonly refusal: RefusedTrade
    readonly before: readonly TradeToSettle[]
    readonly state: SettlementState
  },
): MissingSide | undefined {
  const allowance = side === 'buyer' ? has?.allowance : has?.sellerAllowance
  if (allowance === undefined) return undefined
  const trader = trade[side]
  if (before.some((other) => permitOf(state, other, trader) !== undefined)) return undefined
  const { amount: needs } = neededBy(trade, side)
  return sideOf({ trader, token: ALLOWANCE, has: allowance, needs }, before)
}

function sideOf(
  side: Pick<MissingSide, 'trader' | 'token' | 'has' | 'needs'>,
  before: readonly TradeToSettle[],
): MissingSide {
  const changes = new Map<TradeId, bigint>()
  for (const other of before) {
    const change = changeOf(other, side.trader, side.token)
    if (change !== 0n) changes.set(other.tradeId, change)
  }
  return { ...side, changes, counted: new Set() }
}

function isCovering({ has, needs, changes }: MissingSide): boolean {
  return [...changes.values()].reduce((sum, change) => sum + change, has) >= needs
}

type InFlight = Map<Address, { readonly other: TradeToSettle; readonly isSent: boolean }[]>

function note(inFlight: InFlight, other: TradeToSettle, isSent: boolean): void {
  for (const trader of new Set([other.buyer, other.seller])) {
    const known = inFlight.get(trader) ?? []
    inFlight.set(trader, known)
    known.push({ other, isSent })
  }
}

/**
 * Returns, for each trader, the trades that will be sent, and the sent trades that were in no block yet when the
 * simulation ran. Leaves out refused trades. Also leaves out trades that are being retried, because retries may take
 * long.
 */
function tradesInFlight(state: SettlementState, refused: readonly RefusedTrade[]): InFlight {
  const seen = refused.find(({ block }) => block !== undefined)?.block ?? 0
  const unmined = new Set(unminedTrades(state).map(({ tradeId }) => tradeId))
  const without = new Set(refused.map(({ tradeId }) => tradeId))
  const inFlight: InFlight = new Map()
  for (const { trade, block } of state.older.minedSince.values()) {
    if (block > seen) note(inFlight, trade, true)
  }
  for (const { stage, retries, trade } of state.trades.values()) {
    if (retries > 0 || without.has(trade.tradeId)) continue
    const isSent = unmined.has(trade.tradeId)
    const isToBeSent = stage !== 'sent' && stage !== 'awaitingMarket' && stage !== 'ended'
    if (isToBeSent || isSent) note(inFlight, trade, isSent)
  }
  return inFlight
}

/**
 * Makes the trade wait for older trades. If a block has settled an older trade since the submission began, the older
 * trade's balance change is applied at once.
 */
export function awaitOlder(
  state: SettlementState,
  pending: PendingSettlement,
  missing: MissingBalance,
  context: SettlementContext,
): void {
  leaveQueue(state, pending)
  moveTo(pending, 'awaitingOlder')
  pending.missing = missing
  pending.trouble = `${missing.refusal.reason}: the trade waits for older trades of the same trader`
  state.older.waiting.add(pending.trade.tradeId)
  for (const [tradeId, { block }] of state.older.minedSince) applyDecided(pending, tradeId, block)
  requeueOrFail(state, pending, context)
}

/**
 * Checks the trades that wait for older trades. Once all older trades of a waiting trade are decided, the waiting trade
 * is queued if its balance suffices; otherwise it fails.
 */
export function resumeWaiting(state: SettlementState, context: SettlementContext): void {
  // Repeat the check: a trade that fails in this loop is itself decided, and other trades may wait for it.
  while (state.older.decided.size > 0) {
    const decided = [...state.older.decided]
    state.older.decided.clear()
    for (const waiting of state.older.waiting) {
      const pending = state.trades.get(waiting)
      if (pending?.stage !== 'awaitingOlder') {
        state.older.waiting.delete(waiting)
        continue
      }
      // Apply all decided trades before the check: the block that brings the missing balance may also contain a trade
      // that spends it.
      for (const [tradeId, block] of decided) {
        applyDecided(pending, tradeId, block, state.trades.get(tradeId)?.trade)
      }
      requeueOrFail(state, pending, context)
    }
  }
}

/**
 * Applies a decided trade to the balances of a waiting trade. `block` is the block that settled the decided trade, or
 * undefined if no block settled it. No balance changes if `block` is undefined, or if the balances were read at `block`
 * or later. If the waiting trade did not wait for the decided trade, the decided trade may be younger. So only the
 * amounts that it took from the trader are applied, not the amounts that it brought.
 */
function applyDecided(
  { missing }: PendingSettlement,
  tradeId: TradeId,
  block: number | undefined,
  trade?: Trade,
): void {
  for (const side of missing?.sides ?? []) {
    const expected = side.changes.get(tradeId)
    side.changes.delete(tradeId)
    if (block === undefined || block <= (missing?.block ?? 0)) continue
    if (side.counted.has(tradeId)) continue
    side.counted.add(tradeId)
    if (expected !== undefined) side.has += expected
    else if (trade !== undefined) {
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
    // Trades that are sent but in no block yet settle before the waiting trade, if at all. Their results are unknown,
    // so subtract the amounts that they would take.
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
