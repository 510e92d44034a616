/**
 * Collects the requests of one turn of the event loop into batches for a pool of workers, and returns the answer to
 * each caller. The batcher does not interpret requests and starts no threads: `run` passes a batch to a worker.
 *
 * The requests of a turn are spread evenly over the workers, so two requests use two workers. A worker gets its next
 * batch while it works on the previous one, so it never waits for this thread. Further requests wait here, so batches
 * grow with the load. The number of unanswered requests is limited. Requests above the limit, and requests without an
 * answer after `deadlineMs`, get `OVERLOADED`.
 *
 * A batch fails if its worker dies, or if one of its requests makes the worker fail. Then each request of the batch is
 * retried once, in a batch of one. A retry is safe, because the work has no side effects. A request that fails again
 * gets `INTERNAL`, and the other requests get their answers.
 */

import assert from 'node:assert/strict'
import { VERIFY_BATCH_MAX, VERIFY_HELD_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'

type BatcherOptions<Item, Answer> = {
  /** Number of workers that `run` uses. */
  readonly workers: number
  /**
   * Passes a batch to a worker and returns the answers in the order of the requests. The promise may reject. While it
   * is pending, the batch counts towards `TASKS_PER_WORKER`.
   */
  readonly run: (items: readonly Item[]) => Promise<readonly Answer[]>
  /** Time from the call of `ask` until an unanswered request gets `OVERLOADED`. */
  readonly deadlineMs: number
  /** Called with the error of each failed batch, so that the caller can log the error. */
  readonly onFailure: (error: unknown) => void
  readonly batchMax?: number
  /** Maximum number of unanswered requests. */
  readonly heldMax?: number
  /** A monotonic clock, in milliseconds. */
  readonly nowMs?: () => number
  /** Runs `then` at the end of the current turn of the event loop. */
  readonly defer?: (then: () => void) => void
}

export type Batcher<Item, Answer> = {
  readonly ask: (item: Item) => Promise<Answer | Rejection>
  /** Returns the number of unanswered requests. */
  readonly held: () => number
  /** Rejects all later requests. Resolves when all earlier requests are answered and no batch is in progress. */
  readonly close: () => Promise<void>
}

/** Maximum number of batches at one worker: one in progress, and one that begins when the first ends. */
export const TASKS_PER_WORKER = 2
const ATTEMPTS_MAX = 2

const OVERLOADED = reject('OVERLOADED')
const FAILED = reject('INTERNAL')

type Request<Item, Answer> = {
  readonly item: Item
  readonly answer: (answer: Answer | Rejection) => void
  readonly deadlineMs: number
  attempts: number
}

export function makeBatcher<Item, Answer>(
  options: BatcherOptions<Item, Answer>,
): Batcher<Item, Answer> {
  const { workers, run, deadlineMs, onFailure } = options
  const batchMax = options.batchMax ?? VERIFY_BATCH_MAX
  const heldMax = options.heldMax ?? VERIFY_HELD_MAX
  const nowMs = options.nowMs ?? (() => performance.now())
  const defer = options.defer ?? setImmediate
  assert.ok(workers >= 1 && batchMax >= 1 && heldMax >= 1 && deadlineMs > 0)
  const tasksMax = workers * TASKS_PER_WORKER

  /**
   * All unanswered requests, oldest first. Of these, `waiting` contains the requests that were not yet sent to a
   * worker. `again` contains the requests whose batch failed and that will be retried.
   */
  const held = new Set<Request<Item, Answer>>()
  const waiting = new Set<Request<Item, Answer>>()
  const again = new Set<Request<Item, Answer>>()
  let tasks = 0
  let deferred = false
  let closed = false
  const drain = makeDrain(() => held.size === 0 && tasks === 0)

  function ask(item: Item): Promise<Answer | Rejection> {
    if (closed || held.size >= heldMax) return Promise.resolve(OVERLOADED)
    return new Promise((resolve) => {
      const request = { item, answer: resolve, deadlineMs: nowMs() + deadlineMs, attempts: 0 }
      held.add(request)
      waiting.add(request)
      watch.start(deadlineMs)
      if (deferred) return
      deferred = true
      defer(endTurn)
    })
  }

  function endTurn(): void {
    deferred = false
    sendWaiting()
  }

  function sendWaiting(): void {
    for (const request of again) {
      if (tasks >= tasksMax) return
      again.delete(request)
      send([request])
    }
    const share = Math.min(batchMax, Math.ceil(waiting.size / workers))
    while (tasks < tasksMax && waiting.size > 0) {
      send(takeSome(waiting, share))
    }
  }

  function send(batch: readonly Request<Item, Answer>[]): void {
    tasks++
    for (const request of batch) request.attempts++
    perform(batch)
      .catch((error: unknown) => {
        onFailure(error)
        for (const request of batch) {
          if (!held.has(request)) continue
          if (request.attempts < ATTEMPTS_MAX) again.add(request)
          else settle(request, FAILED)
        }
      })
      .finally(() => {
        tasks--
        sendWaiting()
        drain.check()
      })
  }

  async function perform(batch: readonly Request<Item, Answer>[]): Promise<void> {
    const answers = await run(batch.map((request) => request.item))
    assert.equal(answers.length, batch.length, 'a batch must have one answer for each request')
    for (const [index, request] of batch.entries()) settle(request, answers[index]!)
  }

  /**
   * Answers a request. If the request has timed out, it is no longer in `held`, and a late answer of the worker is
   * ignored.
   */
  function settle(request: Request<Item, Answer>, answer: Answer | Rejection): void {
    if (!held.delete(request)) return
    waiting.delete(request)
    again.delete(request)
    request.answer(answer)
  }

  const watch = makeDeadlineWatch({
    ...{ held, nowMs },
    expire: (request) => settle(request, OVERLOADED),
    checked: drain.check,
  })

  function close(): Promise<void> {
    closed = true
    return drain.done()
  }

  return { ask, held: () => held.size, close }
}

/**
 * Makes two functions, `check` and `done`. `done` returns a promise that resolves once `isIdle` returns true. Only
 * `check` calls `isIdle`, so the caller must call `check` whenever work has ended.
 */
function makeDrain(isIdle: () => boolean) {
  let waiting: (() => void)[] = []
  function check(): void {
    if (!isIdle()) return
    for (const resolve of waiting) resolve()
    waiting = []
  }
  return {
    check,
    done: (): Promise<void> =>
      new Promise((resolve) => {
        waiting.push(resolve)
        check()
      }),
  }
}

/** Removes up to `count` requests from the front of a queue, and returns them. */
function takeSome<T>(queue: Set<T>, count: number): T[] {
  const taken: T[] = []
  for (const one of queue) {
    queue.delete(one)
    taken.push(one)
    if (taken.length === count) break
  }
  return taken
}

/**
 * Expires requests at their deadlines. All requests have the same timeout, so the oldest request expires first and one
 * timer is enough.
 */
function makeDeadlineWatch<R extends { readonly deadlineMs: number }>(ports: {
  readonly held: ReadonlySet<R>
  readonly nowMs: () => number
  readonly expire: (request: R) => void
  /** Called after each check for expired requests. */
  readonly checked: () => void
}) {
  let watching = false

  function start(afterMs: number): void {
    if (watching) return
    watching = true
    setTimeout(check, afterMs).unref()
  }

  function check(): void {
    watching = false
    const now = ports.nowMs()
    for (const request of ports.held) {
      if (request.deadlineMs > now) {
        start(Math.ceil(request.deadlineMs - now))
        break
      }
      ports.expire(request)
    }
    ports.checked()
  }

  return { start }
}
