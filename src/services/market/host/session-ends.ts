/**
 * Ends sessions: cancels their orders, or keeps them. The markets' logs name the session of each order, so the
 * remaining work can be derived from the index at any time, also after a restart.
 */

import type { OrderHash } from '#domain/ids.ts'
import { isRejection } from '#domain/rejection.ts'
import type { HeldOrder, SessionIndex } from '../held.ts'

/** Concurrent cancels; traders' commands are handled in between. */
const CANCELS_AT_ONCE = 256
/** Time after the end of a session in which an order in flight may still reach its market. */
const LATE_ORDERS_MS = 30_000

/** Sends a command about an order to its market. */
type Send = (
  type: 'CancelOrder' | 'KeepOrder',
  order: HeldOrder,
  answered: (answer: unknown) => void,
) => void

/** Calls back when every command that has arrived is durable; with false if that is not known. */
type Prove = (answered: (isSure: boolean) => void) => void

type Ended = {
  readonly session: string
  untilMs: number
  /** Cancels that wait or were sent. */
  left: number
  isProving: boolean
  /** Called when all orders are cancelled. */
  readonly done: (() => void)[]
}

export class SessionEnds {
  readonly #index: SessionIndex
  readonly #send: Send
  /** True while some markets are not loaded: the index lacks their orders. */
  readonly #isAway: () => boolean
  readonly #prove: Prove
  readonly #ended = new Map<string, Ended>()
  /** Orders that stay although their session held them, until their market has recorded that. */
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

  /** Cancels the orders of a session, now and as long as one may arrive. */
  end(session: string, nowMs: number, done: () => void = () => {}): void {
    const untilMs = nowMs + LATE_ORDERS_MS
    const ended = this.#ended.get(session) ?? newEnded(session)
    ended.untilMs = untilMs
    ended.done.push(done)
    this.#ended.set(session, ended)
    // While cancels are in flight, `retry` finds the orders that were placed since.
    if (ended.left === 0) this.#cancel(ended)
  }

  /** The session is alive: its front was away for a moment, or sent an order for it. */
  continue(session: string, orderHash?: OrderHash): void {
    if (orderHash !== undefined) this.#keeping.delete(orderHash)
    const ended = this.#ended.get(session)
    if (ended === undefined) return
    this.#ended.delete(session)
    for (const done of ended.done.splice(0)) done()
  }

  /** Returns whether its orders are being cancelled or kept. */
  isHandled(session: string): boolean {
    if (this.#ended.has(session)) return true
    return [...this.#keeping.values()].some((kept) => kept.session === session)
  }

  /** Keeps the orders that the session holds now. */
  keep(session: string): void {
    for (const order of this.#index.ordersOf(session)) {
      this.#keeping.set(order.orderHash, { session, order })
      this.#keep(session, order)
    }
  }

  /** Repeats commands that were not answered or came too late. Called from time to time. */
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

  /** The index may contain changes that are not durable yet, and may lack orders that wait in a mailbox. */
  #finish(ended: Ended): void {
    if (ended.isProving || ended.done.length === 0 || !this.#isOver(ended)) return
    ended.isProving = true
    this.#prove((isSure) => {
      ended.isProving = false
      // Otherwise `retry` tries again.
      if (!isSure || !this.#isOver(ended)) return
      for (const done of ended.done.splice(0)) done()
    })
  }

  #isOver(ended: Ended): boolean {
    return ended.left === 0 && this.#index.sizeOf(ended.session) === 0 && !this.#isAway()
  }

  #proceed(): void {
    // An answer may arrive during the call that sends; the outer loop then continues.
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
        // A failed trade may have ended the order without an event of its own.
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
        // A filled order cannot be marked; it is kept when a failed trade returns its quantity.
        if (!isRejection(answer) && isKept()) this.#keeping.delete(orderHash)
      })
    }
  }
}

function newEnded(session: string): Ended {
  return { session, untilMs: 0, left: 0, isProving: false, done: [] }
}

/** True if it is not known yet whether the order ends. */
function isOpen(answer: unknown): boolean {
  return isRejection(answer) && OPEN_ANSWERS.has(answer.rejected)
}

const OPEN_ANSWERS: ReadonlySet<string> = new Set(['OVERLOADED', 'OUTCOME_UNKNOWN'])
