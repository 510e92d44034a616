/**
 * The sockets of a load test, in a separate thread. There are two kinds:
 *
 * - Witnesses follow all books, trades and orders of the run. They compare each message with the message before it,
 *   keep the books and check their checksums, and remember how each order ended.
 * - Readers cause the load. They follow books and trades like any client and check that no message is missing. They
 *   store only the position of their last message.
 */

import { performance } from 'node:perf_hooks'
import { parentPort } from 'node:worker_threads'
import { parseExactJson } from '#client/exact-json.ts'
import { LocalBook } from '#client/local-book.ts'
import type { BookMessage } from '#client/stream-messages.ts'
import type { OrdersMessage, TradesMessage } from '#protocol/shapes/stream.ts'
import type { Address } from './dial.ts'
import { Histogram, type HistogramJson } from './histogram.ts'
import { openRawSocket, type RawSocket } from './raw-socket.ts'

export type WatchTask = {
  readonly address: Address
  readonly markets: readonly string[]
  /** As the API writes them. */
  readonly traders: readonly string[]
  readonly readers: number
}

export type ToWatch = { readonly open: WatchTask } | 'figures' | 'facts'

export type WatchFigures = {
  readonly sockets: number
  readonly messages: number
  /**
   * Delays of the messages received since the previous figures. A delay is the time from a change, by the exchange's
   * wall clock, to the receipt of its message, by the wall clock of this process.
   */
  readonly lag: HistogramJson
  readonly busy: number
}

export type WatchedBook = {
  readonly market: number
  readonly outcome: 0 | 1
  readonly seq: number
  readonly bids: readonly string[]
  readonly asks: readonly string[]
}

export type WatchedTrades = {
  readonly count: number
  /**
   * `taken`: number of trades whose taker is a trader of this run. `bought` and `sold`: shares that the traders of this
   * run bought and sold.
   */
  readonly taken: number
  readonly bought: number
  readonly sold: number
  /** Oldest first, the last hundred. */
  readonly newest: readonly string[]
  readonly failed: number
  /** Number of trades with a trader who is not part of this run. */
  readonly foreign: number
}

export type OrderEnd = 'accepted' | 'partially_filled' | 'filled' | 'cancelled' | 'expired'

export type WatchFacts = {
  readonly books: readonly WatchedBook[]
  readonly trades: readonly WatchedTrades[]
  readonly orders: ReadonlyMap<string, { readonly status: OrderEnd; readonly remaining: number }>
  /** Gaps: messages that do not follow the message before them, although the server reported no loss. */
  readonly gaps: readonly string[]
  readonly gapCount: number
  /** Number of losses that the server reported. */
  readonly lags: number
  readonly closed: readonly string[]
  readonly closedCount: number
  readonly messages: number
  /**
   * Number of reader subscriptions whose last message is older than the witness's last message of the same channel and
   * market.
   */
  readonly behind: number
  readonly followed: number
}

export type FromWatch =
  | { readonly opened: number }
  | { readonly failed: string; readonly opened: number }
  | { readonly figures: WatchFigures }
  | { readonly facts: WatchFacts }

/** Number of subscriptions of each witness's socket; the exchange limits how many one connection may have. */
const SUBSCRIPTIONS_PER_WITNESS = 100
const OPEN_AT_ONCE = 50
const KEPT_COMPLAINTS = 20
const NEWEST_TRADES = 100

let task: WatchTask
let open = 0
let messages = 0
let lag = new Histogram()
let lags = 0
const gaps: string[] = []
let gapCount = 0
const closed: string[] = []
let closedCount = 0
let idle = performance.eventLoopUtilization()
const sockets: RawSocket[] = []

