/**
 * A random flow on several markets, and clients that subscribe, vanish, resume and stop reading at random. In every
 * run, each client's book equals the server's book at the client's `seq`, each checksum matches, and every missing
 * message is reported by the server or noticed by the client.
 */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { crc32 } from 'node:zlib'
import { checksumAddress } from '#domain/checksum-address.ts'
import { toAddress } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { BUY, OUTCOMES, SELL } from '#domain/order.ts'
import { openOrdersIn } from '../services/market/market-fixture.ts'
import { randomFlow } from '../services/market/random-flow.ts'
import { eventually } from '../support/eventually.ts'
import { traderNamed } from '../support/orders.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { seedsOf } from '../support/sample.ts'
import { RawStreamClient } from './raw-stream-client.ts'
import { type Frame, marketIdOf, startStream, type TestStream } from './stream-fixture.ts'

const MARKETS = 3
/** The last market is complementary. */
const COMPLEMENTARY = MARKETS - 1
const TRADERS = ['ann', 'bob', 'cat']

/** The book after each event, computed only by the rule in `market-event.ts` and not by the exchange's code. */
class History {
  readonly #levels = new Map<string, Map<number, number>>()
  readonly #texts = new Map<string, { seq: number; text: string }[]>()

  take(event: MarketEvent): void {
    const { marketId, seq } = event
    const change = (outcome: number, side: number, price: number, by: number): void => {
      const key = `${marketId}:${outcome}:${side}`
      const levels = this.#levels.get(key) ?? new Map<number, number>()
      this.#levels.set(key, levels)
      const total = (levels.get(price) ?? 0) + by
      if (total === 0) levels.delete(price)
      else levels.set(price, total)
    }
    if (event.type === 'OrderRested') change(event.outcome, event.side, event.price, event.added)
    else if (event.type === 'OrderClosed') {
      if (event.remaining > 0) change(event.outcome, event.side, event.price, -event.remaining)
    } else if (event.type === 'OrdersMatched') {
      const { outcome, side } = event.taker
      // If `kind` is set, the fill is a mint or a merge. Then the maker's order is on the same side as the taker's
      // order, but in the book of the other outcome.
      for (const { price, size, kind } of event.fills) {
        if (kind === undefined) change(outcome, 1 - side, price, -size)
        else change(1 - outcome, side, price, -size)
      }
    }
    for (const outcome of OUTCOMES) {
      const sides = [BUY, SELL].map((side) => this.#side(marketId, outcome, side))
      const others = [SELL, BUY].map((side) => this.#side(marketId, 1 - outcome, side))
      this.#note(`${marketId}:${outcome}`, seq, bookText(sides[0]!, sides[1]!))
      const implied = sides.map((levels, at) => [
        ...withImplied(levels, marketId === marketIdOf(COMPLEMENTARY) ? others[at]! : []),
      ])
      this.#note(`${marketId}:${outcome}:implied`, seq, bookText(implied[0]!, implied[1]!))
    }
  }

  #side(marketId: string, outcome: number, side: number): [number, number][] {
    return [...(this.#levels.get(`${marketId}:${outcome}:${side}`) ?? [])]
  }

  #note(key: string, seq: number, text: string): void {
    const texts = this.#texts.get(key) ?? []
    this.#texts.set(key, texts)
    texts.push({ seq, text })
  }

  /**
   * Returns the text of the book at a `seq`. If `implied` is true, it includes the levels that orders of the other
   * outcome imply.
   */
  at(marketId: string, outcome: number, implied: boolean, seq: number): string {
    const texts = this.#texts.get(`${marketId}:${outcome}${implied ? ':implied' : ''}`) ?? []
    // Finds the text by bisection: there are thousands of texts, and every received frame needs one.
    let low = 0
    let high = texts.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (texts[middle]!.seq <= seq) low = middle + 1
      else high = middle
    }
    return texts[low - 1]?.text ?? '|'
  }
}

/**
 * Returns the levels, plus the levels that the other outcome implies: each of its levels counts at one minus its price.
 */
function withImplied(
  own: readonly [number, number][],
  other: readonly [number, number][],
): Map<number, number> {
  const sums = new Map(own)
  for (const [price, size] of other)
    sums.set(1_000_000 - price, (sums.get(1_000_000 - price) ?? 0) + size)
  return sums
}

function bookText(bids: [number, number][], asks: [number, number][]): string {
  const text = (levels: [number, number][], order: number): string =>
    levels
      .toSorted(([a], [b]) => (a - b) * order)
      .map(([price, size]) => `${price}:${size}`)
      .join(',')
  return `${text(bids, -1)}|${text(asks, 1)}`
}

function checksumOf(text: string): number {
  const ten = (side: string): string => side.split(',').slice(0, 10).join(',')
  const [bids = '', asks = ''] = text.split('|')
  return crc32(`${ten(bids)}|${ten(asks)}`)
}

type Topic = {
  readonly request: Record<string, unknown>
  last: number | string | undefined
  /** True if messages are missing and a snapshot is on its way. */
  stale: boolean
  readonly sides: [Map<number, number>, Map<number, number>]
  readonly orders: Map<string, unknown>
  fills: { seq: number; fill: number; fills: number } | undefined
}

/** A client as the documentation describes it. */
class Client {
  readonly topics = new Map<string, Topic>()
  readonly counts = { frames: 0, gaps: 0, lags: 0, resets: 0, resumes: 0 }
  paused = false
  #socket: RawStreamClient | undefined
  readonly #stream: TestStream
  readonly #history: History

