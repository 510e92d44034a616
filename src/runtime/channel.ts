/**
 * The typed, batched channel over a `MessagePort`: the data plane between threads.
 *
 * What is sent in one turn of the event loop travels as one `postMessage`, because a message costs
 * several times what its content costs: under load `bench:channel` counted 345,000 requests a second,
 * and 116,000 with one bare `postMessage` each, which is the least that Comlink does. The flush runs in
 * the check phase of the loop, right after the sockets of this turn were read: under load many
 * messages share one flush, and an idle system sends at once. Messages keep their order, so an event
 * that is told before an answer is heard before it.
 *
 * A request always gets an answer: the peer's, or `Unanswered` when the channel is closed, too much
 * is in flight, or the deadline has passed. The wire form of a batch is one flat array of triples:
 * `type, id, message`; id 0 expects no answer, and type 0 is an answer to request `id`. After them
 * come how much was sent and taken so far, and the time at which the batch was sent, so that waiting on
 * the way can be told from work.
 *
 * An object costs several times as much on the way as its values alone. So a message for which the
 * channel has a form travels as the form's number, its id, and then its values, one by one: above 0
 * are the numbers of requests, below 0 those of answers. Answers take a form only where the request
 * had one, so a peer that asks without forms needs to know none.
 *
 * A request with a negative id wants to know how long its answer took. The answer to it has a
 * negative id too, never a form, and three more values: the milliseconds of each stage.
 *
 * A port has no limit of its own, so what the peer has not taken yet is counted (`credit.ts`). Where
 * that is too much, a request is answered `full`, and what is told is dropped: at that place the peer
 * hears that it has lost something, before any answer that follows, and loads anew. Until it has said
 * that it knows, nothing is told. Answers always go: they are as many as the peer has asked for.
 */

import assert from 'node:assert/strict'
import type { MessagePort } from 'node:worker_threads'
import type { Protocol } from './actor.ts'
import { monotonicMs } from './clock.ts'
import { ANSWER_BYTES, Credit, REQUEST_BYTES, TOLD_BYTES } from './credit.ts'

/**
 * Why a request has no answer of its peer. Except for `full`, which is said before anything is
 * sent, and `moved`, which a peer says that is about to end and has not acted on it, it is not known
 * whether the peer acted on it.
 */
export type Unanswered = { readonly unanswered: 'closed' | 'full' | 'late' | 'moved' }

export function isUnanswered(answer: unknown): answer is Unanswered {
  return typeof answer === 'object' && answer !== null && 'unanswered' in answer
}

const CLOSED: Unanswered = { unanswered: 'closed' }
const FULL: Unanswered = { unanswered: 'full' }
const LATE: Unanswered = { unanswered: 'late' }

/** How one kind of message travels as a fixed number of values. */
export type Form<Message> = {
  readonly cells: number
  /** Adds the values of a message. Where it does not fit the form, adds none and answers false. */
  write(message: Message, into: unknown[]): boolean
  /** The message whose values begin at `at`. */
  read(batch: readonly unknown[], at: number): Message
}

/** The forms of a channel. Both ends have the same ones, and in the same order. */
export type Forms = {
  readonly requests: readonly (Form<unknown> & { readonly type: string })[]
  readonly answers: readonly Form<unknown>[]
}

const NO_FORMS: Forms = { requests: [], answers: [] }

/** When a batch of requests began, was handled, and was durable, by the clock of all threads. */
export type BatchTimes = {
  readonly begunMs: number
  readonly handledMs: number
  readonly durableMs: number
}

/** Milliseconds that a request spent waiting for its batch, and its batch being handled and kept. */
export type CommandTimes = {
  readonly queue: number
  readonly match: number
  readonly commit: number
}

type Waiter = (answer: unknown, times?: CommandTimes) => void

export type ChannelOptions = {
  /** Requests without an answer yet; one more is answered `full`. */
  readonly inFlightMax: number
  /** Messages in one `postMessage`. */
  readonly batchMax: number
  /** How long a request waits for its answer, unless it says otherwise. */
  readonly deadlineMs: number
  /** About how many bytes the peer may leave untaken; the usual if undefined. */
  readonly untakenMax?: number
  /** What it can say and hear in short; nothing if undefined. */
  readonly forms?: Forms
}

/** What a channel does with what it hears. */
type Hearing = {
  /**
   * `replyTo` is 0 when no answer is expected, and otherwise means something to the channel only.
   * The message belongs to the hearer.
   */
  heard(type: string, message: unknown, replyTo: number): void
  /** The other end is gone, or this end was closed. Called once. */
  closed?(): void
  /** From here on something that was told is missing: what follows from it is to be loaded anew. */
  lost?(): void
  /** The peer knows that it has lost something, and is told all again from here on. */
  missed?(): void
  /** What was told just now was dropped: the peer has not taken what it was told before. */
  dropped?(): void
}