type Place = { last: number | string; fill: number }
const books = new Map<string, { market: number; outcome: 0 | 1; book: LocalBook }>()
const trades: { -readonly [K in keyof WatchedTrades]: WatchedTrades[K] }[] = []
const newest: string[][] = []
const orders = new Map<string, { status: OrderEnd; remaining: number }>()
const ours = new Set<string>()
/** Last message of the witnesses, by channel and market; the readers are compared with it. */
const places = new Map<string, Place>()
type ReaderPlace = Place & { readonly like: string }
const readers: Map<string, ReaderPlace>[] = []

const say = (news: FromWatch): void => parentPort?.postMessage(news)

function gap(text: string): void {
  gapCount++
  if (gaps.length < KEPT_COMPLAINTS) gaps.push(text)
}

/** Records a gap if a message does not follow the previous message of its channel. */
function follows(
  place: Place,
  previous: number | string,
  next: number | string,
  sub: string,
): void {
  if (previous !== place.last)
    gap(`${sub}: ${String(next)} follows ${String(previous)}, had ${place.last}`)
  place.last = next
}

/**
 * Records a gap if a trade does not follow the previous message. All trades of one match have the same `seq`. In the
 * first of them, `prevSeq` is the `seq` of the message before the match. In the others, `prevSeq` equals `seq`, and
 * `fill` counts up.
 */
function followsTrade(
  place: Place,
  message: { seq: number; prevSeq: number; fill: number },
  sub: string,
) {
  const { seq, prevSeq, fill } = message
  const goesOn = prevSeq === seq
  if (goesOn ? place.last !== seq || fill !== place.fill + 1 : place.last !== prevSeq) {
    gap(`${sub}: trade ${seq}/${fill} follows ${prevSeq}, had ${place.last}/${place.fill}`)
  }
  place.last = seq
  place.fill = fill
}

type Request = Readonly<Record<string, unknown>>
type Taker = (message: Record<string, unknown>, sub: string) => void

/** Opens a witness, a socket whose messages are all parsed as JSON. */
function openWitness(requests: readonly Request[], takers: readonly Taker[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const bySub = new Map<string, Taker>()
    let ready = 0
    let opened = false
    const socket = openRawSocket(task.address, {
      text(data, at, length) {
        const text = data.toString('utf8', at, at + length)
        const message = parseExactJson(text) as Record<string, unknown>
        const sub = String(message.sub)
        switch (message.type) {
          case 'hello':
            for (const [id, request] of requests.entries()) {
              socket.send(JSON.stringify({ op: 'subscribe', id, ...request }))
            }
            break
          case 'subscribed':
            bySub.set(sub, takers[Number(message.id)]!)
            break
          case 'lag':
            lags++
            break
          case 'error':
            reject(
              new Error(
                `the stream returned the error ${String(message.code)}: ${String(message.error)}`,
              ),
            )
            break
          case 'heartbeat':
            break
          default:
            messages++
            if (typeof message.ts === 'number' && !String(message.type).endsWith('snapshot')) {
              lag.recordMs(Date.now() - message.ts)
            }
            bySub.get(sub)?.(message, sub)
            if (
              !opened &&
              String(message.type).endsWith('snapshot') &&
              ++ready === requests.length
            ) {
              opened = true
              resolve()
            }
        }
      },
      closed(why) {
        open--
        if (opened) {
          closedCount++
          if (closed.length < KEPT_COMPLAINTS) closed.push(`a witness: ${why}`)
        } else reject(new Error(why))
      },
    })
    open++
    sockets.push(socket)
  })
}

function placeLike(like: string): Place {
  let place = places.get(like)
  if (place === undefined) {
    place = { last: 0, fill: 0 }
    places.set(like, place)
  }
  return place
}

function bookTaker(market: number, outcome: 0 | 1): Taker {
  const key = `book:${market}:${outcome}`
  const place = placeLike(key)
  const book = new LocalBook()
  books.set(key, { market, outcome, book })
  return (raw, sub) => {
    const message = raw as unknown as BookMessage
    const { seq, bids, asks, checksum } = message
    if (message.type === 'book.snapshot') {
      book.load(seq, bids, asks)
      place.last = seq
    } else {
      follows(place, message.prevSeq, seq, sub)
      book.apply(seq, bids, asks)
    }
    if (book.checksum() !== checksum) gap(`${sub}: the checksum of ${seq} does not fit`)
  }
}

