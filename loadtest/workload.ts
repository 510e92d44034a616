/**
 * The plan of a run: which operations the traders carry out, and when. The plan depends only on the options and the
 * seed. Each operation is generated when it is read, so even the plan of a long run needs little memory. All times are
 * planned times. `carry-out.ts` measures latency from the planned time of an operation, so the latency includes delays
 * by a slow server.
 *
 * The middle price of each market drifts. Makers quote a few ticks away from the middle price. Takers offer prices
 * beyond the quotes of the other side, so that they match. Some quotes are cancelled later.
 */

import { type Random, randomFrom } from '../test/support/random.ts'

export const READS = ['book', 'trades', 'orders', 'markets'] as const
export type Read = (typeof READS)[number]
export const KINDS = ['place', 'cross', 'cancel', ...READS] as const
export type Kind = (typeof KINDS)[number]

/** How often each kind of operation occurs, relative to the others. */
export type Mix = Readonly<Partial<Record<Kind, number>>>

export type WorkloadOptions = {
  readonly seed: number
  /** Operations per second, on average. */
  readonly rate: number
  readonly seconds: number
  readonly markets: number
  readonly traders: number
  readonly mix: Mix
  /** Returns the factor by which the rate is multiplied in this second. Without `surge`, the factor is 1. */
  readonly surge?: (second: number) => number
}

export type PlannedOrder = {
  /** Number of the order in the plan, from 0. */
  readonly number: number
  readonly market: number
  readonly trader: number
  readonly side: 0 | 1
  readonly outcome: 0 | 1
  readonly price: number
  readonly size: number
}

export type OrderOperation = PlannedOrder & {
  readonly atMs: number
  readonly kind: 'place' | 'cross'
}
export type CancelOperation = {
  readonly atMs: number
  readonly kind: 'cancel'
  readonly order: PlannedOrder
}
export type ReadOperation = {
  readonly atMs: number
  readonly kind: Read
  readonly market: number
  readonly trader: number
  readonly outcome: 0 | 1
}
export type Operation = OrderOperation | CancelOperation | ReadOperation

export function isOrder(operation: Operation): operation is OrderOperation {
  return operation.kind === 'place' || operation.kind === 'cross'
}

const TICK = 1_000
const QUOTE_TICKS_MAX = 20
const REACH_TICKS = 25
const MIDDLE_MIN = 100
const MIDDLE_MAX = 900
const SHARE = 1_000_000
/** Minimum age of an order before the plan cancels it, so that the exchange has usually answered the order first. */
const CANCEL_AFTER_MS = 1_000
/** Maximum number of quotes that are remembered for a later cancel. Quotes beyond this number are never cancelled. */
const QUOTES_MAX = 20_000

export function* planOf(options: WorkloadOptions): Generator<Operation, void, undefined> {
  const { seed, rate, seconds, markets, traders, mix, surge } = options
  const random = randomFrom(seed)
  const pick = pickerOf(mix, random)
  const middles = Array.from({ length: markets * 2 }, () => random.int(200, 800))
  const quotes: { atMs: number; order: PlannedOrder }[] = []
  let number = 0
  let atMs = 0

  const order = (crosses: boolean): PlannedOrder => {
    const market = random.int(0, markets - 1)
    const outcome = random.int(0, 1) as 0 | 1
    const book = market * 2 + outcome
    if (random.chance(0.05)) {
      const step = middles[book]! + random.int(-3, 3)
      middles[book] = Math.min(MIDDLE_MAX, Math.max(MIDDLE_MIN, step))
    }
    const side = random.int(0, 1) as 0 | 1
    const away = crosses ? -REACH_TICKS : random.int(1, QUOTE_TICKS_MAX)
    const ticks = middles[book]! + (side === 0 ? -away : away)
    return {
      number: number++,
      market,
      trader: random.int(0, traders - 1),
      side,
      outcome,
      price: ticks * TICK,
      size: random.int(1, 50) * SHARE,
    }
  }

  /**
   * Returns a random quote to cancel. Returns undefined if there is no quote, or if the chosen quote is younger than
   * `CANCEL_AFTER_MS`: the exchange may not have answered it yet.
   */
  const oldQuote = (): PlannedOrder | undefined => {
    if (quotes.length === 0) return undefined
    const at = random.int(0, quotes.length - 1)
    const quote = quotes[at]!
    if (atMs - quote.atMs < CANCEL_AFTER_MS) return undefined
    quotes[at] = quotes.at(-1)!
    quotes.pop()
    return quote.order
  }

  for (;;) {
    // Traders act independently, so the gaps between operations have an exponential distribution.
    const perMs = (rate * (surge?.(Math.floor(atMs / 1_000)) ?? 1)) / 1_000
    atMs += -Math.log(1 - random.next()) / perMs
    if (atMs >= seconds * 1_000) return
    let kind = pick()
    const cancelled = kind === 'cancel' ? oldQuote() : undefined
    if (kind === 'cancel' && cancelled === undefined) kind = 'place'
    if (cancelled !== undefined) yield { kind: 'cancel', atMs, order: cancelled }
    else if (kind === 'place' || kind === 'cross') {
      const made = order(kind === 'cross')
      if (kind === 'place' && quotes.length < QUOTES_MAX) quotes.push({ atMs, order: made })
      yield { kind, atMs, ...made }
    } else {
      yield {
        kind: kind as Read,
        atMs,
        market: random.int(0, markets - 1),
        trader: random.int(0, traders - 1),
        outcome: random.int(0, 1) as 0 | 1,
      }
    }
  }
}

/** Iterates only over the orders of the plan, for the threads that sign them. */
export function* ordersOf(options: WorkloadOptions): Generator<PlannedOrder, void, undefined> {
  for (const operation of planOf(options)) {
    if (isOrder(operation)) yield operation
  }
}

function pickerOf(mix: Mix, random: Random): () => Kind {
  const kinds = KINDS.filter((kind) => (mix[kind] ?? 0) > 0)
  const total = kinds.reduce((sum, kind) => sum + (mix[kind] ?? 0), 0)
  return () => {
    let left = random.next() * total
    for (const kind of kinds) {
      left -= mix[kind] ?? 0
      if (left < 0) return kind
    }
    return kinds.at(-1) ?? 'place'
  }
}
