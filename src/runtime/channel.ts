/**
 * A typed channel over a `MessagePort` that sends messages between threads in batches.
 *
 * Messages of one turn of the event loop are sent as one `postMessage`, because a `postMessage` costs several times as
 * much as its content. Under load, `bench:channel` counted 345,000 requests per second. With one `postMessage` per
 * request, it counted 116,000; Comlink sends at least that many. The batch is sent in the check phase of the loop,
 * right after this turn's sockets were read. So under load many messages share a batch, and an idle thread sends
 * immediately. Messages keep their order: an event that was sent before an answer also arrives before the answer.
 *
 * A request always gets an answer. It is the answer of the peer, or `Unanswered` if the channel is closed, too much is
 * in flight, or the deadline has passed. A batch is sent as one flat array of triples: `type, id, message`. Id 0 means
 * that no answer is expected. Type 0 means an answer to request `id`. Three values follow the triples: the total bytes
 * that the batch's sender has sent, the total bytes that it has read, and the time at which it sent the batch. With
 * this time the receiver can distinguish transit time from work.
 *
 * An object costs several times as much to transfer as its values. So if the channel has a form (a fixed order of
 * values) for a message, it sends the form's number, the message's id and the values. A form number above 0 marks a
 * request, a number below 0 marks an answer. An answer has a form only if its request had one, so a peer that uses no
 * forms receives none.
 *
 * A request with a negative id asks how long each stage of its processing took (`CommandTimes`). The answer to such a
 * request also has a negative id, never has a form, and has three more values: the milliseconds of each stage.
 *
 * A port does not limit its queue, so the channel counts the bytes that the peer has not read yet (`credit.ts`). Above
 * the limit, the channel answers a request with `full` and drops an event. In place of the first dropped event, the
 * peer receives a loss notice, before any later answer. The peer then loads its state again. Until the peer has
 * acknowledged the notice, no events are sent. Answers are always sent, because their number is limited by the peer's
 * requests.
 */

import assert from 'node:assert/strict'
import type { MessagePort } from 'node:worker_threads'
import type { Protocol } from './actor.ts'
import { ANSWER_BYTES, Credit, REQUEST_BYTES, TOLD_BYTES } from './credit.ts'
import { eventLoop, type Loop } from './loop.ts'

/**
 * Reason why a request has no answer from its peer. It is unknown whether the peer acted on it, except for `full`
 * (never sent) and `moved` (the peer is about to end and has not acted).
 */
export type Unanswered = { readonly unanswered: 'closed' | 'full' | 'late' | 'moved' }

export function isUnanswered(answer: unknown): answer is Unanswered {
  return typeof answer === 'object' && answer !== null && 'unanswered' in answer
}

const CLOSED: Unanswered = { unanswered: 'closed' }
const FULL: Unanswered = { unanswered: 'full' }
const LATE: Unanswered = { unanswered: 'late' }

/** Encoding of one kind of message as a fixed number of values. */
export type Form<Message> = {
  readonly cells: number
  /** Appends the values of a message. If the message does not fit the form, appends nothing and returns false. */
  write(message: Message, into: unknown[]): boolean
  /** Returns the message whose values begin at index `at`. */
  read(batch: readonly unknown[], at: number): Message
}

/** Forms of a channel. Both ends must have the same forms in the same order. */
export type Forms = {
  readonly requests: readonly (Form<unknown> & { readonly type: string })[]
  readonly answers: readonly Form<unknown>[]
}

const NO_FORMS: Forms = { requests: [], answers: [] }

/**
 * Times at which the handling of a batch of requests began and ended, and at which the batch was durable, by the
 * monotonic clock that all threads share.
 */
export type BatchTimes = {
  readonly begunMs: number
  readonly handledMs: number
  readonly durableMs: number
}

/**
 * Milliseconds that a request spent in three stages: waiting for its batch, the handling of the batch, and the commit
 * of the batch.
 */
export type CommandTimes = {
  readonly queue: number
  readonly match: number
  readonly commit: number
}

type Waiter = (answer: unknown, times?: CommandTimes) => void

