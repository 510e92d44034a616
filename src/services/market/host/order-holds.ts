/**
 * Orders that are cancelled if the front of their session dies. A market thread keeps them in memory by the channel of
 * their front, from the arrival of the command that places them. A live front cancels its orders itself and then drops
 * the session here. The log also marks these orders (`market/held.ts`): after a restart of this thread, orders that no
 * front reclaims soon are cancelled.
 */

import type { MarketId, OrderHash } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { MarketProtocol } from '#protocol/market.ts'
import type { HeldOrder, HoldsProtocol } from '#protocol/market-followers.ts'
import type { MarketState } from '../state.ts'

/** Maximum number of session orders of one front at one market thread. */
const HELD_ORDERS_MAX = 1_000_000

/** One handler per message of fronts about the orders of their sessions. */
type HoldHandlers = {
  readonly [K in keyof HoldsProtocol]: (
    message: HoldsProtocol[K]['takes'],
  ) => HoldsProtocol[K]['answers']
}

export class OrderHolds {
  /** Called with orders that stay although their session held them. */
  readonly #kept: (orders: readonly HeldOrder[]) => void
  readonly #sessions = new Map<string, Map<OrderHash, HeldOrder>>()
  #count = 0

  constructor(kept: (orders: readonly HeldOrder[]) => void = () => {}) {
    this.#kept = kept
  }

  *hashes(): Generator<OrderHash> {
    for (const orders of this.#sessions.values()) yield* orders.keys()
  }

  readonly handlers: HoldHandlers = {
    HoldOrder: (message) => this.#hold(message),
    ReleaseOrder: ({ session, orderHash }) => {
      const orders = this.#sessions.get(session)
      if (orders?.delete(orderHash)) this.#count--
      if (orders?.size === 0) this.#sessions.delete(session)
    },
    DropSession: ({ session }) => {
      const orders = this.#sessions.get(session)
      if (orders === undefined) return
      this.#count -= orders.size
      this.#sessions.delete(session)
      // Orders of an ended session are cancelled by now; the others stay.
      this.#kept([...orders.values()])
    },
    DropSessions: () => {
      this.takeAll()
    },
  }

  /** Registers the order of a command with a session; the command must not proceed after a rejection. */
  placed({ session, order }: MarketProtocol['PlaceOrder']['takes']): Rejection | undefined {
    if (session === undefined) return undefined
    const { marketId, orderHash, side, trader } = order
    const held = this.#hold({ session, order: { marketId, orderHash, side, trader } })
    return isRejection(held) ? held : undefined
  }

  #hold({ session, order }: HoldsProtocol['HoldOrder']['takes']): { held: true } | Rejection {
    if (this.#count >= HELD_ORDERS_MAX) return reject('OVERLOADED')
    const orders = this.#sessions.get(session) ?? new Map<OrderHash, HeldOrder>()
    this.#sessions.set(session, orders)
    if (!orders.has(order.orderHash)) this.#count++
    orders.set(order.orderHash, order)
    return { held: true }
  }

  /** Removes and returns all session orders. */
  takeAll(): HeldOrder[] {
    const all = [...this.#sessions.values()].flatMap((orders) => [...orders.values()])
    this.#sessions.clear()
    this.#count = 0
    return all
  }
}

/** Returns orders that the logs mark as session orders and that no front has reclaimed. */
export function unclaimedHolds(
  markets: ReadonlyMap<MarketId, { readonly state: Pick<MarketState, 'held'> }>,
  fronts: Iterable<OrderHolds>,
): HeldOrder[] {
  const claimed = new Set<OrderHash>()
  for (const front of fronts) for (const orderHash of front.hashes()) claimed.add(orderHash)
  const unclaimed: HeldOrder[] = []
  for (const [marketId, { state }] of markets) {
    for (const order of state.held.all(marketId)) {
      if (!claimed.has(order.orderHash)) unclaimed.push(order)
    }
  }
  return unclaimed
}

/** Concurrent cancels of orphaned orders; traders' commands are handled in between. */
const CANCELS_AT_ONCE = 256

/**
 * Orders of a dead front, until their market has answered each cancel. If a market cannot answer, because its log is
 * away or its queue is full, its orders are kept and retried.
 */
export class OrphanedOrders {
  readonly #cancel: (order: HeldOrder, answered: (answer: unknown) => void) => void
  #waiting: HeldOrder[] = []
  #again: HeldOrder[] = []
  #asked = 0
  #proceeding = false

  constructor(cancel: (order: HeldOrder, answered: (answer: unknown) => void) => void) {
    this.#cancel = cancel
  }

  /** Number of orders that are not known to have ended. */
  get size(): number {
    return this.#waiting.length + this.#again.length + this.#asked
  }

  add(orders: readonly HeldOrder[]): void {
    for (const order of orders) this.#waiting.push(order)
    this.#proceed()
  }

  /** Called from time to time. */
  retry(): void {
    if (this.#again.length === 0) return
    this.add(this.#again.splice(0))
  }

  #proceed(): void {
    // An answer may arrive during the call that asks; the outer loop continues by itself.
    if (this.#proceeding) return
    this.#proceeding = true
    while (this.#asked < CANCELS_AT_ONCE) {
      const order = this.#waiting.pop()
      if (order === undefined) break
      this.#asked++
      this.#cancel(order, (answer) => {
        this.#asked--
        if (isOpen(answer)) this.#again.push(order)
        this.#proceed()
      })
    }
    this.#proceeding = false
  }
}

/** True if the fate of the order is not known yet. */
function isOpen(answer: unknown): boolean {
  return isRejection(answer) && OPEN_ANSWERS.has(answer.rejected)
}

const OPEN_ANSWERS: ReadonlySet<string> = new Set(['OVERLOADED', 'OUTCOME_UNKNOWN'])
