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
 * `type, id, message`; id 0 expects no answer, and type 0 is an answer to request `id`. After them
 * comes the time at which the batch was sent, so that waiting on the way can be told from work.
 */

import assert from 'node:assert/strict'
import type { MessagePort } from 'node:worker_threads'
import type { Protocol } from './actor.ts'
import { monotonicMs } from './clock.ts'

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

const ANSWER = 0

/** How often deadlines are looked at; a deadline is kept within this much. */
const SWEEP_MS = 25

/**
 * A request id is a slot, reused, and a generation, counted up at each use: an answer that comes
 * after its deadline does not fit the slot's generation any more and finds nobody waiting. Both
 * together stay a small integer, which is what makes them cheap.
 */
const SLOT_BITS = 16
const SLOT_MASK = (1 << SLOT_BITS) - 1
const GENERATION_MASK = (1 << 14) - 1

/** Who waits for the answers: one slot each, freed slots first. */
class WaitingRoom {
  readonly #resolvers: (((answer: unknown) => void) | undefined)[] = []
  readonly #generations: number[] = []
  readonly #dueTicks: number[] = []
  readonly #free: number[] = []
  size = 0

  enter(resolve: (answer: unknown) => void, dueTick: number): number {
    const slot = this.#free.pop() ?? this.#resolvers.length
    const generation = ((this.#generations[slot] ?? 0) + 1) & GENERATION_MASK
    this.#resolvers[slot] = resolve
    this.#generations[slot] = generation
    this.#dueTicks[slot] = dueTick
    this.size++
    // One more than needed, because id 0 means that no answer is expected.
    return ((generation << SLOT_BITS) | slot) + 1
  }

  leave(id: number): ((answer: unknown) => void) | undefined {
    const slot = (id - 1) & SLOT_MASK
    if (this.#generations[slot] !== (id - 1) >>> SLOT_BITS) return undefined
    const resolve = this.#resolvers[slot]
    if (resolve === undefined) return undefined
    this.#vacate(slot)
    return resolve
  }

  /** Those whose time has passed, or all. */
  dismiss(untilTick: number): ((answer: unknown) => void)[] {
    const dismissed: ((answer: unknown) => void)[] = []
    for (let slot = 0; slot < this.#resolvers.length; slot++) {
      const resolve = this.#resolvers[slot]
      if (resolve === undefined || (this.#dueTicks[slot] ?? 0) > untilTick) continue
      this.#vacate(slot)
      dismissed.push(resolve)
    }
    return dismissed
  }

  #vacate(slot: number): void {
    this.#resolvers[slot] = undefined
    this.#free.push(slot)
    this.size--
  }
}

export class Channel<Out extends Protocol> {
  readonly #port: MessagePort
  readonly #options: ChannelOptions
  readonly #hearing: Hearing
  readonly #waiting = new WaitingRoom()
  #outbox: unknown[] = []
  #flushPlanned = false
  #open = true
  #tick = 0
  #sweeper: NodeJS.Timeout | undefined
  #heardSentAtMs = 0

  constructor(port: MessagePort, options: ChannelOptions, hearing: Hearing) {
    assert(options.inFlightMax <= SLOT_MASK, `at most ${SLOT_MASK} requests in flight`)
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

  /** When the peer sent what is being heard, or was heard last, by the clock of all threads. */
  get heardSentAtMs(): number {
    return this.#heardSentAtMs
  }

  /** Asks and waits for the answer; resolves always and never rejects. */
  ask<K extends keyof Out & string>(
    type: K,
    message: Out[K]['takes'],
    deadlineMs: number = this.#options.deadlineMs,
  ): Promise<Out[K]['answers'] | Unanswered> {
    if (!this.#open) return Promise.resolve(CLOSED)
    if (this.#waiting.size >= this.#options.inFlightMax) return Promise.resolve(FULL)
    if (this.#sweeper === undefined) this.#startSweeping()
    const dueTick = this.#tick + 1 + Math.ceil(deadlineMs / SWEEP_MS)
    return new Promise((resolve) => {
      this.#send(type, this.#waiting.enter(resolve, dueTick), message)
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
    batch.push(monotonicMs())
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
    if (batch.length % 3 === 1) this.#heardSentAtMs = batch[batch.length - 1] as number
    for (let i = 0; i + 2 < batch.length; i += 3) {
      const type = batch[i]
      const id = batch[i + 1] as number
      if (type === ANSWER) {
        this.#waiting.leave(id)?.(batch[i + 2])
      } else {
        this.#hearing.heard(type as string, batch[i + 2], id)
      }
    }
  }

  #startSweeping(): void {
    this.#sweeper = setInterval(() => {
      this.#tick++
      for (const resolve of this.#waiting.dismiss(this.#tick)) resolve(LATE)
    }, SWEEP_MS)
    this.#sweeper.unref()
  }

  #end(): void {
    if (!this.#open) return
    this.#open = false
    this.#outbox = []
    clearInterval(this.#sweeper)
    for (const resolve of this.#waiting.dismiss(Number.POSITIVE_INFINITY)) resolve(CLOSED)
    this.#hearing.closed?.()
  }
}
