/**
 * Trades that would be refused, which fail without a transaction where a side is at fault; those that
 * cannot settle now for a reason that is neither trader's fault: they wait and are tried again, until
 * their orders cannot settle any more, or they have been refused too often. A batch that reverts as a whole
 * is halved until the trade that does it is alone.
 */

import type { RefusedTrade } from '#chain/settlement-trial.ts'
import { backoff } from '#domain/backoff.ts'
import type { Address, MarketId, TradeId } from '#domain/ids.ts'
import type { FaultySide, Trade, TradeToSettle } from '#domain/trade.ts'
import { minedDuring } from './mined-since.ts'
import { alone, requeue } from './queue.ts'
import { end } from './reports.ts'
import type { Examination, Held, SettlementContext, SettlementState } from './state.ts'
import { byAge } from './turns.ts'

export const MARKET_AGAIN_MS = 2_000
const SYSTEMIC_AGAIN_MS = 2_000
/** How long a trade waits that may need what an older one brings. */
const OLDER_AGAIN_MS = 500
/** How long a trade waits after its first setback; it doubles with each. */
const SETBACK_MS = 2_000
const SETBACK_MS_MAX = 600_000

/** Reverts that are not about any trade: the batch waits until the operator has mended the cause. */
const SYSTEMIC: ReadonlySet<string> = new Set([
  'EnforcedPause',
  'NotOperator',
  'ReentrancyGuardReentrantCall',
])

/** The chain does not know the market yet; it is looked for again after a while. */
export function missMarket(state: SettlementState, marketId: MarketId, nowMs: number): void {
  state.unknownMarkets.set(marketId, nowMs + MARKET_AGAIN_MS)
}

/** Its market is not on chain yet. It waits, but not for longer than its orders could settle. */
export function wait(state: SettlementState, held: Held, context: SettlementContext): void {
  if (isOver(state, held, context)) failAtLast(state, held, 'MarketUnknown', context)
  else held.place = 'waiting'
}

/**
 * Neither side is at fault: the stablecoin refuses every transfer, or both of the two, or the reason is unknown. If
 * such a trade failed at once, both quantities would go back into the book, meet again, and fail again,
 * for ever. So it is tried again, less and less often. A trade that has been refused as often as may be, or at
 * as much cost where a simulation did not tell beforehand, fails in the name of both, and neither quantity
 * comes back.
 */
export function setBack(
  state: SettlementState,
  held: Held,
  { reason, isRevert = false }: { readonly reason: string; readonly isRevert?: boolean },
  context: SettlementContext,
): void {
  const { retriesMax, retryGasMax } = state.rules
  if (isOver(state, held, context)) {
    failAtLast(state, held, reason, context)
    return
  }
  if (held.setbacks >= retriesMax || held.wastedGas >= retryGasMax) {
    end(state, held.trade.tradeId, { status: 'failed', reason, fault: 'both' }, context)
    return
  }
  const waitMs = backoff(SETBACK_MS, SETBACK_MS_MAX, held.setbacks++)
  const notBeforeMs = context.nowMs + waitMs
  if (!isRevert) {
    requeue(state, held.trade.tradeId, notBeforeMs)
    return
  }
  held.notBeforeMs = notBeforeMs
  alone(state, [held.trade.tradeId])
}

/**
 * An order is matched before it expires and can settle for the whole grace after that: where it cannot, the exchange or
 * the chain was away for so long. That is no trader's fault, whatever the contract calls it.
 */
export const OUT_OF_TIME = 'OrderExpired'

/** What a trade can lack until an older one of the same trader has settled. */
const PASSING: ReadonlySet<string> = new Set([
  'InsufficientCollateral',
  'InsufficientAllowance',
  'InsufficientShares',
  'BothUnfunded',
])

/** Where a trade is while it is found out what becomes of it. */
type Examined = 'looking' | 'trying' | 'sending'

const EXAMINATIONS: Readonly<Record<Examined, Examination>> = {
  looking: 'look',
  trying: 'try',
  sending: 'submit',
}

/**
 * What would be refused, and so was not sent. A side that is at fault fails it at once, without a transaction,
 * unless an older trade of that trader is still on its way: it may bring what is missing, as when
 * shares are sold that were bought a moment ago. Then it waits until that one is decided. What was only
 * tried out and does not fail now is dealt with when its batch is simulated.
 */
export function refuse(
  state: SettlementState,
  refused: readonly RefusedTrade[],
  from: Examined,
  context: SettlementContext,
): void {
  for (const { held, refusal, mayBeOwed } of judge(state, refused, from)) {
    const { fault, reason } = refusal
    const { trade } = held
    if (reason === OUT_OF_TIME) {
      failAtLast(state, held, reason, context)
    } else if (from !== 'sending' && (fault === 'none' || reason === 'MarketUnknown')) {
      requeue(state, trade.tradeId, 0)
    } else if (reason === 'MarketUnknown') {
      missMarket(state, trade.marketId, context.nowMs)
      wait(state, held, context)
    } else if (fault === 'none') {
      setBack(state, held, refusal, context)
    } else if (mayBeOwed) {
      requeue(state, trade.tradeId, from === 'sending' ? context.nowMs + OLDER_AGAIN_MS : 0)
    } else {
      end(state, trade.tradeId, { status: 'failed', reason, fault }, context)
    }
  }
}

