/**
 * Handles sessions that have ended: cancels their orders, or lets the orders outlive the session. The markets' logs
 * name the session of each order, so the remaining work can be derived from the index at any time, also after a
 * restart.
 */

import type { OrderHash } from '#domain/ids.ts'
import { isRejection } from '#domain/rejection.ts'
import type { HeldOrder, SessionIndex } from '../held.ts'

/** Maximum number of concurrent cancels. The limit lets commands of traders run between the cancels. */
const CANCELS_AT_ONCE = 256
/** After a session has ended, an order in flight may still reach its market within this time. */
const LATE_ORDERS_MS = 30_000

/** Sends a command about an order to its market. */
type Send = (
  type: 'CancelOrder' | 'KeepOrder',
  order: HeldOrder,
  answered: (answer: unknown) => void,
) => void

/**
 * Calls `answered` with true once all commands received so far are durable, or with false if that cannot be confirmed.
 */
type Prove = (answered: (isSure: boolean) => void) => void

type Ended = {
  readonly session: string
  untilMs: number
  /** Number of cancels that wait or are in flight. */
  left: number
  isProving: boolean
  /** True if the front ended the session. False if the session only counts as ended because its front is lost. */
  isFinal: boolean
  /** Called when all orders are cancelled. */
  readonly done: (() => void)[]
}

export class SessionEnds {
  readonly #index: SessionIndex
  readonly #send: Send
  /** True while some markets are not loaded, so that the index does not contain their orders. */
  readonly #isAway: () => boolean
  readonly #prove: Prove
  readonly #ended = new Map<string, Ended>()
  /** Orders that will outlive their session, but whose market has not logged this yet. */
  readonly #keeping = new Map<OrderHash, { readonly session: string; readonly order: HeldOrder }>()
  readonly #waiting: { readonly ended: Ended; readonly order: HeldOrder }[] = []
  #asked = 0
  #proceeding = false

  constructor(
    index: SessionIndex,
    send: Send,
    isAway: () => boolean = () => false,
    prove: Prove = (answered) => answered(true),
  ) {
    this.#index = index
    this.#send = send
    this.#isAway = isAway
    this.#prove = prove
  }

  /**
   * Cancels the orders of a session that the front has ended. Orders that arrive up to 30 s later are cancelled by
   * `retry`. Calls `done` when all orders are cancelled.
   */
  end(session: string, nowMs: number, done: () => void): void {
    const ended = this.#end(session, nowMs)
    ended.isFinal = true
    ended.done.push(done)
    this.#start(ended)
  }

  /** Cancels the orders of a session whose front is lost, until a front continues the session. */
  suspend(session: string, nowMs: number): void {
    this.#start(this.#end(session, nowMs))
  }

  #end(session: string, nowMs: number): Ended {
    const untilMs = nowMs + LATE_ORDERS_MS
    const ended = this.#ended.get(session) ?? newEnded(session)
    ended.untilMs = untilMs
    this.#ended.set(session, ended)
    return ended
  }

  #start(ended: Ended): void {
    // If cancels are already in flight, `retry` later finds the orders that were placed since.
    if (ended.left === 0) this.#cancel(ended)
  }

  /**
   * Stops cancelling the orders of a session that is alive: its front has claimed the session again, or has sent an
   * order of the session. Returns false if the front has ended the session, because an order that arrives after the end
   * does not revive the session.
   */
  continue(session: string, orderHash?: OrderHash): boolean {
    if (orderHash !== undefined) this.#keeping.delete(orderHash)
    if (this.#ended.get(session)?.isFinal === true) return false
    this.#ended.delete(session)
    return true
  }

  /** Returns whether the session's orders are being cancelled or kept. */
  isHandled(session: string): boolean {
    if (this.#ended.has(session)) return true
    return [...this.#keeping.values()].some((kept) => kept.session === session)
  }

  /** Marks the session's current orders to stay in the book after the session ends. */
  keep(session: string): void {
    for (const order of this.#index.ordersOf(session)) {
      this.#keeping.set(order.orderHash, { session, order })
      this.#keep(session, order)
    }
  }

  /**
   * Repeats cancels and keep commands that failed, and cancels orders that arrived after their session had ended.
   * Called from time to time.
   */
  retry(nowMs: number): void {
    for (const ended of [...this.#ended.values()]) {
      if (ended.left > 0) continue
      if (this.#index.sizeOf(ended.session) > 0) this.#cancel(ended)
      else this.#finish(ended)
      const isDone = ended.left === 0 && ended.done.length === 0
      if (isDone && nowMs >= ended.untilMs) this.#ended.delete(ended.session)
    }
    for (const { session, order } of [...this.#keeping.values()]) this.#keep(session, order)
  }

  #cancel(ended: Ended): void {
    const orders = this.#index.ordersOf(ended.session)
    ended.left = orders.length
    for (const order of orders) this.#waiting.push({ ended, order })
    this.#finish(ended)
    this.#proceed()
  }

  /**
   * Calls the `done` callbacks of `end` once all earlier commands are durable. It must wait for two reasons. A cancel
   * that the index already shows is lost if its append to the log fails. A waiting command may still add an order of
   * the session.
   */
  #finish(ended: Ended): void {
    if (ended.isProving || ended.done.length === 0 || !this.#isOver(ended)) return
    ended.isProving = true
    this.#prove((isSure) => {
      ended.isProving = false
      // If durability is not confirmed or orders are left, `retry` tries again.
      if (!isSure || !this.#isOver(ended)) return
      for (const done of ended.done.splice(0)) done()
    })
  }

  #isOver(ended: Ended): boolean {
    return ended.left === 0 && this.#index.sizeOf(ended.session) === 0 && !this.#isAway()
  }

  #proceed(): void {
    // `#send` may call back immediately, and the callback calls this function again. The loop of the outer call then
    // sends the next cancel.
    if (this.#proceeding) return
    this.#proceeding = true
    while (this.#asked < CANCELS_AT_ONCE) {
      const next = this.#waiting.pop()
      if (next === undefined) break
      const { ended, order } = next
      if (this.#ended.get(ended.session) !== ended) continue
      this.#asked++
      this.#send('CancelOrder', order, (answer) => {
        this.#asked--
        ended.left--
        // The order is no longer open. A failed trade may have ended it without an event, so the index is corrected
        // here.
        if (!isOpen(answer)) this.#index.delete(ended.session, order.orderHash)
        this.#finish(ended)
        this.#proceed()
      })
    }
    this.#proceeding = false
  }

  #keep(session: string, order: HeldOrder): void {
    const { orderHash } = order
    const isKept = () => !this.#index.has(session, orderHash)
    if (isKept()) this.#keeping.delete(orderHash)
    else {
      this.#send('KeepOrder', order, (answer) => {
        // A filled order is in no book and cannot be marked. It stays in `#keeping` for `retry`, in case a failed trade
        // returns its quantity.
        if (!isRejection(answer) && isKept()) this.#keeping.delete(orderHash)
      })
    }
  }
}

function newEnded(session: string): Ended {
  return { session, untilMs: 0, left: 0, isProving: false, isFinal: false, done: [] }
}

/** Returns true if the order may still be open after this answer to its cancel. */
function isOpen(answer: unknown): boolean {
  return isRejection(answer) && OPEN_ANSWERS.has(answer.rejected)
}

const OPEN_ANSWERS: ReadonlySet<string> = new Set(['OVERLOADED', 'OUTCOME_UNKNOWN'])