  constructor(stream: TestStream, history: History) {
    this.#stream = stream
    this.#history = history
  }

  get isGone(): boolean {
    return this.#socket === undefined || this.#socket.gone
  }

  async connect(): Promise<void> {
    const socket = new RawStreamClient(`${this.#stream.url}/api/v1/stream`)
    this.#socket = socket
    this.paused = false
    await eventually(() => assert.equal(socket.frames[0]?.type, 'hello'))
    socket.onFrame = (frame) => {
      if (this.#socket === socket) this.#hear(frame)
    }
    for (const topic of this.topics.values()) {
      topic.stale = topic.last === undefined
      this.#ask(topic)
    }
  }

  vanish(): void {
    this.#socket?.close()
    this.#socket = undefined
  }

  subscribe(sub: string, request: Record<string, unknown>): void {
    if (this.topics.has(sub) || this.isGone) return
    const topic: Topic = {
      request,
      last: undefined,
      stale: true,
      sides: [new Map(), new Map()],
      orders: new Map(),
      fills: undefined,
    }
    this.topics.set(sub, topic)
    this.#ask(topic)
  }

  unsubscribe(sub: string): void {
    if (!this.topics.delete(sub)) return
    this.#socket?.say({ op: 'unsubscribe', sub })
  }

  pause(): void {
    this.paused = true
    this.#socket?.pause()
  }

  resume(): void {
    this.paused = false
    this.#socket?.resume()
  }

  #ask(topic: Topic): void {
    if (topic.last !== undefined) this.counts.resumes++
    const since = topic.last === undefined ? {} : { since: topic.last }
    this.#socket?.say({ op: 'subscribe', ...topic.request, ...since })
  }

  #hear(frame: Frame): void {
    this.counts.frames++
    if (frame.type === 'error') assert.fail(JSON.stringify(frame))
    const topic = this.topics.get(frame.sub as string)
    if (topic === undefined) return
    if (frame.type === 'subscribed') {
      if (!topic.stale) topic.last = frame.seq as number
      return
    }
    if (frame.type === 'lag') {
      this.counts.lags++
      topic.stale = true
      return
    }
    if (frame.type.endsWith('.snapshot')) {
      if (frame.reset === true) this.counts.resets++
      topic.stale = false
      topic.fills = undefined
      topic.last = (frame.cursor ?? frame.seq) as number
      for (const side of topic.sides) side.clear()
      topic.orders.clear()
      this.#apply(topic, frame)
      return
    }
    if (topic.stale) return
    const previous = frame.prevCursor ?? frame.prevSeq
    const follows =
      frame.type === 'trade' && topic.fills?.seq === frame.seq
        ? frame.fill === (topic.fills?.fill ?? 0) + 1
        : previous === topic.last &&
          (topic.fills === undefined || topic.fills.fill === topic.fills.fills)
    if (!follows) {
      this.counts.gaps++
      topic.stale = true
      this.#socket?.say({ op: 'snapshot', sub: frame.sub })
      return
    }
    topic.last = (frame.cursor ?? frame.seq) as number
    this.#apply(topic, frame)
  }

  #apply(topic: Topic, frame: Frame): void {
    if (frame.type === 'trade') topic.fills = frame as unknown as Topic['fills']
    if (frame.type === 'book.snapshot' || frame.type === 'book.delta') {
      const pairs = [frame.bids, frame.asks] as [number, number][][]
      for (const side of [BUY, SELL] as const) {
        for (const [price, size] of pairs[side]!) {
          if (size === 0) topic.sides[side].delete(price)
          else topic.sides[side].set(price, size)
        }
      }
      const text = bookText([...topic.sides[0]], [...topic.sides[1]])
      const { marketId, outcome, seq } = frame as unknown as {
        marketId: string
        outcome: number
        seq: number
      }
      const implied = topic.request.implied === true
      const expected = this.#history.at(marketId, outcome, implied, seq)
      assert.equal(text, expected, `${String(frame.sub)} at ${seq}`)
      assert.equal(frame.checksum, checksumOf(text))
    } else if (frame.type === 'orders.snapshot') {
      for (const order of frame.orders as Frame[])
        topic.orders.set(keyOf(order), order.remainingSize)
    } else if (frame.type === 'order') {
      const ended = !['accepted', 'partially_filled'].includes(String(frame.status))
      if (ended) topic.orders.delete(keyOf(frame))
      else topic.orders.set(keyOf(frame), frame.remainingSize)
    }
  }
}

