/**
 * Gathers what is asked in one turn of the loop into batches for a pool of workers, and hands each
 * asker the answer to what it asked. It knows nothing of what is asked, and starts no thread: `run`
 * is handed in.
 *
 * A turn's requests are spread evenly, so that two requests use two workers and an idle pool begins
 * at once. A worker gets a second batch while it works on the first, so that it never waits for this
 * thread; beyond that requests wait here, where batches grow with the load. Everything has an end:
 * too many requests and late ones are answered `OVERLOADED`. A batch that fails (a worker died, or
 * one request in it is poison) is asked again, one request at a time, because the work has no
 * effects and so the innocent get their answers; what fails again is answered `INTERNAL`.
 */

import assert from 'node:assert/strict'
import { VERIFY_BATCH_MAX, VERIFY_HELD_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'

type BatcherOptions<Item, Answer> = {
  /** How many workers stand behind `run`. */
  readonly workers: number
  /** Answers a batch in its order. It may fail; it should not hang, for it then holds its place. */
  readonly run: (items: readonly Item[]) => Promise<readonly Answer[]>
  /** How long a request may go unanswered. */
  readonly deadlineMs: number
  /** Told of each failed batch, for the log. */
  readonly onFailure: (error: unknown) => void
  readonly batchMax?: number
  /** Requests that may be unanswered at once. */
  readonly heldMax?: number
  /** A clock that never goes back. */
  readonly nowMs?: () => number
  /** When a turn of the loop ends. */
  readonly defer?: (then: () => void) => void
}

export type Batcher<Item, Answer> = {
  readonly ask: (item: Item) => Promise<Answer | Rejection>
  /** How many requests are unanswered. */
  readonly held: () => number
  /** Refuses what is asked from now on; done when everything asked before is answered. */
  readonly close: () => Promise<void>
}

/** One that runs and one that is there when it ends. */
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

  /** Every unanswered request, oldest first; `waiting` and `again` are those not with a worker. */
  const held = new Set<Request<Item, Answer>>()
  const waiting = new Set<Request<Item, Answer>>()
  const again = new Set<Request<Item, Answer>>()
  let tasks = 0
  let deferred = false
  let watching = false
  let closed = false
  let whenDrained: (() => void)[] = []

  function ask(item: Item): Promise<Answer | Rejection> {
    if (closed || held.size >= heldMax) return Promise.resolve(OVERLOADED)
    return new Promise((resolve) => {
      const request = { item, answer: resolve, deadlineMs: nowMs() + deadlineMs, attempts: 0 }
      held.add(request)
      waiting.add(request)
      if (!watching) watch(deadlineMs)
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
      const batch: Request<Item, Answer>[] = []
      for (const request of waiting) {
        waiting.delete(request)
        batch.push(request)
        if (batch.length === share) break
      }
      send(batch)
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
        tellDrained()
      })
  }

  async function perform(batch: readonly Request<Item, Answer>[]): Promise<void> {
    const answers = await run(batch.map((request) => request.item))
    assert.equal(answers.length, batch.length, 'a batch was answered in part')
    for (const [index, request] of batch.entries()) settle(request, answers[index]!)
  }

  /** A request that was given up is not held any more; what its worker says later changes nothing. */
  function settle(request: Request<Item, Answer>, answer: Answer | Rejection): void {
    if (!held.delete(request)) return
    waiting.delete(request)
    again.delete(request)
    request.answer(answer)
  }

  /** One timer serves all, because all have the same time: the oldest request is due first. */
  function watch(afterMs: number): void {
    watching = true
    setTimeout(giveUpLate, afterMs).unref()
  }

  function giveUpLate(): void {
    watching = false
    const now = nowMs()
    for (const request of held) {
      if (request.deadlineMs > now) {
        watch(Math.ceil(request.deadlineMs - now))
        break
      }
      settle(request, OVERLOADED)
    }
    tellDrained()
  }

  function tellDrained(): void {
    if (held.size > 0 || tasks > 0) return
    for (const tell of whenDrained) tell()
    whenDrained = []
  }

  function close(): Promise<void> {
    closed = true
    return new Promise((resolve) => {
      whenDrained.push(resolve)
      tellDrained()
    })
  }

  return { ask, held: () => held.size, close }
}