const ANSWER = 0
/** To the peer: something that was told is missing here. And its answer: that it knows. */
const LOST = -1_000_000
const KNOWN = -1_000_001
/** How many values come after the messages of a batch. */
const TAIL = 3

/** How often deadlines are looked at; a deadline is kept within this much. */
const SWEEP_MS = 25

/**
 * A request id is a slot, reused, and a generation, counted up at each use: an answer that comes
 * after its deadline does not fit the slot's generation any more and finds no caller waiting. Both
 * together stay a small integer, which is what makes them cheap.
 */
const SLOT_BITS = 16
const SLOT_MASK = (1 << SLOT_BITS) - 1
const GENERATION_MASK = (1 << 14) - 1

/** Who waits for the answers: one slot each, freed slots first. */
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
    // One more than needed, because id 0 means that no answer is expected.
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

  /** Those whose time has passed, or all. */
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
  readonly #hearing: Hearing
  readonly #waiting = new WaitingRoom()
  readonly #forms: Forms
  /** The number of each request that has a form. */
  readonly #formNumbers = new Map<string, number>()
  /** Requests whose times are wanted, and when they were sent. */
  readonly #timed = new Map<number, number>()
  readonly #credit: Credit
  #outbox: unknown[] = []
  #outboxMessages = 0
  /** The peer does not know yet that something is missing. */
  #losing = false
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
    this.#forms = options.forms ?? NO_FORMS
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

  /** About how many bytes were sent that the peer has not taken, as far as is known here. */
  get untaken(): number {
    return this.#credit.untaken
  }

  /** When the peer sent what is being heard, or was heard last, by the clock of all threads. */
  get heardSentAtMs(): number {
    return this.#heardSentAtMs
  }

  /**
   * Asks and waits for the answer; resolves always and never rejects. `timed` is told, right before
   * the answer, where its time went, if the peer knows.
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
    if (this.#sweeper === undefined) this.#startSweeping()
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
   * Says something that needs no answer. Nothing is said on a closed channel, or to a peer that does
   * not take what it is told. `bytes` is about what the message takes, where it may be large.
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

  /** Answers a request that was heard; the times of its batch go along where they are wanted. */
  reply(replyTo: number, answer: unknown, times?: BatchTimes): void {
    if (!this.#open || replyTo === 0) return
    if (this.#timed.size > 0 && this.#replyTimed(Math.abs(replyTo), answer, times)) return
    if (replyTo > 0) this.#send(ANSWER, replyTo, answer)
    else if (!this.#replyFormed(-replyTo, answer)) this.#send(ANSWER, -replyTo, answer)
  }

  /** Sends what is waiting now, without waiting for the end of the turn. */
  flush(): void {
    this.#flushPlanned = false
    if (this.#outbox.length > 0 && this.#open) this.#post()
  }

  /** Lets nothing more in or out. What was already sent is still delivered to the peer. */
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
    batch.push(sent, this.#credit.tellTaken(), monotonicMs())
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
    this.#hearing.dropped?.()
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

  /** Answers whether the request was one whose times are wanted and known, and is answered now. */
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

  /** Whatever keeps a form from being written leaves nothing of it among what is sent. */
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
      setImmediate(() => this.flush())
    }
  }

  #receive(batch: readonly unknown[]): void {
    const end = batch.length - TAIL
    this.#heardSentAtMs = batch[end + 2] as number
    this.#credit.heard(batch[end] as number, batch[end + 1] as number)
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
        this.#timed.set(id, this.#heardSentAtMs)
      }
      if (typeof kind === 'string') {
        this.#hearing.heard(kind, batch[at + 2], id)
        at += 3
      } else if (kind === ANSWER) {
        this.#waiting.leave(id)?.(batch[at + 2])
        at += 3
      } else if (kind > 0) {
        const form = this.#forms.requests[kind - 1]
        assert(form !== undefined, `request form ${kind} is unknown here`)
        this.#hearing.heard(form.type, form.read(batch, at + 2), -id)
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
    // A peer that is told nothing otherwise hears now and then what was taken.
    if (this.#open && this.#credit.owesWord) this.#post()
  }

  #hearLoss(kind: number): void {
    if (kind === LOST) {
      this.#send(KNOWN, 0, undefined)
      this.#hearing.lost?.()
    } else {
      this.#losing = false
      this.#hearing.missed?.()
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
