/**
 * Compares the book with the fastest order book on npm. Both replay one recorded flow: 70 % of the operations place
 * orders, of which about half cross, and 30 % cancel resting orders. Both books report the same results: the id, price
 * and quantity of every fill, and the order that was cancelled. Only our book also parses hashes and addresses from
 * hex, writes hashes as hex for every fill, and stores traders and expirations. A second comparison measures the cost
 * of an operation at 1,000,000 resting orders and at 1,000.
 *
 * In the first comparison about 10,000 orders rest, as in a busy market. If many orders share one price, the peer slows
 * down, because its cancel walks through all of them. Our book does not.
 */

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { Book } from '#book/book.ts'
import { MatchResult, match } from '#book/match.ts'
import type { OrderTerms } from '#book/order-record.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import { tuneV8 } from '#runtime/v8-flags.ts'
import { type Random, randomFrom } from '../test/support/random.ts'
import { type Bench, quick, report, runBench } from './bench.ts'

tuneV8()

type Operation =
  | { readonly place: OrderTerms; readonly cancel?: never }
  | { readonly place?: never; readonly cancel: OrderHash }

const NOW_SEC = 1_700_000_000
const RULES = { nowSec: NOW_SEC, selfTrade: 'allow', makersMax: 10_000 } as const
const ORDERS_MAX = 2_000_000
/** Commands of one message. */
const BATCH = 256
/**
 * Number of times that our side plays the flow in one round. The peer plays it only once, because one of its plays
 * takes about ten times as long as one of ours.
 */
const OUR_PLAYS = quick ? 1 : 4
/** Size of a hash in a recording. */
const HASH_BYTES = 66
const TEXT_BYTES = HASH_BYTES + 42
const NUMBERS = 5

/** Types of the peer's functions, because the type declarations in its package are wrong. */
type PeerBook = {
  limit(order: PeerOrder): {
    readonly err: Error | null
    readonly done: readonly unknown[]
  }
  cancel(id: string): unknown
  depth(): [asks: [number, number][], bids: [number, number][]]
}
const { OrderBook: PeerOrderBook } = createRequire(import.meta.url)('nodejs-order-book') as {
  OrderBook: new () => PeerBook
}

/**
 * Records a flow of operations. Applies each operation to a book, so that every recorded cancel names a resting order.
 */
class Recorder {
  readonly book = new Book({ ordersMax: ORDERS_MAX })
  readonly #random: Random
  readonly #levels: number
  readonly #traders: Address[]
  readonly #result = new MatchResult()
  /** Orders that came to rest; some have left the book since. */
  readonly #rested: OrderHash[] = []
  #target = 0

  constructor(seed: number, levels: number) {
    this.#random = randomFrom(seed)
    this.#levels = levels
    this.#traders = Array.from({ length: 1_000 }, () => this.#random.hex(20) as Address)
  }

