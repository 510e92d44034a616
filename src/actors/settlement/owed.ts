/**
 * Trades that lack what older trades of the same trader will bring, as when shares are sold that were bought a moment
 * ago. An older trade brings dollars or shares, and never an allowance, an approval or a permit. So a trade waits
 * only if the side at fault lacks a balance, and if that balance and what its older trades on their way bring and take
 * cover it. It waits for these trades and for nothing else: once they are decided, it is examined again if
 * they brought what was missing, and fails if not. What the trader does meanwhile changes nothing.
 *
 *   Ann has 2 YES on chain   1. buys 5 YES, sent, in no block      2. sells 6 YES: refused, has 2, waits for 1
 *                            1 settles: 2 + 5 cover 6, examined again.     1 fails: 2 fails too, at once.
 */

import type { RefusedTrade } from '#chain/settlement-trial.ts'
import { type FundsToken, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { Address, TradeId } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import type { FaultySide, Trade } from '#domain/trade.ts'
import { minedDuring } from './mined-since.ts'
import { leaveQueue, requeue } from './queue.ts'
import { end } from './reports.ts'
import type {
  Examination,
  Held,
  Owed,
  OwedSide,
  SettlementContext,
  SettlementState,
} from './state.ts'
import { byAge } from './turns.ts'

/** Where a trade is while it is found out what becomes of it. */
export type Examined = 'looking' | 'trying' | 'sending'

const EXAMINATIONS: Readonly<Record<Examined, Examination>> = {
  looking: 'look',
  trying: 'try',
  sending: 'submit',
}

type Judged = {
  readonly held: Held
  readonly refusal: RefusedTrade
  /** What it waits for, if it does. */
  readonly owed: Owed | undefined
}

/** The refused that are still where they were refused, the oldest first. */
export function judge(
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
  const isOwing = found.some(({ refusal }) => refusal.has !== undefined)
  const underWay = isOwing ? tradesUnderWay(state, refused, from) : new Map<Address, Trade[]>()
  return found.map(({ held, refusal }) => {
    const owed = owedOf(held.trade, refusal, underWay)
    // A younger trade may need what this one brings once it has settled.
    if (owed !== undefined) note(underWay, held.trade)
    return { held, refusal, owed }
  })
}

function owedOf(
  trade: Trade,
  refusal: RefusedTrade,
  underWay: ReadonlyMap<Address, readonly Trade[]>,
): Owed | undefined {
  const sides: OwedSide[] = []
  for (const side of sidesOf(refusal.fault)) {
    const has = refusal.has?.[side]
    if (has === undefined) return undefined
    const { token, amount: needs } = takenFrom(trade, side)
    const changes = new Map<TradeId, bigint>()
    for (const older of underWay.get(trade[side]) ?? []) {
      if (byAge(older, trade) >= 0) continue
      const change = changeOf(older, trade[side], token)
      if (change !== 0n) changes.set(older.tradeId, change)
    }
    const all = [...changes.values()]
    if (all.every((change) => change < 0n)) return undefined
    if (all.reduce((sum, change) => sum + change, has) < needs) return undefined
    sides.push({ has, needs, changes })
  }
  return sides.length === 0 ? undefined : { refusal, sides }
}

function sidesOf(fault: FaultySide): readonly ('buyer' | 'seller')[] {
  if (fault === 'none') return []
  return fault === 'both' ? ['buyer', 'seller'] : [fault]
}

function takenFrom(
  { marketId, outcome, price, size }: Trade,
  side: 'buyer' | 'seller',
): { readonly token: FundsToken; readonly amount: bigint } {
  return side === 'buyer'
    ? { token: STABLECOIN, amount: BigInt(costCeil(price, size)) }
    : { token: outcomeToken(marketId, outcome), amount: BigInt(size) }
}

/** By how much a trade changes what the trader has of the token. */
function changeOf(trade: Trade, trader: Address, token: FundsToken): bigint {
  const [cost, shares] = [takenFrom(trade, 'buyer'), takenFrom(trade, 'seller')]
  let change = 0n
  if (trade.buyer === trader && shares.token === token) change += shares.amount
  if (trade.seller === trader && shares.token === token) change -= shares.amount
  if (trade.seller === trader && cost.token === token) change += cost.amount
  if (trade.buyer === trader && cost.token === token) change -= cost.amount
  return change
}

function note(underWay: Map<Address, Trade[]>, trade: Trade): void {
  for (const trader of new Set([trade.buyer, trade.seller])) {
    const known = underWay.get(trader)
    if (known === undefined) underWay.set(trader, [trade])
    else known.push(trade)
  }
}

/**
 * By trader, the trades that are to be sent, or are sent and in no block that the examination has seen. Those that
 * it refuses are not among them, nor those that are set back and may be tried for long.
 */
function tradesUnderWay(
  state: SettlementState,
  refused: readonly RefusedTrade[],
  from: Examined,
): Map<Address, Trade[]> {
  const unmined = new Set<TradeId>()
  for (const { mined, ended, tradeIds } of state.batches.values()) {
    if (!mined && !ended) for (const tradeId of tradeIds) unmined.add(tradeId)
  }
  const without = new Set(refused.map(({ tradeId }) => tradeId))
  const underWay = new Map<Address, Trade[]>()
  for (const trade of minedDuring(state, EXAMINATIONS[from])) note(underWay, trade)
  for (const { place, setbacks, trade } of state.held.values()) {
    if (setbacks > 0 || without.has(trade.tradeId)) continue
    const isToBeSent = place !== 'sent' && place !== 'waiting' && place !== 'ended'
    if (isToBeSent || unmined.has(trade.tradeId)) note(underWay, trade)
  }
  return underWay
}

/** The trade waits for older ones; those that came into a block during its examination are decided. */
export function awaitOlder(
  state: SettlementState,
  held: Held,
  { owed, from }: { readonly owed: Owed; readonly from: Examined },
  context: SettlementContext,
): void {
  leaveQueue(state, held)
  held.place = 'owed'
  held.owed = owed
  held.trouble = `${owed.refusal.reason}: it waits for older trades of the same trader`
  state.owed.add(held.trade.tradeId)
  const mined = [...minedDuring(state, EXAMINATIONS[from])].map(({ tradeId }) => tradeId)
  settleSides(state, held, { decided: mined, isSettled: true }, context)
}

/** Older trades are decided: those that wait for them go on, or fail. */
export function settleOwed(state: SettlementState, context: SettlementContext): void {
  // One that fails decides it for those that wait for it in turn.
  for (const [tradeId, isSettled] of state.decided) {
    state.decided.delete(tradeId)
    for (const waiting of state.owed) {
      const held = state.held.get(waiting)
      if (held === undefined || held.place !== 'owed') state.owed.delete(waiting)
      else settleSides(state, held, { decided: [tradeId], isSettled }, context)
    }
  }
}

function settleSides(
  state: SettlementState,
  held: Held,
  { decided, isSettled }: { readonly decided: readonly TradeId[]; readonly isSettled: boolean },
  context: SettlementContext,
): void {
  const { owed, trade } = held
  if (owed === undefined) return
  for (const side of owed.sides) {
    for (const tradeId of decided) {
      const change = side.changes.get(tradeId)
      if (change === undefined) continue
      side.changes.delete(tradeId)
      if (isSettled) side.has += change
    }
  }
  if (owed.sides.some(({ changes }) => changes.size > 0)) return
  if (owed.sides.every(({ has, needs }) => has >= needs)) {
    requeue(state, trade.tradeId, 0)
    return
  }
  const { reason, fault } = owed.refusal
  end(state, trade.tradeId, { status: 'failed', reason, fault }, context)
}
