/**
 * Runs a behaviour (the handlers of an actor's commands). Commands from the channels wait in a bounded mailbox. The
 * commands that are waiting at the same time are handled as one batch. Answers are sent only after the batch’s events
 * are durable and published.
 *
 * The steps of a batch are always: prepare (do all lookups once for the whole batch), handle each command, commit the
 * events, publish the events, answer. Commands are handled in the order of their arrival, or in the order that
 * `arrange` returns. A successful commit proves that the actor still owns its state. Commands that emitted no events
 * have no such proof, so `confirm` checks the ownership before they are answered.
 *
 * Commands that arrive during a commit form the next batch, so slower commits lead to larger batches. A single command
 * never waits for more commands. A handler that throws is a bug and ends the thread. At that point no command of its
 * batch has been answered, so no confirmed result is lost.
 */

import assert from 'node:assert/strict'
import type { Behaviour, Context, Deferred, Message, Protocol } from './actor.ts'
import type { BatchTimes } from './channel.ts'
import type { Clock } from './clock.ts'
import { eventLoop, type Loop } from './loop.ts'

/** Destination of an answer: a channel, or a test. */
export type ReplyChannel = {
  /** Sends an answer. `times` is set only for a caller that requested the times. */
  reply(replyTo: number, answer: unknown, times?: BatchTimes): void
  /** Send time of the command being received. */
  readonly peerSentAtMs?: number
}

export type Command<P extends Protocol> = Message<P> & {
  readonly channel: ReplyChannel | undefined
  readonly replyTo: number
  /** Time at which the sending thread sent the message, by the clock that all threads share; 0 if no thread sent it. */
  readonly sentAtMs: number
}

export type ServeOptions<State, P extends Protocol, Event> = {
  readonly behaviour: Behaviour<State, P, Event>
  /**
   * Returns the state of the actor to which a command belongs. If that actor does not exist, returns the answer to the
   * command as `{ answer }`.
   */
  readonly select: (command: Message<P>) => { state: State } | { answer: unknown }
  readonly clock: Clock
  /** Replaces the thread's event loop in tests. */
  readonly loop?: Loop
  /** Maximum number of waiting commands. Any further command is answered with `full` immediately. */
  readonly mailboxMax: number
  /** Maximum number of commands per batch. */
  readonly batchMax: number
  /** A batch ends once it has this many events. Its remaining commands go to the next batch. */
  readonly eventsMax?: number
  /** Answer to a command that arrives while `mailboxMax` commands are waiting. */
  readonly full: unknown
  readonly prepare?: (batch: readonly Command<P>[]) => void
  /** Reorders a batch for speed. The new order must not change the results. */
  readonly arrange?: (batch: readonly Command<P>[]) => readonly Command<P>[]
  /** Makes the events durable. After a failure, it is unknown whether the events are durable. */
  readonly commit?: (events: readonly Event[]) => undefined | Promise<unknown>
  /**
   * Resolves with true if this actor still owned its state after the batch was handled. Set only if another process may
   * replace this actor. Called if some commands of a batch emitted no events: for the answers to these commands, no
   * commit proves the ownership.
   */
  readonly confirm?: () => Promise<boolean>
  /**
   * If `confirm` resolves with false, commands that emitted no events receive this answer instead of their
   * own.
   */
  readonly unconfirmed?: unknown
  /**
   * Restores the state from the durable events after a failed commit. The result is the answer to every command of the
   * batch.
   */
  readonly recover?: (error: unknown) => unknown
  /** Publishes the durable events. Called before the answers are sent. */
  readonly say?: (events: readonly Event[]) => void
  /** Receives each batch once it is durable. If this is set, answers carry the times of their batch. */
  readonly observe?: (batch: readonly Command<P>[], times: BatchTimes) => void
}

export type Served = {
  /** Receives one command; answers by `channel.reply`. */
  hear(type: string, message: unknown, replyTo: number, channel: ReplyChannel | undefined): void
  /** Resolves when the mailbox is empty and no outside work is in progress. */
  drained(): Promise<void>
  /** Number of waiting commands. */
  readonly waiting: number
}

