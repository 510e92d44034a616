/**
 * Runs the accounts actor without a thread, a chain or a database. The result of each request by the actor is computed
 * at once. The test decides when the result is delivered, or whether it is lost or replaced by an error.
 */

import type { Deferred, Message } from '#runtime/actor.ts'
import { accounts } from '#services/accounts/accounts.ts'
import { newAccounts } from '#services/accounts/new-accounts.ts'
import type {
  AccountsEvent,
  AccountsPorts,
  AccountsProtocol,
  AccountsRules,
  AccountsState,
} from '#services/accounts/state.ts'

export const RULES: AccountsRules = {
  isMine: () => true,
  stepEveryMs: 1_000,
  staleMs: 10_000,
  sweepMs: 20_000,
  graceMs: 1_000,
  quietMs: 0,
  nameAgainMs: 5_000,
  closedMs: 60_000,
  idleMax: 100,
  promisesMax: 10_000,
  waitingMax: 1_000,
  waitingPerOwnerMax: 64,
}

/** Computes a result at once, so that `deliver` can give it to the actor later. */
export function later<T>(make: () => T): Promise<T> {
  let answer: Made
  try {
    answer = { made: make() }
  } catch (error) {
    answer = { made: undefined, error }
  }
  return answer as unknown as Promise<T>
}

type Made = { readonly made: unknown; readonly error?: unknown }

type Work = Made & {
  readonly ok: (value: never) => Message<AccountsProtocol>
  readonly failed: (reason: unknown) => Message<AccountsProtocol>
}

type Answer<K extends keyof AccountsProtocol> = AccountsProtocol[K]['answers'] | Deferred

export function driven(ports: AccountsPorts, rules: Partial<AccountsRules> = {}) {
  const state: AccountsState = newAccounts(ports, { ...RULES, ...rules })
  const events: AccountsEvent[] = []
  const work: Work[] = []
  const answers = new Map<number, unknown>()
  let nowMs = 1_000_000
  let tickets = 0
  const context = {
    get nowMs() {
      return nowMs
    },
    emit: (event: AccountsEvent) => void events.push(event),
    pipe: (asked: unknown, ok: Work['ok'], failed: Work['failed']) =>
      void work.push({ ...(asked as Made), ok, failed }),
    after: (_delayMs: number, message: Message<AccountsProtocol>) =>
      void work.push({ made: undefined, ok: () => message, failed: () => message }),
    defer: () => ({ deferred: ++tickets }),
    answer(ticket: Deferred, answer: unknown) {
      if (answers.has(ticket.deferred)) throw new Error('the deferred answer was already given')
      answers.set(ticket.deferred, answer)
    },
  }
  const ask = <K extends keyof AccountsProtocol>(
    type: K,
    message: AccountsProtocol[K]['takes'],
  ): Answer<K> => accounts[type](state, message as never, context as never)

  function hear({ type, message }: Message<AccountsProtocol>): void {
    ask(type, message as never)
  }

  return {
    state,
    events,
    work,
    answers,
    ask,
    get nowMs() {
      return nowMs
    },
    set nowMs(ms: number) {
      nowMs = ms
    },
    /** Delivers one of the pending results to the actor. */
    deliver(index = 0) {
      const [next] = work.splice(index, 1)
      if (next === undefined) return
      hear('error' in next ? next.failed(next.error) : next.ok(next.made as never))
    },
    /** Delivers all pending results, and the results of requests that these deliveries cause. */
    deliverAll() {
      while (work.length > 0) this.deliver()
    },
    /** Returns an answer; undefined for a deferred answer that has not arrived yet. */
    answerOf(answer: unknown): unknown {
      if (typeof answer !== 'object' || answer === null || !('deferred' in answer)) return answer
      return answers.get(answer.deferred as number)
    },
    said<T extends AccountsEvent['type']>(type: T) {
      return events.filter(
        (event): event is Extract<AccountsEvent, { type: T }> => event.type === type,
      )
    },
  }
}
