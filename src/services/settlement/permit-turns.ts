/**
 * Decides when the unused permits of an owner are sent together and when one at a time. A permit is public as soon as
 * its transaction is in the pool, and any account may submit it first. For a single permit this is harmless, because
 * the resulting allowance is the same. But each permit replaces the allowance of the owner's previous permit. If
 * another account submits two permits early, only the allowance of the second permit remains, and the trade of the
 * first permit uses it up. So a transaction contains at most one unused permit of an owner, the one with the lowest
 * nonce. The next permit waits for its turn, until that transaction is in a block.
 *
 *     waiting: A1 (permit 0)  A2 (permit 1)  A3 (no permit)      sent now: A1 A3      A2, once A1 is mined
 *
 * There is an exception: all permits of an owner are sent at once if each also covers the payments under the owner's
 * earlier permits. Each remaining allowance is then sufficient. If the exchange reserves funds, it accepts only orders
 * with such permits (`accounts/judge.ts`). Otherwise a trader could delay a trade by unused permits with lower nonces.
 * The trader's actions during the delay would then decide whether the trade settles.
 *
 * The permit whose turn it is may belong to a trade that waits for older trades (`older-trades.ts`). The trade keeps
 * the turn only if none of these older trades waits for a turn. Otherwise two trades could wait for each other, and
 * would block the chain's settlement until their deadline. A mint may contain permits of both sides, and then needs the
 * turns of both.
 */

import { type Address, type OrderHash, type TradeId, ZERO_ADDRESS } from '#domain/ids.ts'
import type { PermitSignature } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { isCarriable } from './chain/settlement-batch.ts'
import type { PendingSettlement, SettlementState, Stage } from './state.ts'
import { isPaying, SIDES, type TradeSide, takenFrom } from './trade-sides.ts'
import { byAge } from './turns.ts'

const ON_ITS_WAY: ReadonlySet<Stage> = new Set(['submitting', 'sent'])

export function onePermitEach(
  state: SettlementState,
  waiting: readonly TradeToSettle[],
): readonly TradeToSettle[] {
  if (waiting.every((trade) => permitsOf(state, trade).length === 0)) return waiting
  const covering = coveringOwners(state)
  const turn = permitsInFlight(state)
  const next = new Map<OrderHash, TradeToSettle>()
  for (const { trade, order } of byNonce(state)) {
    if (!turn.has(order.trader)) turn.set(order.trader, order.orderHash)
    if (!next.has(order.orderHash)) next.set(order.orderHash, trade)
  }
  const waitsFor = (trade: TradeToSettle): PermittedOrder | undefined =>
    permitsOf(state, trade).find(
      ({ trader, orderHash }) => !covering.has(trader) && turn.get(trader) !== orderHash,
    )
  const blocking = (trade: TradeToSettle): TradeToSettle | undefined => {
    const first = turn.get(waitsFor(trade)?.trader ?? ZERO_ADDRESS)
    return first === undefined ? undefined : next.get(first)
  }
  return waiting.filter((trade) => waitsFor(trade) === undefined || isFirstOfRing(trade, blocking))
}

/**
 * Returns whether the trade is the oldest of a ring of mints that wait for each other's permits. Example: one mint has
 * Ann's first permit and Bob's second; another mint has Bob's first and Ann's second. The oldest mint of a ring is sent
 * together with the earlier permits of its owners.
 */
function isFirstOfRing(
  trade: TradeToSettle,
  blocking: (trade: TradeToSettle) => TradeToSettle | undefined,
): boolean {
  const passed = new Set<TradeId>()
  let at: TradeToSettle | undefined = trade
  while (at !== undefined && !passed.has(at.tradeId)) {
    if (byAge(at, trade) < 0) return false
    passed.add(at.tradeId)
    at = blocking(at)
  }
  return at?.tradeId === trade.tradeId
}

/**
 * Returns the owners whose permits may be sent together. For such an owner, each permit except the one with the lowest
 * nonce covers the sum of the payments under this permit and all earlier permits. The sum leaves out payments whose
 * permit is used, and payments that a block has decided, even if the block is not final.
 */
