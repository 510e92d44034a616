/**
 * Orders that are to be cancelled when the front that vouches for them is gone. A market thread keeps
 * them by the channel of their front, in memory only: they say how long a client is connected, and
 * nothing about a market. A front that lives cancels by itself and drops the session here.
 */

import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import type { Side } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'

export type HeldOrder = {
  readonly marketId: MarketId
  readonly orderHash: OrderHash
  readonly side: Side
  readonly trader: Address
}

export type HoldsProtocol = {
  /** To be asked before the order is placed, so that there is no moment in which nobody holds it. */
  HoldOrder: {
    takes: { session: string; order: HeldOrder }
    answers: { held: true } | Rejection
  }
  /** The order has ended, or was not placed. */
  ReleaseOrder: { takes: { session: string; orderHash: OrderHash }; answers: undefined }
  /** The session is over and its orders are cancelled, or it does not want this any more. */
  DropSession: { takes: { session: string }; answers: undefined }
}

/** Orders that the sessions of one front may hold at one market thread. */
export const HELD_ORDERS_MAX = 1_000_000

export class OrderHolds {
  readonly #sessions = new Map<string, Map<OrderHash, HeldOrder>>()
  #count = 0

  /** Whether the message is one of these. */
  hears(type: string): type is keyof HoldsProtocol {
    return type === 'HoldOrder' || type === 'ReleaseOrder' || type === 'DropSession'
  }

  hear<K extends keyof HoldsProtocol>(type: K, message: unknown): HoldsProtocol[K]['answers']
  hear(type: keyof HoldsProtocol, message: unknown): unknown {
    if (type === 'HoldOrder') return this.#hold(message as HoldsProtocol['HoldOrder']['takes'])
    const { session } = message as { session: string }
    const orders = this.#sessions.get(session)
    if (orders === undefined) return undefined
    if (type === 'ReleaseOrder') {
      const { orderHash } = message as HoldsProtocol['ReleaseOrder']['takes']
      if (orders.delete(orderHash)) this.#count--
    } else {
      this.#count -= orders.size
      orders.clear()
    }
    if (orders.size === 0) this.#sessions.delete(session)
    return undefined
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
