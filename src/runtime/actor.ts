/**
 * Types of an actor. A protocol is a table of the actor's messages and their answers. A behaviour is an object with one
 * function per row of that table, so a missing handler does not compile. This file has no code: `serve.ts` runs
 * behaviours, and `ref.ts` sends messages to them.
 */

export type Protocol = Record<string, { takes: object; answers: unknown }>

/** Ticket for an answer that the actor sends later with `context.answer`. It is plain data. */
export type Deferred = { readonly deferred: number }

/**
 * A handler is synchronous and runs to completion. It changes only `state`; its only other effects are its
 * answer and its calls of `context`. It uses no `await`, no clock, no randomness and no environment.
 */
export type Behaviour<State, P extends Protocol, Event = never> = {
  readonly [K in keyof P]: (
    state: State,
    message: Readonly<P[K]['takes']>,
    context: Context<P, Event>,
  ) => P[K]['answers'] | Deferred
}

/** A message that an actor sends to itself: the result of outside work, or the end of a timer. */
export type Message<P extends Protocol> = {
  [K in keyof P & string]: { readonly type: K; readonly message: P[K]['takes'] }
}[keyof P & string]

export type Context<P extends Protocol, Event> = {
  /** The actor's time. It never goes back. */
  readonly nowMs: number
  /** Emits an event. Events of a batch become durable together, before any answer. */
  emit(event: Event): void
  /** Starts work outside of the actor; its result or error arrives as a message to this actor. */
  pipe<T>(
    work: Promise<T>,
    ok: (value: T) => Message<P>,
    failed: (reason: unknown) => Message<P>,
  ): void
  /** Sends the message to this actor after the delay. */
  after(delayMs: number, message: Message<P>): void
  /** Returns a ticket. A handler returns this ticket if its answer waits for outside work. */
  defer(): Deferred
  /** Sends a deferred answer; a second answer to the same ticket is a bug. */
  answer(ticket: Deferred, answer: unknown): void
}

/** The part of a context for a behaviour without outside work, timers or deferred answers. */
export type PureContext<Event> = Pick<Context<never, Event>, 'nowMs' | 'emit'>

/** A behaviour whose answers and events depend only on its state, the message and the time. */
export type PureBehaviour<State, P extends Protocol, Event = never> = {
  readonly [K in keyof P]: (
    state: State,
    message: Readonly<P[K]['takes']>,
    context: PureContext<Event>,
  ) => P[K]['answers']
}