function coveringOwners(state: SettlementState): ReadonlySet<Address> {
  const decided = new Set(
    [...state.flight.batches.values()].flatMap(({ mined, tradeIds }) => (mined ? tradeIds : [])),
  )
  const payments = [...state.trades.values()]
    .filter(
      ({ stage, trade }) => stage !== 'ended' && !(stage === 'sent' && decided.has(trade.tradeId)),
    )
    .flatMap(({ trade }) => permitsOf(state, trade).map((order) => ({ ...order, trade })))
  const covering = new Set<Address>()
  for (const [trader, own] of Map.groupBy(payments, (payment) => payment.trader)) {
    if (!own.every(({ permit }) => isCarriable(permit))) continue
    const ofNonce = [...Map.groupBy(own, ({ permit }) => BigInt(permit.nonce))]
    let owed = 0n
    const isCovering = ofNonce
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .every(([, paid], at) => {
        for (const { trade, side } of paid) owed += takenFrom(trade, side).amount
        return at === 0 || paid.every(({ permit }) => BigInt(permit.value) >= owed)
      })
    if (isCovering) covering.add(trader)
  }
  return covering
}

/** Returns, for each owner, the order whose permit is in a sent transaction that is in no block yet. */
function permitsInFlight(state: SettlementState): Map<Address, OrderHash> {
  const inFlight = new Map<Address, OrderHash>()
  for (const { mined, ended, tradeIds } of state.flight.batches.values()) {
    if (mined || ended) continue
    for (const tradeId of tradeIds) {
      const trade = state.trades.get(tradeId)?.trade
      if (trade === undefined) continue
      for (const { trader, orderHash } of permitsOf(state, trade)) inFlight.set(trader, orderHash)
    }
  }
  return inFlight
}

type PermittedOrder = {
  readonly trader: Address
  readonly side: TradeSide
  readonly orderHash: OrderHash
  readonly permit: PermitSignature
}

/** Returns the orders of a trade that pay dollars and have an unused permit: at most one, or two in a mint. */
function permitsOf({ flight }: SettlementState, trade: TradeToSettle): PermittedOrder[] {
  return SIDES.filter((side) => isPaying(trade, side)).flatMap((side) => {
    const { orderHash, permit } = side === 'buyer' ? trade.buy : trade.sell
    if (permit === undefined || flight.usedPermits.has(orderHash)) return []
    return [{ trader: trade[side], side, orderHash, permit }]
  })
}

/** Returns the trader's permit from this trade, if it is unused. */
export function permitOf(
  state: SettlementState,
  trade: TradeToSettle,
  trader: Address,
): PermitSignature | undefined {
  return permitsOf(state, trade).find((order) => order.trader === trader)?.permit
}

/**
 * True if both trades have unused permits of the same owner, and the permit of the first trade has the lower nonce.
 */
export function isPermitBefore(
  state: SettlementState,
  first: TradeToSettle,
  second: TradeToSettle,
): boolean {
  return permitsOf(state, first).some(({ trader, permit }) => {
    const after = permitOf(state, second, trader)
    return after !== undefined && Number(permit.nonce) < Number(after.nonce)
  })
}

/**
 * Returns true if every trade that the given trade waits for can proceed without a permit turn. This is so if each of
 * them is decided, being submitted, sent, or queued without an unused permit.
 */
function waitsForNoTurn(state: SettlementState, { missing }: PendingSettlement): boolean {
  const isFree = (tradeId: TradeId): boolean => {
    const pending = state.trades.get(tradeId)
    if (pending === undefined || ON_ITS_WAY.has(pending.stage)) return true
    return pending.stage === 'queued' && permitsOf(state, pending.trade).length === 0
  }
  return missing?.sides.every(({ changes }) => [...changes.keys()].every(isFree)) === true
}

/**
 * Returns every order with an unused permit, together with its trade, sorted by the permit's nonce. Leaves
 * out trades that cannot be sent now.
 */
function byNonce(
  state: SettlementState,
): readonly { readonly trade: TradeToSettle; readonly order: PermittedOrder }[] {
  return [...state.trades.values()]
    .filter((pending) => pending.retries === 0 && permitsOf(state, pending.trade).length > 0)
    .filter(
      (pending) =>
        pending.stage === 'queued' ||
        (pending.stage === 'awaitingOlder' && waitsForNoTurn(state, pending)),
    )
    .flatMap(({ trade }) => permitsOf(state, trade).map((order) => ({ trade, order })))
    .map((each) => ({ ...each, nonce: Number(each.order.permit.nonce) }))
    .map((each) => (Number.isNaN(each.nonce) ? { ...each, nonce: Number.POSITIVE_INFINITY } : each))
    .sort((a, b) => (a.nonce === b.nonce ? 0 : a.nonce - b.nonce))
}
