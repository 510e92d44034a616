/**
 * Records a run: which operations were due, which were answered and how fast, per second and kind, and the fate of each
 * order. It uses no sockets, so it can be tested alone.
 */

import { Histogram } from './histogram.ts'
import type { Answer } from './http-driver.ts'
import type { KindReport } from './report.ts'
import type { OrderFate, SentOrder } from './truth.ts'
import { KINDS, type Kind, type PlannedOrder } from './workload.ts'

type KindSums = {
  planned: number
  answered: number
  fine: number
  readonly errors: Map<string, number>
  readonly latency: Histogram
}

const FATES: readonly OrderFate[] = ['unsent', 'accepted', 'refused', 'unknown']
const WRONG_KEPT = 20

export class Recorder {
  readonly #kinds = new Map<Kind, KindSums>()
  readonly #orders: PlannedOrder[] = []
  readonly #hashes: string[] = []
  readonly #fates: number[] = []
  readonly #matches: number[] = []
  readonly #cancelled = new Set<number>()
  readonly wrong: string[] = []
  wrongCount = 0
  /** Since it was last taken. */
  #interval = { due: 0, answered: 0, errors: 0, latency: new Histogram() }

  constructor() {
    for (const kind of KINDS) {
      const sums = { planned: 0, answered: 0, fine: 0, errors: new Map(), latency: new Histogram() }
      this.#kinds.set(kind, sums)
    }
  }

  get answered(): number {
    return [...this.#kinds.values()].reduce((sum, { answered }) => sum + answered, 0)
  }

  get planned(): number {
    return [...this.#kinds.values()].reduce((sum, { planned }) => sum + planned, 0)
  }

  get writesAnswered(): number {
    const writes: readonly Kind[] = ['place', 'cross', 'cancel']
    return writes.reduce((sum, kind) => sum + (this.#kinds.get(kind)?.answered ?? 0), 0)
  }

  due(kind: Kind): void {
    this.#kinds.get(kind)!.planned++
    this.#interval.due++
  }

  /** Records that an order is about to be sent. */
  ordered(order: PlannedOrder, hash: string): void {
    this.#orders[order.number] = order
    this.#hashes[order.number] = hash
    this.#fates[order.number] = FATES.indexOf('unknown')
    this.#matches[order.number] = 0
  }

  hashOf(order: PlannedOrder): string | undefined {
    return this.#hashes[order.number]
  }

  placed(kind: 'place' | 'cross', order: PlannedOrder, answer: Answer): void {
    const body = jsonOf(answer)
    const code = codeOf(answer, body)
    this.#answered(kind, answer, code)
    if (answer.status === 200) {
      this.#fates[order.number] = FATES.indexOf('accepted')
      this.#matches[order.number] = Number(body?.matches)
      const fits = body?.orderHash === this.#hashes[order.number] && body?.status === 'accepted'
      if (!fits || !Number.isInteger(body?.matches))
        this.complain(`an order was answered ${answer.body}`)
      else if (body?.duplicate === true) this.complain(`${body.orderHash} was there before`)
    } else if (answer.status >= 400 && answer.status < 500) {
      this.#fates[order.number] = FATES.indexOf('refused')
    }
  }

  cancelled(order: PlannedOrder, answer: Answer): void {
    const body = jsonOf(answer)
    const code = codeOf(answer, body)
    const wasAccepted = this.#fates[order.number] === FATES.indexOf('accepted')
    // A cancel may fail because its order was filled meanwhile, or was never accepted.
    const expected = code === 'ORDER_CLOSED' || (code === 'ORDER_NOT_FOUND' && !wasAccepted)
    this.#answered('cancel', answer, expected ? '' : code)
    if (answer.status !== 200) return
    this.#cancelled.add(order.number)
    const fits = body?.status === 'cancelled' && body.orderHash === this.#hashes[order.number]
    if (!fits) this.complain(`a cancel was answered ${answer.body}`)
  }

  read(kind: Kind, answer: Answer, mustHave: string): void {
    const isFine = answer.status === 200
    this.#answered(kind, answer, isFine ? '' : codeOf(answer, jsonOf(answer)))
    if (isFine && !answer.body.includes(mustHave)) {
      this.complain(`${kind} was answered ${answer.body.slice(0, 100)}`)
    }
  }

  complain(text: string): void {
    this.wrongCount++
    if (this.wrong.length < WRONG_KEPT) this.wrong.push(text)
  }

  #answered(kind: Kind, answer: Answer, code: string): void {
    const sums = this.#kinds.get(kind)!
    const interval = this.#interval
    sums.answered++
    interval.answered++
    sums.latency.recordMs(answer.latencyMs)
    interval.latency.recordMs(answer.latencyMs)
    if (code === '') sums.fine++
    else {
      interval.errors++
      sums.errors.set(code, (sums.errors.get(code) ?? 0) + 1)
    }
  }

  /** Returns the counts since the previous call, and starts new ones. */
  takeInterval() {
    const taken = this.#interval
    this.#interval = { due: 0, answered: 0, errors: 0, latency: new Histogram() }
    return taken
  }

  errors(): Map<string, number> {
    const all = new Map<string, number>()
    for (const { errors } of this.#kinds.values()) {
      for (const [code, count] of errors) all.set(code, (all.get(code) ?? 0) + count)
    }
    return all
  }

  report(): KindReport[] {
    return [...this.#kinds]
      .filter(([, { planned }]) => planned > 0)
      .map(([kind, { planned, answered, fine, errors, latency }]) => ({
        kind,
        planned,
        answered,
        fine,
        errors: Object.fromEntries(errors),
        latency: latency.toJSON(),
      }))
  }

  *sent(): Generator<SentOrder> {
    for (const [number, order] of this.#orders.entries()) {
      if (order === undefined) continue
      yield {
        ...order,
        hash: this.#hashes[number]!,
        fate: FATES[this.#fates[number]!]!,
        matches: this.#matches[number]!,
        cancelled: this.#cancelled.has(number),
      }
    }
  }
}

function jsonOf({ status, body }: Answer): Record<string, unknown> | undefined {
  if (status === 0) return undefined
  try {
    return JSON.parse(body) as Record<string, unknown>
  } catch {
    return undefined
  }
}

/** '' for a good answer. */
function codeOf({ status }: Answer, body: Record<string, unknown> | undefined): string {
  if (status === 200) return ''
  if (status === 0) return 'NO_ANSWER'
  return typeof body?.code === 'string' ? body.code : `HTTP_${status}`
}
