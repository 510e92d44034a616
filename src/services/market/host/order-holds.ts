/**
 * Orders that are to be cancelled when the front that vouches for them is gone. A market thread keeps
 * them by the channel of their front, from when the command that places them arrives, in memory: they say
 * how long a client is connected. A front that lives cancels by itself and drops the session here. That an
 * order is held at all is in the log too (`market/held.ts`), for when this thread is gone as well: what no front
 * claims soon after a restart is cancelled.
 */

import type { MarketId, OrderHash } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { MarketProtocol } from '#protocol/market.ts'
import type { HeldOrder, HoldsProtocol } from '#protocol/market-followers.ts'
import type { MarketState } from '../state.ts'

/** Orders that the sessions of one front may hold at one market thread. */
const HELD_ORDERS_MAX = 1_000_000

/** One handler per message of fronts about the orders of their sessions. */
type HoldHandlers = {
  readonly [K in keyof HoldsProtocol]: (
    message: HoldsProtocol[K]['takes'],
  ) => HoldsProtocol[K]['answers']
}

export class OrderHolds {
  /** Told of orders that stay although their session held them. */
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
      // Those of a session that has ended are cancelled by now; others stay.
      this.#kept([...orders.values()])
    },
    DropSessions: () => {
      this.takeAll()
    },
  }

  /** Keeps the order of a command that names a session; a rejection forbids to go on with it. */
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

  /** Everything that is held, once: nothing is afterwards. */
  takeAll(): HeldOrder[] {
    const all = [...this.#sessions.values()].flatMap((orders) => [...orders.values()])
    this.#sessions.clear()
    this.#count = 0
    return all
  }
}

/** Orders that the logs of these markets have as held, and that none of the fronts holds. */
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

/** Cancels of orphaned orders that are under way at once; the commands of traders come in between. */
const CANCELS_AT_ONCE = 256

/**
 * Orders whose front is gone, until their market has said what became of each. While a market cannot
 * be asked, because its log is away or too many wait, its orders are kept and asked for again.
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

  /** Orders that are not known to have ended. */
  get size(): number {
    return this.#waiting.length + this.#again.length + this.#asked
  }

  add(orders: readonly HeldOrder[]): void {
    for (const order of orders) this.#waiting.push(order)
    this.#proceed()
  }

  /** To be called now and then. */
  retry(): void {
    if (this.#again.length === 0) return
    this.add(this.#again.splice(0))
  }

  #proceed(): void {
    // An answer may come within the call that asks; the loop that asked goes on by itself.
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

/** Whether it is not known yet what becomes of it. */
function isOpen(answer: unknown): boolean {
  return isRejection(answer) && OPEN_ANSWERS.has(answer.rejected)
}

const OPEN_ANSWERS: ReadonlySet<string> = new Set(['OVERLOADED', 'OUTCOME_UNKNOWN'])