function tradesTaker(market: number): Taker {
  const place = placeLike(`trades:${market}`)
  const sum = { count: 0, taken: 0, bought: 0, sold: 0, newest: [], failed: 0, foreign: 0 }
  trades[market] = sum
  const last: string[] = []
  newest[market] = last
  return (raw, sub) => {
    const message = raw as unknown as TradesMessage
    if (message.type === 'trades.snapshot') {
      place.last = message.seq
      return
    }
    if (message.type === 'trade.status') {
      follows(place, message.prevSeq, message.seq, sub)
      if (message.status === 'failed' || message.status === 'reverted') sum.failed++
      return
    }
    followsTrade(place, message, sub)
    sum.count++
    const { buyer, seller, takerSide, size, kind } = message
    const [isBuyerOurs, isSellerOurs] = [ours.has(buyer), ours.has(seller)]
    if (takerSide === 0 ? isBuyerOurs : isSellerOurs) sum.taken++
    // In a mint, both orders buy. In a merge, both orders sell.
    if (isBuyerOurs) sum[kind === 'merge' ? 'sold' : 'bought'] += size
    if (isSellerOurs) sum[kind === 'mint' ? 'bought' : 'sold'] += size
    if (!isBuyerOurs || !isSellerOurs) sum.foreign++
    last.push(message.tradeId)
    if (last.length > 2 * NEWEST_TRADES) last.splice(0, NEWEST_TRADES)
  }
}

function ordersTaker(): Taker {
  const place: Place = { last: '', fill: 0 }
  return (raw, sub) => {
    const message = raw as unknown as OrdersMessage
    if (message.type === 'orders.snapshot') place.last = message.cursor
    else follows(place, message.prevCursor, message.cursor, sub)
    if (message.type === 'orders.snapshot') {
      for (const { orderHash, status, remainingSize } of message.orders) {
        orders.set(orderHash, { status, remaining: remainingSize })
      }
    } else if (message.type === 'order') {
      orders.set(message.orderHash, { status: message.status, remaining: message.remainingSize })
    }
  }
}

function numberAfter(text: string, name: string): number {
  const at = text.indexOf(name)
  return at < 0
    ? Number.NaN
    : Number.parseInt(text.slice(at + name.length, at + name.length + 17), 10)
}

/** Opens a reader, a socket that reads only the position in each message. */
function openReader(index: number): Promise<void> {
  const market = index % task.markets.length
  const outcome = (Math.floor(index / task.markets.length) % 2) as 0 | 1
  const marketId = task.markets[market]!
  const conflated = index % 4 === 3 ? { mode: 'conflate', maxHz: 10 } : {}
  const likes = [`book:${market}:${outcome}`, `trades:${market}`]
  const mine = new Map<string, ReaderPlace>()
  return new Promise((resolve, reject) => {
    let ready = 0
    let opened = false
    const socket = openRawSocket(task.address, {
      text(data, at, length) {
        const text = data.toString('latin1', at, at + length)
        const isDelta = text.startsWith('{"type":"book.delta"')
        if (isDelta || text.startsWith('{"type":"trade"')) {
          messages++
          const sub = text.slice(text.indexOf('"sub":"') + 7, text.indexOf('","marketId"'))
          const place = mine.get(sub)
          if (place === undefined) return gap(`${sub}: a message that was not asked for`)
          const seq = numberAfter(text, '"seq":')
          const prevSeq = numberAfter(text, '"prevSeq":')
          if (isDelta) follows(place, prevSeq, seq, sub)
          else followsTrade(place, { seq, prevSeq, fill: numberAfter(text, '"fill":') }, sub)
          return
        }
        received(JSON.parse(text) as Record<string, unknown>)
      },
      closed(why) {
        open--
        if (!opened) return reject(new Error(why))
        closedCount++
        if (closed.length < KEPT_COMPLAINTS) closed.push(`a reader: ${why}`)
      },
    })
    function received(message: Record<string, unknown>): void {
      const sub = String(message.sub)
      if (message.type === 'hello') {
        const book = { op: 'subscribe', id: 0, channel: 'book', marketId, outcome, ...conflated }
        socket.send(JSON.stringify(book))
        socket.send(JSON.stringify({ op: 'subscribe', id: 1, channel: 'trades', marketId }))
      } else if (message.type === 'subscribed') {
        mine.set(sub, { last: 0, fill: 0, like: likes[Number(message.id)]! })
      } else if (message.type === 'lag') lags++
      else if (message.type === 'error') {
        reject(
          new Error(
            `the stream returned the error ${String(message.code)}: ${String(message.error)}`,
          ),
        )
      } else if (String(message.type).endsWith('snapshot')) {
        messages++
        const place = mine.get(sub)
        if (place !== undefined) place.last = Number(message.seq)
        if (!opened && ++ready === likes.length) {
          opened = true
          readers.push(mine)
          resolve()
        }
      } else if (message.type === 'trade.status') {
        const place = mine.get(sub)
        if (place !== undefined) follows(place, Number(message.prevSeq), Number(message.seq), sub)
      }
    }
    open++
    sockets.push(socket)
  })
}