/** Orders of two markets may have the same hash here, so the key contains the market. */
function keyOf(order: object): string {
  const { marketId, orderHash } = order as Record<string, unknown>
  return `${String(marketId)} ${String(orderHash)}`
}

function someTopic(random: Random): [sub: string, request: Record<string, unknown>] {
  const marketId = marketIdOf(random.int(0, MARKETS - 1))
  const chance = random.next()
  if (chance < 0.65) {
    const outcome = random.int(0, 1)
    const book = { channel: 'book', marketId, outcome }
    const [pace, request] =
      chance < 0.5 ? ['', book] : [':20', { ...book, mode: 'conflate', maxHz: 20 }]
    const name = `book:${marketId}:${outcome}${pace}`
    return random.chance(0.5) ? [name, request] : [`${name}:implied`, { ...request, implied: true }]
  }
  if (chance < 0.8) return [`trades:${marketId}`, { channel: 'trades', marketId }]
  if (chance < 0.95) {
    const trader = checksumAddress(traderNamed(random.pick(TRADERS)))
    return [`orders:${trader}`, { channel: 'orders', trader }]
  }
  return [`market:${marketId}`, { channel: 'market', marketId }]
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

async function live(t: TestContext, random: Random): Promise<void> {
  const stream = await startStream(t, {
    markets: MARKETS,
    complementary: [COMPLEMENTARY],
    settings: { replayMessages: 200, bufferBytesMax: 16_384 },
  })
  const history = new History()
  const flows = stream.markets.map((market) => randomFlow(market, random))
  const read = stream.markets.map(() => 0)
  const record = (): void => {
    for (const [index, { events }] of stream.markets.entries()) {
      for (const event of events.slice(read[index])) history.take(event)
      read[index] = events.length
    }
  }
  const act = (steps: number): void => {
    for (let step = 0; step < steps; step++) random.pick(flows).step()
    record()
  }
  record()
  const clients = Array.from({ length: 10 }, () => new Client(stream, history))
  t.after(() => {
    for (const client of clients) client.vanish()
  })
  for (const client of clients) await client.connect()

  for (let round = 0; round < 120; round++) {
    act(random.int(1, 60))
    if (random.chance(0.05)) stream.lose()
    else stream.flow()
    const client = random.pick(clients)
    if (client.isGone) await client.connect()
    else if (random.chance(0.15)) client.vanish()
    else if (random.chance(0.1)) client.unsubscribe([...client.topics.keys()][0] ?? '')
    else client.subscribe(...someTopic(random))
    if (random.chance(0.5)) await nextTurn()
  }

  // Some readers stop for so long that their buffer overflows.
  const asleep = clients.slice(0, 3)
  for (const client of asleep) {
    if (client.isGone) await client.connect()
    for (let count = 0; count < 12; count++) client.subscribe(...someTopic(random))
  }
  await nextTurn()
  for (const client of asleep) client.pause()
  await eventually(async () => {
    act(400)
    stream.flow()
    assert.ok(stream.hub.figures().lagging > 0)
  })
  for (let round = 0; round < 20; round++) {
    act(20)
    stream.flow()
    await nextTurn()
    if (round === 10) for (const client of asleep) client.resume()
  }
  for (const client of clients) if (client.isGone) await client.connect()

  // At the end every client has the markets' current state.
  act(50)
  stream.flow()
  await eventually(() => {
    for (const client of clients) {
      for (const [sub, topic] of client.topics) {
        assert.equal(topic.stale, false, sub)
        const { channel, marketId, outcome, trader } = topic.request as Record<string, string>
        if (channel === 'book') {
          const text = bookText([...topic.sides[0]], [...topic.sides[1]])
          const implied = topic.request.implied === true
          const last = Number.POSITIVE_INFINITY
          assert.equal(text, history.at(marketId!, Number(outcome), implied, last), sub)
        } else if (channel === 'orders') {
          const address = toAddress(trader!)
          const { orders: open } = openOrdersIn(
            stream.markets.map(({ state }) => state),
            address,
          )
          const expected = open.map((order) => `${keyOf(order)} ${order.remaining}`)
          const had = Array.from(topic.orders, ([hash, left]) => `${hash} ${String(left)}`)
          assert.deepEqual(had.sort(), expected.sort(), sub)
        }
      }
    }
  })
  const total = (what: keyof Client['counts']): number =>
    clients.reduce((sum, client) => sum + client.counts[what], 0)
  const counted = (['frames', 'gaps', 'lags', 'resets', 'resumes'] as const).map(
    (what) => `${total(what)} ${what}`,
  )
  t.diagnostic(`seed ${random.seed}: ${counted.join(', ')}`)
  assert.ok(total('lags') > 0 && total('resets') > 0 && total('resumes') > 0)
}

for (const seed of seedsOf(1, 2)) {
  test(`each client’s book equals the server’s at every seq that the client has reached, TEST_SEED=${seed}`, (t) =>
    live(t, randomFrom(seed)))
}
