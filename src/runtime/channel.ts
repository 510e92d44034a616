/**
 * The typed, batched channel over a `MessagePort`: the data plane between threads.
 *
 * What is sent in one turn of the event loop travels as one `postMessage`, because a message costs
 * several times what its content costs. The flush runs in the check phase of the loop, right after
 * the sockets of this turn were read: under load many messages share one flush, and an idle system
 * sends at once. Messages keep their order, so an event that is told before an answer is heard
 * before it.
 *
 * A request always gets an answer: the peer's, or `Unanswered` when the channel is closed, too much
 * is in flight, or the deadline has passed. The wire form of a batch is one flat array of triples:
 * `type, id, message`; id 0 expects no answer, and type 0 is an answer to request `id`.
 */

import type { MessagePort } from 'node:worker_threads'
import type { Protocol } from './actor.ts'

/**
 * Why a request has no answer of its peer. Except for `full`, which is said before anything is
 * sent, nobody knows whether the peer acted on it.
 */
export type Unanswered = { readonly unanswered: 'closed' | 'full' | 'late' }

export function isUnanswered(answer: unknown): answer is Unanswered {
  return typeof answer === 'object' && answer !== null && 'unanswered' in answer
}

const CLOSED: Unanswered = { unanswered: 'closed' }
const FULL: Unanswered = { unanswered: 'full' }
const LATE: Unanswered = { unanswered: 'late' }

export type ChannelOptions = {
  /** Requests without an answer yet; one more is answered `full`. */
  readonly inFlightMax: number
  /** Messages in one `postMessage`. */
  readonly batchMax: number
  /** How long a request waits for its answer, unless it says otherwise. */
  readonly deadlineMs: number
}

/** What a channel does with what it hears. */
export type Hearing = {
  /** `replyTo` is 0 when no answer is expected. The message belongs to the hearer. */
  heard(type: string, message: unknown, replyTo: number): void
  /** The other end is gone, or this end was closed. Called once. */
  closed?(): void
}

type Waiting = { resolve: (answer: unknown) => void; dueMs: number }

const ANSWER = 0

/** How often deadlines are looked at; a deadline is kept within this much. */
const SWEEP_MS = 50

export class Channel<Out extends Protocol> {
  readonly #port: MessagePort
  readonly #options: ChannelOptions
  readonly #hearing: Hearing
  readonly #waiting = new Map<number, Waiting>()
  #outbox: unknown[] = []
  #flushPlanned = false
  #nextId = 1
  #open = true
  #sweeper: NodeJS.Timeout | undefined

  constructor(port: MessagePort, options: ChannelOptions, hearing: Hearing) {
    this.#port = port
    this.#options = options
    this.#hearing = hearing
    port.on('message', (batch: unknown[]) => this.#receive(batch))
    port.on('close', () => this.#end())
  }

  get isOpen(): boolean {
    return this.#open
  }

  get inFlight(): number {
    return this.#waiting.size
  }

  /** Asks and waits for the answer; resolves always and never rejects. */
  ask<K extends keyof Out & string>(
    type: K,
    message: Out[K]['takes'],
    deadlineMs: number = this.#options.deadlineMs,
  ): Promise<Out[K]['answers'] | Unanswered> {
    if (!this.#open) return Promise.resolve(CLOSED)
    if (this.#waiting.size >= this.#options.inFlightMax) return Promise.resolve(FULL)
    const id = this.#nextId++
    if (this.#sweeper === undefined) this.#startSweeping()
    return new Promise((resolve) => {
      this.#waiting.set(id, { resolve, dueMs: performance.now() + deadlineMs })
      this.#send(type, id, message)
    })
  }

  /** Says something that needs no answer. Nothing is said on a closed channel. */
  tell<K extends keyof Out & string>(type: K, message: Out[K]['takes']): void {
    if (this.#open) this.#send(type, 0, message)
  }

  /** Answers a request that was heard. */
  reply(replyTo: number, answer: unknown): void {
    if (this.#open && replyTo !== 0) this.#send(ANSWER, replyTo, answer)
  }

  /** Sends what is waiting now, without waiting for the end of the turn. */
  flush(): void {
    this.#flushPlanned = false
    if (this.#outbox.length === 0 || !this.#open) return
    const batch = this.#outbox
    this.#outbox = []
    this.#port.postMessage(batch)
  }

  /** Lets nothing more in or out. What was already sent is still delivered to the peer. */
  close(): void {
    if (!this.#open) return
    this.flush()
    this.#port.close()
    this.#end()
  }

  #send(type: string | typeof ANSWER, id: number, message: unknown): void {
    this.#outbox.push(type, id, message)
    if (this.#outbox.length >= this.#options.batchMax * 3) {
      this.flush()
    } else if (!this.#flushPlanned) {
      this.#flushPlanned = true
      setImmediate(() => this.flush())
    }
  }

  #receive(batch: unknown[]): void {
    for (let i = 0; i + 2 < batch.length; i += 3) {
      const type = batch[i]
      const id = batch[i + 1] as number
      if (type === ANSWER) {
        const waiting = this.#waiting.get(id)
        // An answer that comes after its deadline finds nobody waiting.
        if (waiting === undefined) continue
        this.#waiting.delete(id)
        waiting.resolve(batch[i + 2])
      } else {
        this.#hearing.heard(type as string, batch[i + 2], id)
      }
    }
  }

  #startSweeping(): void {
    this.#sweeper = setInterval(() => {
      const now = performance.now()
      for (const [id, waiting] of this.#waiting) {
        if (waiting.dueMs > now) continue
        this.#waiting.delete(id)
        waiting.resolve(LATE)
      }
    }, SWEEP_MS)
    this.#sweeper.unref()
  }

  #end(): void {
    if (!this.#open) return
    this.#open = false
    this.#outbox = []
    clearInterval(this.#sweeper)
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const { resolve } of waiting) resolve(CLOSED)
    this.#hearing.closed?.()
  }
}