async function openAll(): Promise<void> {
  for (const trader of task.traders) ours.add(trader)
  const requests: [Request, Taker][] = task.markets.flatMap((marketId, market) => [
    [{ channel: 'book', marketId, outcome: 0 }, bookTaker(market, 0)] as [Request, Taker],
    [{ channel: 'book', marketId, outcome: 1 }, bookTaker(market, 1)] as [Request, Taker],
    [{ channel: 'trades', marketId }, tradesTaker(market)] as [Request, Taker],
  ])
  for (const trader of task.traders) requests.push([{ channel: 'orders', trader }, ordersTaker()])
  for (let at = 0; at < requests.length; at += SUBSCRIPTIONS_PER_WITNESS) {
    const some = requests.slice(at, at + SUBSCRIPTIONS_PER_WITNESS)
    await openWitness(
      some.map(([request]) => request),
      some.map(([, taker]) => taker),
    )
  }
  for (let at = 0; at < task.readers; at += OPEN_AT_ONCE) {
    const some = Math.min(OPEN_AT_ONCE, task.readers - at)
    await Promise.all(Array.from({ length: some }, (_, index) => openReader(at + index)))
  }
}

function facts(): WatchFacts {
  const text = (levels: readonly { price: number; size: bigint }[]) =>
    levels.map(({ price, size }) => `${price}:${size}`)
  let behind = 0
  let followed = 0
  for (const mine of readers) {
    for (const { last, like } of mine.values()) {
      followed++
      if (Number(last) < Number(places.get(like)?.last)) behind++
    }
  }
  return {
    books: [...books.values()].map(({ market, outcome, book }) => ({
      market,
      outcome,
      seq: book.seq,
      bids: text(book.bids()),
      asks: text(book.asks()),
    })),
    trades: trades.map((sum, market) => ({
      ...sum,
      newest: newest[market]!.slice(-NEWEST_TRADES),
    })),
    orders,
    gaps,
    gapCount,
    lags,
    closed,
    closedCount,
    messages,
    behind,
    followed,
  }
}

parentPort?.on('message', (message: ToWatch) => {
  if (message === 'figures') {
    const now = performance.eventLoopUtilization()
    const busy = performance.eventLoopUtilization(now, idle).utilization
    idle = now
    say({ figures: { sockets: open, messages, lag: lag.toJSON(), busy } })
    lag = new Histogram()
  } else if (message === 'facts') say({ facts: facts() })
  else {
    task = message.open
    openAll().then(
      () => say({ opened: open }),
      (error: Error) => say({ failed: error.message, opened: open }),
    )
  }
})