/** Those of the looked at that fail by it, and by the fault of one side. */
export function failingByLook(
  state: SettlementState,
  refused: readonly RefusedTrade[],
): { readonly trade: TradeToSettle; readonly fault: 'buyer' | 'seller' }[] {
  return judge(state, refused, 'looking').flatMap(({ held, refusal, mayBeOwed }) => {
    const { fault, reason } = refusal
    if (mayBeOwed || reason === 'MarketUnknown' || fault === 'none' || fault === 'both') return []
    return [{ trade: held.trade, fault }]
  })
}

type Judged = {
  readonly held: Held
  readonly refusal: RefusedTrade
  /** An older trade of the side at fault is on its way, and may bring what is missing. */
  readonly mayBeOwed: boolean
}

/** The refused that are still where they were refused, the oldest first. */
function judge(
  state: SettlementState,
  refused: readonly RefusedTrade[],
  from: Examined,
): readonly Judged[] {
  const found = refused
    .flatMap((refusal) => {
      const held = state.held.get(refusal.tradeId)
      return held?.place === from ? [{ held, refusal }] : []
    })
    .sort((a, b) => byAge(a.held.trade, b.held.trade))
  const older: Oldest = found.length === 0 ? new Map() : oldestUnderWay(state, from)
  return found.map(({ held, refusal }) => {
    const { trade } = held
    const { reason, fault } = refusal
    const mayBeOwed = PASSING.has(reason) && sidesAtFault(trade, fault).some(isBehind(older, trade))
    if (mayBeOwed) noteOldest(older, trade)
    return { held, refusal, mayBeOwed }
  })
}

function sidesAtFault({ buyer, seller }: Trade, fault: FaultySide): Address[] {
  if (fault === 'none') return []
  return fault === 'both' ? [buyer, seller] : [fault === 'buyer' ? buyer : seller]
}

type Oldest = Map<Address, Trade>

function isBehind(older: Oldest, trade: Trade): (trader: Address) => boolean {
  return (trader) => {
    const oldest = older.get(trader)
    return oldest !== undefined && byAge(oldest, trade) < 0
  }
}

function noteOldest(older: Oldest, trade: Trade): void {
  for (const trader of [trade.buyer, trade.seller]) {
    const known = older.get(trader)
    if (known === undefined || byAge(trade, known) < 0) older.set(trader, trade)
  }
}

/**
 * Of each trader the oldest trade that is to be sent, or sent and in no block yet, or not when the look or simulation
 * began; but those of that one itself, where each has seen what the ones before it brought.
 */
function oldestUnderWay(state: SettlementState, except: Examined): Oldest {
  const unmined = new Set<TradeId>()
  for (const { mined, ended, tradeIds } of state.batches.values()) {
    if (!mined && !ended) for (const tradeId of tradeIds) unmined.add(tradeId)
  }
  const older: Oldest = new Map()
  for (const trade of minedDuring(state, EXAMINATIONS[except])) noteOldest(older, trade)
  for (const { place, setbacks, trade } of state.held.values()) {
    // One that no side is to blame for may be tried for long, and brings nothing meanwhile.
    if (setbacks > 0) continue
    const isExamined = place === 'looking' || place === 'trying' || place === 'sending'
    const isOnItsWay = place === 'queued' || (isExamined && place !== except)
    if (isOnItsWay || unmined.has(trade.tradeId)) noteOldest(older, trade)
  }
  return older
}

function isOver(state: SettlementState, { trade }: Held, context: SettlementContext): boolean {
  const { buy, sell } = trade
  const lastSec = Math.min(Number(buy.expiration), Number(sell.expiration)) + state.graceSec
  return context.nowMs / 1_000 > lastSec
}

function failAtLast(
  state: SettlementState,
  { trade }: Held,
  reason: string,
  context: SettlementContext,
): void {
  end(state, trade.tradeId, { status: 'failed', reason }, context)
}

/** Markets whose time to be looked for has come; their trades go back into the queue. */
export function wakeMarkets(state: SettlementState, nowMs: number): void {
  for (const [marketId, againMs] of state.unknownMarkets) {
    if (nowMs < againMs) continue
    state.unknownMarkets.delete(marketId)
    state.missingUntilMs.set(marketId, nowMs)
    state.readFull = true
    for (const [tradeId, { place, trade }] of state.held) {
      if (place === 'waiting' && trade.marketId === marketId) requeue(state, tradeId, 0)
    }
  }
}

/** A batch that reverts as a whole, at some cost if it was sent: halved, until what does it is alone. */
export function isolate(
  state: SettlementState,
  tradeIds: readonly TradeId[],
  revert: { readonly name: string; readonly words: string; readonly gasEach?: number },
  context: SettlementContext,
): void {
  const { nowMs } = context
  if (tradeIds.length === 0) return
  for (const tradeId of tradeIds) {
    const held = state.held.get(tradeId)
    if (held !== undefined) held.wastedGas += revert.gasEach ?? 0
  }
  context.emit({ type: 'BatchReverts', trades: tradeIds.length, why: revert.words })
  if (SYSTEMIC.has(revert.name)) {
    state.stopped = revert.words
    for (const tradeId of tradeIds) requeue(state, tradeId, nowMs + SYSTEMIC_AGAIN_MS)
    return
  }
  const [first] = tradeIds
  if (tradeIds.length === 1 && first !== undefined) {
    const held = state.held.get(first)
    if (held !== undefined) {
      setBack(state, held, { reason: `Reverted: ${revert.words}`, isRevert: true }, context)
    }
    return
  }
  const middle = Math.ceil(tradeIds.length / 2)
  alone(state, tradeIds.slice(0, middle))
  alone(state, tradeIds.slice(middle))
}