export type ChannelOptions = {
  /** Maximum number of unanswered requests; a further request is answered `full` without being sent. */
  readonly inFlightMax: number
  /** Maximum number of messages in one `postMessage`. */
  readonly batchMax: number
  /** Default deadline of a request. */
  readonly deadlineMs: number
  /**
   * Approximate maximum number of bytes that were sent and that the peer (the thread at the other end) has not read
   * yet; a default if undefined.
   */
  readonly untakenMax?: number
  /** Forms for messages in both directions; none if undefined. */
  readonly forms?: Forms
  /** Replaces the thread's event loop in tests. */
  readonly loop?: Loop
}

/** Callbacks of a channel. */
type ChannelCallbacks = {
  /**
   * Receives a message and becomes its owner. `replyTo` is 0 if no answer is expected. Otherwise the receiver passes
   * `replyTo` unchanged to `reply`.
   */
  received(type: string, message: unknown, replyTo: number): void
  /** Called once, when the other end is gone or this end was closed. */
  closed?(): void
  /** Called if events from the peer were lost. State that is derived from these events must be loaded again. */
  lost?(): void
  /** Called when the peer has acknowledged a loss of events; new events are sent to the peer again from now on. */
  missed?(): void
  /**
   * Called if an event was dropped instead of sent, because the peer's unread bytes are at the limit or the
   * peer has not acknowledged a loss.
   */
  dropped?(): void
}

const ANSWER = 0
/** `LOST`: type number of the loss notice to the peer. `KNOWN`: type number of the acknowledgement of that notice. */
const LOST = -1_000_000
const KNOWN = -1_000_001
/** Number of values after the messages of a batch. */
const TAIL = 3

/** Interval at which deadlines are checked. A deadline may take effect this much later. */
const SWEEP_MS = 25

/**
 * A request id consists of a slot and a generation. A slot is a place in the table of waiting callers, and is reused.
 * The generation counts the uses of the slot. An answer after its deadline finds no caller, because its slot is free or
 * has a later generation. A slot and a generation together stay a small integer, which V8 stores cheaply.
 */
const SLOT_BITS = 16
const SLOT_MASK = (1 << SLOT_BITS) - 1
const GENERATION_MASK = (1 << 14) - 1

/** Callers that wait for answers. Each has a slot; freed slots are used first. */
class WaitingRoom {
  readonly #resolvers: (Waiter | undefined)[] = []
  readonly #generations: number[] = []
  readonly #dueTicks: number[] = []
  readonly #free: number[] = []
  size = 0

