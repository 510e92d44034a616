/**
 * The types of an actor. A protocol is a table of what the actor hears and what it answers; a
 * behaviour is an object with one function per row, so that a missing handler does not compile.
 * Nothing here runs: `serve.ts` runs behaviours, `ref.ts` speaks to them.
 */

export type Protocol = Record<string, { takes: object; answers: unknown }>

/** A ticket for an answer that is given later, by `context.answer`. It is plain data. */
export type Deferred = { readonly deferred: number }

/**
 * A handler is synchronous and runs to completion. It changes its own state only, and speaks only
 * through its answer and its context: no `await`, no clock, no randomness, no environment.
 */
export type Behaviour<State, P extends Protocol, Event = never> = {
  readonly [K in keyof P]: (
    state: State,
    message: Readonly<P[K]['takes']>,
    context: Context<P, Event>,
  ) => P[K]['answers'] | Deferred
}

/** A message that an actor sends to itself: the end of outside work, or a timer. */
export type Message<P extends Protocol> = {
  [K in keyof P & string]: { readonly type: K; readonly message: P[K]['takes'] }
}[keyof P & string]

export type Context<P extends Protocol, Event> = {
  /** The actor's time. It never goes back. */
  readonly nowMs: number
  /** Says that something happened. Events of a batch become durable together, before any answer. */
  emit(event: Event): void
  /** Outside work: whichever way the promise ends, the end comes back as a message. */
  pipe<T>(
    work: Promise<T>,
    ok: (value: T) => Message<P>,
    failed: (reason: unknown) => Message<P>,
  ): void
  /** Sends the message to this actor once the time has passed. */
  after(delayMs: number, message: Message<P>): void
  /** Returned by a handler instead of its answer, when the answer has to wait for outside work. */
  defer(): Deferred
  /** Gives the answer that was deferred; a second answer to the same ticket is a bug. */
  answer(ticket: Deferred, answer: unknown): void
}

/** The part of a context that a behaviour without outside work, timers or waiting needs. */
export type PureContext<Event> = Pick<Context<never, Event>, 'nowMs' | 'emit'>

/** A behaviour whose answers and events follow from its state, the message and the time alone. */
export type PureBehaviour<State, P extends Protocol, Event = never> = {
  readonly [K in keyof P]: (
    state: State,
    message: Readonly<P[K]['takes']>,
    context: PureContext<Event>,
  ) => P[K]['answers']
}