export function serve<State, P extends Protocol, Event = never>(
  options: ServeOptions<State, P, Event>,
): Served {
  const { behaviour, clock, mailboxMax, batchMax, eventsMax = Number.POSITIVE_INFINITY } = options
  const { soon, monotonicMs } = options.loop ?? eventLoop
  let mailbox: Command<P>[] = []
  let running = false
  let planned = false
  let outsideWork = 0
  let nowMs = clock.nowMs()
  let events: Event[] = []
  let nextTicket = 1
  const tickets = new Map<number, { channel: ReplyChannel | undefined; replyTo: number }>()
  let current: Command<P> | undefined
  const idleWaiters: (() => void)[] = []

  const context: Context<P, Event> = {
    get nowMs() {
      return nowMs
    },
    emit(event) {
      events.push(event)
    },
    pipe(work, ok, failed) {
      outsideWork++
      work.then(
        (value) => returned(ok(value)),
        (reason) => returned(failed(reason)),
      )
    },
    after(delayMs, message) {
      clock.after(delayMs, () => enqueue(unasked(message)))
    },
    defer() {
      assert(current !== undefined, 'defer must be called inside a handler')
      const deferred = nextTicket++
      tickets.set(deferred, { channel: current.channel, replyTo: current.replyTo })
      return { deferred }
    },
    answer(ticket, answer) {
      const held = tickets.get(ticket.deferred)
      assert(held !== undefined, 'the deferred answer was already given')
      tickets.delete(ticket.deferred)
      answers.push({ ...held, answer, isProven: false })
    },
  }
  let answers: GivenAnswer[] = []

  function returned(message: Message<P>): void {
    outsideWork--
    enqueue(unasked(message))
  }

  function unasked(message: Message<P>): Command<P> {
    return { ...message, channel: undefined, replyTo: 0, sentAtMs: 0 }
  }

  function enqueue(command: Command<P>): void {
    mailbox.push(command)
    if (running || planned) return
    planned = true
    soon(turn)
  }

  function turn(): void {
    planned = false
    running = true
    void runBatches()
  }

  async function runBatches(): Promise<void> {
    while (mailbox.length > 0) {
      const batch = mailbox.length <= batchMax ? mailbox : mailbox.slice(0, batchMax)
      mailbox = mailbox.length <= batchMax ? [] : mailbox.slice(batchMax)
      const committed = runBatch(batch)
      if (committed !== undefined) await committed
      // The event loop runs once between two batches, so that new commands and timers are handled.
      if (mailbox.length > 0) await new Promise<void>((resolve) => soon(resolve))
    }
    running = false
    if (outsideWork === 0) for (const done of idleWaiters.splice(0)) done()
  }

  function runBatch(batch: readonly Command<P>[]): Promise<void> | undefined {
    const { observe } = options
    const begunMs = observe === undefined ? 0 : monotonicMs()
    nowMs = Math.max(nowMs, clock.nowMs())
    options.prepare?.(batch)
    const commands = options.arrange?.(batch) ?? batch
    let handled = batch
    for (let index = 0; index < commands.length; index++) {
      const command = commands[index]!
      if (events.length >= eventsMax) {
        handled = commands.slice(0, index)
        mailbox = [...commands.slice(index), ...mailbox]
        break
      }
      const selected = options.select(command)
      if ('answer' in selected) {
        const { channel, replyTo } = command
        answers.push({ channel, replyTo, answer: selected.answer, isProven: true })
        continue
      }
      const handler = behaviour[command.type]
      assert(handler !== undefined, `no handler for ${command.type}`)
      current = command
      const emittedBefore = events.length
      const answer = handler(selected.state, command.message, context)
      if (!isDeferred(answer) && command.replyTo !== 0) {
        const { channel, replyTo } = command
        answers.push({ channel, replyTo, answer, isProven: events.length > emittedBefore })
      }
    }
    current = undefined
    const said = events
    const given = answers
    events = []
    answers = []
    const handledMs = observe === undefined ? 0 : monotonicMs()
    const confirmed = given.every(({ isProven }) => isProven) ? undefined : options.confirm?.()
    function finish(isConfirmed = true): void {
      const times =
        observe === undefined ? undefined : { begunMs, handledMs, durableMs: monotonicMs() }
      if (said.length > 0) options.say?.(said)
      if (times !== undefined) observe?.(handled, times)
      for (const { channel, replyTo, answer, isProven } of given) {
        channel?.reply(replyTo, isProven || isConfirmed ? answer : options.unconfirmed, times)
      }
    }
    if (said.length === 0 || options.commit === undefined) {
      if (confirmed !== undefined) return confirmed.then(finish)
      finish()
      return undefined
    }
    let commit: undefined | Promise<unknown>
    try {
      commit = options.commit(said)
    } catch (error) {
      lose(error, given)
      return undefined
    }
    if (commit === undefined && confirmed === undefined) {
      finish()
      return undefined
    }
    return Promise.all([confirmed, commit]).then(
      ([isConfirmed]) => finish(isConfirmed),
      (error) => lose(error, given),
    )
  }

  function lose(error: unknown, given: typeof answers): void {
    if (options.recover === undefined) throw error
    const answer = options.recover(error)
    for (const { channel, replyTo } of given) channel?.reply(replyTo, answer)
  }

  return {
    hear(type, message, replyTo, channel) {
      if (mailbox.length >= mailboxMax) {
        channel?.reply(replyTo, options.full)
        return
      }
      const sentAtMs = channel?.peerSentAtMs ?? 0
      enqueue({ type, message, replyTo, channel, sentAtMs } as Command<P>)
    },
    drained() {
      if (!running && !planned && outsideWork === 0) return Promise.resolve()
      return new Promise((resolve) => idleWaiters.push(resolve))
    },
    get waiting() {
      return mailbox.length
    },
  }
}

type GivenAnswer = {
  readonly channel: ReplyChannel | undefined
  readonly replyTo: number
  readonly answer: unknown
  /**
   * True if the answer needs no confirmation. Either the command emitted events, whose commit proves ownership, or the
   * command's actor does not exist.
   */
  readonly isProven: boolean
}

function isDeferred(answer: unknown): answer is Deferred {
  return typeof answer === 'object' && answer !== null && 'deferred' in answer
}