  /** Orders that cross nothing. */
  resting(count: number): Operation[] {
    this.#target += count
    return Array.from({ length: count }, () => this.#place(false))
  }

  flow(count: number): Operation[] {
    return Array.from({ length: count }, () => {
      const random = this.#random
      if (!random.chance(0.3)) return this.#place(random.chance(0.5))
      for (;;) {
        const at = random.int(0, this.#rested.length - 1)
        const orderHash = this.#rested[at]!
        this.#rested[at] = this.#rested.at(-1)!
        this.#rested.pop()
        if (this.book.cancel(orderHash) !== undefined) return { cancel: orderHash }
      }
    })
  }

  #place(crossing: boolean): Operation {
    const random = this.#random
    const side = random.chance(0.5) ? BUY : SELL
    const tick = Math.floor(900_000 / this.#levels)
    const middle = this.#levels / 2
    // A crossing order has the best price of the other side. Other orders have a random price: bids in the lower half
    // of the prices, asks in the upper half.
    const best = side === BUY ? this.book.bestAsk : this.book.bestBid
    const aside = random.int(0, middle - 1)
    const step = side === BUY ? middle - 1 - aside : middle + aside
    const price = crossing && best > 0 ? best : 1 + step * tick
    // Crossing orders are small, unless the book has grown. This keeps the number of resting orders about the same.
    const small = crossing && this.book.count <= this.#target
    const size = random.int(1, small ? 20 : 100) * 1_000_000
    const order: OrderTerms = {
      orderHash: random.hex(32) as OrderHash,
      trader: random.pick(this.#traders),
      side,
      price: price as Price,
      size: size as Shares,
      expiresAtSec: NOW_SEC + 60 + random.int(0, 86_400),
      placedAtMs: NOW_SEC * 1_000,
    }
    place(this.book, order, this.#result)
    if (this.#result.left > 0) this.#rested.push(order.orderHash)
    return { place: order }
  }
}

type Fill = { makerHash: OrderHash; price: Price; size: Shares; remaining: number }

const NONE: Fill[] = []

/** Handles an order as a market does: matches it, reports the fills, and rests the remainder. */
function place(book: Book, order: OrderTerms, result: MatchResult): Fill[] {
  match(book, order, RULES, result)
  const { fills, left } = result
  const told: Fill[] = fills.length === 0 ? NONE : new Array(fills.length)
  for (let index = 0; index < fills.length; index++) {
    told[index] = {
      makerHash: fills.orderHash(index),
      price: fills.price(index),
      size: fills.taken(index),
      remaining: fills.remaining(index),
    }
  }
  if (left > 0) book.rest(order, left as Shares, fills.length)
  return told
}

const result = new MatchResult()

/**
 * A recorded flow of operations. One buffer contains their hashes and addresses as text, another one contains their
 * numeric fields. Before each measurement the flow is converted to fresh objects and texts, like commands that were
 * just read from a message.
 */
class Recording<Call> {
  readonly #calls: number
  readonly #texts: Buffer
  readonly #numbers: Float64Array
  readonly #call: (operation: Operation) => Call

  constructor(flow: readonly Operation[], call: (operation: Operation) => Call) {
    this.#calls = flow.length
    this.#texts = Buffer.alloc(flow.length * TEXT_BYTES)
    this.#numbers = new Float64Array(flow.length * NUMBERS)
    this.#call = call
    for (const [index, { place, cancel }] of flow.entries()) {
      this.#texts.write(place === undefined ? cancel : place.orderHash, index * TEXT_BYTES)
      if (place === undefined) continue
      this.#texts.write(place.trader, index * TEXT_BYTES + HASH_BYTES)
      const { side, price, size, expiresAtSec, placedAtMs } = place
      this.#numbers.set([side, price, size, expiresAtSec, placedAtMs], index * NUMBERS)
    }
  }

  /** Plays the flow in batches; returns operations per second. */
  play(run: (batch: readonly Call[]) => void): number {
    let milliseconds = 0
    for (let from = 0; from < this.#calls; from += BATCH) {
      const batch: Call[] = []
      for (let index = from; index < Math.min(from + BATCH, this.#calls); index++) {
        batch.push(this.#call(this.#operation(index)))
      }
      const began = performance.now()
      run(batch)
      milliseconds += performance.now() - began
    }
    return this.#calls / (milliseconds / 1_000)
  }

  #operation(index: number): Operation {
    const at = index * TEXT_BYTES
    const orderHash = this.#texts.toString('latin1', at, at + HASH_BYTES) as OrderHash
    const number = (which: number) => this.#numbers[index * NUMBERS + which]!
    if (number(1) === 0) return { cancel: orderHash }
    const trader = this.#texts.toString('latin1', at + HASH_BYTES, at + TEXT_BYTES) as Address
    return {
      place: {
        orderHash,
        trader,
        side: number(0) === BUY ? BUY : SELL,
        price: number(1) as Price,
        size: number(2) as Shares,
        expiresAtSec: number(3),
        placedAtMs: number(4),
      },
    }
  }
}

function ourCalls(flow: readonly Operation[]): Recording<Operation> {
  return new Recording(flow, (operation) => operation)
}

function runOurs(book: Book, flow: Recording<Operation>): number {
  let fills = 0
  const rate = flow.play((batch) => {
    for (const { place: order, cancel } of batch) {
      if (order !== undefined) fills += place(book, order, result).length
      else if (book.cancel(cancel) === undefined) assert.fail('cancels meet an order')
    }
  })
  assert.ok(fills >= 0)
  return rate
}

function runPeer(book: PeerBook, flow: Recording<PeerCall>): number {
  return flow.play((batch) => {
    for (const { limit, cancel } of batch) {
      if (limit === undefined) book.cancel(cancel)
      else if (book.limit(limit).err !== null) assert.fail('the peer takes every order')
    }
  })
}

type PeerOrder = { side: 'buy' | 'sell'; id: string; size: number; price: number }
type PeerCall = { limit: PeerOrder; cancel?: never } | { limit?: never; cancel: string }

function peerCalls(flow: readonly Operation[]): Recording<PeerCall> {
  return new Recording(flow, (operation) => {
    if (operation.place === undefined) return { cancel: operation.cancel }
    const { orderHash, side, price, size } = operation.place
    return { limit: { side: side === BUY ? 'buy' : 'sell', id: orderHash, size, price } }
  })
}

/** Checks that both books have the same levels after the same flow: otherwise they did different work. */
function sameDepth(ours: Book, peer: PeerBook): void {
  const [asks, bids] = peer.depth()
  const levels = (side: typeof BUY | typeof SELL) =>
    ours.depth(side).map(({ price, size }): [number, number] => [price, Number(size)])
  assert.deepEqual(levels(SELL), asks)
  assert.deepEqual(levels(BUY), bids)
}

function besidePeer(levels: number): Bench {
  const recorder = new Recorder(levels, levels)
  const first = recorder.resting(10_000)
  const flow = recorder.flow(quick ? 100_000 : 200_000)
  const [ourFirst, peerFirst] = [ourCalls(first), peerCalls(first)]
  const [ourFlow, peerFlow] = [ourCalls(flow), peerCalls(flow)]
  let checked: Book | undefined
  return {
    bench: `book, ${levels} price levels`,
    unit: 'operations/s',
    peer: 'nodejs-order-book on the same flow',
    bar: 10,
    rounds: quick ? 3 : 11,
    warmups: 3,
    ours() {
      // Plays the flow several times, because one play is too short to measure.
      let secondsPerOperation = 0
      for (let play = 0; play < OUR_PLAYS; play++) {
        const book = new Book({ ordersMax: ORDERS_MAX })
        runOurs(book, ourFirst)
        checked = book
        secondsPerOperation += 1 / runOurs(book, ourFlow) / OUR_PLAYS
      }
      return 1 / secondsPerOperation
    },
    theirs() {
      const peer = new PeerOrderBook()
      runPeer(peer, peerFirst)
      const rate = runPeer(peer, peerFlow)
      if (checked !== undefined) sameDepth(checked, peer)
      return rate
    },
  }
}

/**
 * Checks that an operation on a large book takes at most eight times as long as on a small book. It takes longer there
 * because memory accesses are slower.
 */
function largeBesideSmall(): Bench {
  const rounds = quick ? 3 : 7
  const perRound = quick ? 50_000 : 100_000
  const sized = (orders: number) => {
    const recorder = new Recorder(7, 10_000)
    const book = new Book({ ordersMax: ORDERS_MAX })
    runOurs(book, ourCalls(recorder.resting(orders)))
    const flows = Array.from({ length: rounds + 1 }, () => ourCalls(recorder.flow(perRound)))
    return (round: number) => runOurs(book, flows[round + 1]!)
  }
  const large = sized(1_000_000)
  const small = sized(1_000)
  return {
    bench: 'book, 1,000,000 resting orders',
    unit: 'operations/s',
    peer: 'itself with 1,000 resting orders, of which it may be an eighth',
    bar: 1 / 8,
    rounds,
    ours: (round) => large(round.index),
    theirs: (round) => small(round.index),
  }
}

report(await runBench(largeBesideSmall()))
const results = [await runBench(besidePeer(100)), await runBench(besidePeer(10_000))]
// The last line counts as the result of the run, so the smallest lead over the peer is printed last.
results.sort((a, b) => b.ratio - a.ratio)
for (const each of results) report(each)