  enter(resolve: Waiter, dueTick: number): number {
    const slot = this.#free.pop() ?? this.#resolvers.length
    const generation = ((this.#generations[slot] ?? 0) + 1) & GENERATION_MASK
    this.#resolvers[slot] = resolve
    this.#generations[slot] = generation
    this.#dueTicks[slot] = dueTick
    this.size++
    // Add 1, because id 0 means that no answer is expected.
    return ((generation << SLOT_BITS) | slot) + 1
  }

  leave(id: number): Waiter | undefined {
    const slot = (id - 1) & SLOT_MASK
    if (this.#generations[slot] !== (id - 1) >>> SLOT_BITS) return undefined
    const resolve = this.#resolvers[slot]
    if (resolve === undefined) return undefined
    this.#vacate(slot)
    return resolve
  }

  /** Removes and returns the callers whose deadline has passed; all callers if `untilTick` is infinite. */
  dismiss(untilTick: number): Waiter[] {
    const dismissed: Waiter[] = []
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
  readonly #callbacks: ChannelCallbacks
  readonly #waiting = new WaitingRoom()
  readonly #forms: Forms
  /** Numbers of the request forms, by message type. */
  readonly #formNumbers = new Map<string, number>()
  /** Send times of received requests, by id, for requests whose sender wants the duration of each stage. */
  readonly #timed = new Map<number, number>()
  readonly #credit: Credit
  readonly #loop: Loop
  #outbox: unknown[] = []
  #outboxMessages = 0
  /** True after an event to the peer was dropped, until the peer has acknowledged the loss. */
  #losing = false
  #flushPlanned = false
  #open = true
  #tick = 0
  #stopSweeping: (() => void) | undefined
  #peerSentAtMs = 0

  constructor(port: MessagePort, options: ChannelOptions, callbacks: ChannelCallbacks) {
    assert(options.inFlightMax <= SLOT_MASK, `at most ${SLOT_MASK} requests in flight`)
    this.#port = port
    this.#options = options
    this.#callbacks = callbacks
    this.#forms = options.forms ?? NO_FORMS
    this.#loop = options.loop ?? eventLoop
    this.#credit = new Credit(options.untakenMax)
    for (const [at, { type }] of this.#forms.requests.entries()) this.#formNumbers.set(type, at + 1)
    port.on('message', (batch: unknown[]) => this.#receive(batch))
    port.on('close', () => this.#end())
  }

  get isOpen(): boolean {
    return this.#open
  }

  get inFlight(): number {
    return this.#waiting.size
  }

  /** Approximate number of bytes sent that the peer has not reported as read. */
  get untaken(): number {
    return this.#credit.untaken
  }

  /** Time at which the peer sent the newest received batch, by the monotonic clock that all threads share. */
  get peerSentAtMs(): number {
    return this.#peerSentAtMs
  }

  /**
   * Sends a request. The promise always resolves, never rejects. If the peer knows the durations of its stages, `timed`
   * receives them right before the promise resolves.
   */
  ask<K extends keyof Out & string>(
    type: K,
    message: Out[K]['takes'],
    deadlineMs: number = this.#options.deadlineMs,
    timed?: (times: CommandTimes) => void,
  ): Promise<Out[K]['answers'] | Unanswered> {
    if (!this.#open) return Promise.resolve(CLOSED)
    if (this.#waiting.size >= this.#options.inFlightMax || !this.#credit.has(REQUEST_BYTES)) {
      return Promise.resolve(FULL)
    }
    if (this.#stopSweeping === undefined) this.#startSweeping()
    const dueTick = this.#tick + 1 + Math.ceil(deadlineMs / SWEEP_MS)
    return new Promise((resolve) => {
      const id =
        timed === undefined
          ? this.#waiting.enter(resolve, dueTick)
          : -this.#waiting.enter((answer, times) => {
              if (times !== undefined) timed(times)
              resolve(answer as Out[K]['answers'])
            }, dueTick)
      const number = this.#formNumbers.get(type)
      if (number === undefined || !this.#sendFormed(number, id, message)) {
        this.#send(type, id, message)
      }
    })
  }

  /**
   * Sends a message without an answer. The message is dropped if the channel is closed, if the peer's unread
   * bytes are at the limit, or if the peer has not acknowledged a loss. `bytes` is the approximate size of a
   * large message.
   */
  tell<K extends keyof Out & string>(
    type: K,
    message: Out[K]['takes'],
    bytes: number = TOLD_BYTES,
  ): void {
    if (!this.#open) return
    if (this.#losing || !this.#credit.has(bytes)) this.#drop()
    else this.#send(type, 0, message, bytes)
  }

  /**
   * Answers a received request. If its sender wants the duration of each stage, computes the durations from `times`.
   */
  reply(replyTo: number, answer: unknown, times?: BatchTimes): void {
    if (!this.#open || replyTo === 0) return
    if (this.#timed.size > 0 && this.#replyTimed(Math.abs(replyTo), answer, times)) return
    if (replyTo > 0) this.#send(ANSWER, replyTo, answer)
    else if (!this.#replyFormed(-replyTo, answer)) this.#send(ANSWER, -replyTo, answer)
  }

  /** Sends queued messages now, without waiting for the end of the turn. */
  flush(): void {
    this.#flushPlanned = false
    if (this.#outbox.length > 0 && this.#open) this.#post()
  }

  /** Stops both directions. Messages that were already sent are still delivered. */
  close(): void {
    if (!this.#open) return
    this.flush()
    this.#port.close()
    this.#end()
  }

  #post(): void {
    const batch = this.#outbox
    this.#outbox = []
    this.#outboxMessages = 0
    const { sent } = this.#credit
    batch.push(sent, this.#credit.tellTaken(), this.#loop.monotonicMs())
    this.#port.postMessage(batch)
  }

  #send(
    type: string | number,
    id: number,
    message: unknown,
    bytes: number = type === ANSWER ? ANSWER_BYTES : REQUEST_BYTES,
  ): void {
    this.#outbox.push(type, id, message)
    this.#sent(bytes)
  }

  #drop(): void {
    if (!this.#losing) this.#send(LOST, 0, undefined)
    this.#losing = true
    this.#callbacks.dropped?.()
  }

  #sendFormed(number: number, id: number, message: unknown): boolean {
    return this.#writeFormed(this.#forms.requests[number - 1]!, number, id, message)
  }

  #replyFormed(id: number, answer: unknown): boolean {
    const { answers } = this.#forms
    for (let at = 0; at < answers.length; at++) {
      if (this.#writeFormed(answers[at]!, -1 - at, id, answer)) return true
    }
    return false
  }

  /**
   * Sends an answer with the duration of each stage, and returns true. If the request's sender does not want the
   * durations, or `times` is undefined, sends nothing and returns false.
   */
  #replyTimed(id: number, answer: unknown, times: BatchTimes | undefined): boolean {
    const sentAtMs = this.#timed.get(id)
    if (sentAtMs === undefined) return false
    this.#timed.delete(id)
    if (times === undefined) return false
    const { begunMs, handledMs, durableMs } = times
    this.#outbox.push(ANSWER, -id, answer)
    this.#outbox.push(begunMs - sentAtMs, handledMs - begunMs, durableMs - handledMs)
    this.#sent(ANSWER_BYTES)
    return true
  }

  /**
   * Writes a message in its form and returns true. If the message does not fit the form, returns false and leaves the
   * batch unchanged.
   */
  #writeFormed(form: Form<unknown>, number: number, id: number, message: unknown): boolean {
    const outbox = this.#outbox
    const { length } = outbox
    let formed = false
    try {
      outbox.push(number, id)
      formed = form.write(message, outbox)
    } finally {
      if (!formed) outbox.length = length
    }
    if (formed) this.#sent(number > 0 ? REQUEST_BYTES : ANSWER_BYTES)
    return formed
  }

  #sent(bytes: number): void {
    this.#credit.send(bytes)
    this.#outboxMessages++
    if (this.#outboxMessages >= this.#options.batchMax) {
      this.flush()
    } else if (!this.#flushPlanned) {
      this.#flushPlanned = true
      this.#loop.soon(() => this.flush())
    }
  }

  #receive(batch: readonly unknown[]): void {
    const end = batch.length - TAIL
    this.#peerSentAtMs = batch[end + 2] as number
    this.#credit.received(batch[end] as number, batch[end + 1] as number)
    for (let at = 0; at < end; ) {
      const kind = batch[at] as string | number
      let id = batch[at + 1] as number
      if (id < 0) {
        if (kind === ANSWER) {
          this.#leaveTimed(batch, at)
          at += 6
          continue
        }
        id = -id
        this.#timed.set(id, this.#peerSentAtMs)
      }
      if (typeof kind === 'string') {
        this.#callbacks.received(kind, batch[at + 2], id)
        at += 3
      } else if (kind === ANSWER) {
        this.#waiting.leave(id)?.(batch[at + 2])
        at += 3
      } else if (kind > 0) {
        const form = this.#forms.requests[kind - 1]
        assert(form !== undefined, `request form ${kind} is unknown here`)
        this.#callbacks.received(form.type, form.read(batch, at + 2), -id)
        at += 2 + form.cells
      } else if (kind <= LOST) {
        this.#hearLoss(kind)
        at += 3
      } else {
        const form = this.#forms.answers[-1 - kind]
        assert(form !== undefined, `answer form ${kind} is unknown here`)
        this.#waiting.leave(id)?.(form.read(batch, at + 2))
        at += 2 + form.cells
      }
    }
    // If too many read bytes are not reported to the peer yet (`credit.ts`), report them now, even without another
    // message.
    if (this.#open && this.#credit.owesWord) this.#post()
  }

  #hearLoss(kind: number): void {
    if (kind === LOST) {
      this.#send(KNOWN, 0, undefined)
      this.#callbacks.lost?.()
    } else {
      this.#losing = false
      this.#callbacks.missed?.()
    }
  }

  #leaveTimed(batch: readonly unknown[], at: number): void {
    const [id, answer, queue, match, commit] = batch.slice(at + 1, at + 6) as [
      number,
      unknown,
      number,
      number,
      number,
    ]
    this.#waiting.leave(-id)?.(answer, { queue, match, commit })
  }

  #startSweeping(): void {
    this.#stopSweeping = this.#loop.every(SWEEP_MS, () => {
      this.#tick++
      for (const resolve of this.#waiting.dismiss(this.#tick)) resolve(LATE)
    })
  }

  #end(): void {
    if (!this.#open) return
    this.#open = false
    this.#outbox = []
    this.#stopSweeping?.()
    for (const resolve of this.#waiting.dismiss(Number.POSITIVE_INFINITY)) resolve(CLOSED)
    this.#callbacks.closed?.()
  }
}
