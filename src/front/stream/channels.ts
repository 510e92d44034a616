/**
 * What the stream says: turns each event that the board has taken in into the messages of the topics
 * that somebody follows, and keeps every chain of `seq` and `prevSeq` right also where nobody does.
 * A message is written once and handed to `publish` once, whatever the number of its readers. It
 * knows subscriptions as members of topics, and nothing of sockets.
 */

import { randomBytes } from 'node:crypto'
import type { OpenOrder } from '#actors/market.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import { type Address, type MarketId, type Sequence, tradeId } from '#domain/ids.ts'
import type { MarketEvent, OrderClosed, OrdersMatched } from '#domain/market-event.ts'
import { BUY, OUTCOMES, type Outcome, SELL, type Side } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import type { ShownLevel } from '../level-book.ts'
import type { BoardListener, MarketBoard, ShownMarket, ShownTrade } from '../market-board.ts'
import * as messages from './messages.ts'
import { type Replay, type RingLimits, Topic } from './topic.ts'

/** How often a conflated book may be told, each a topic of its own. */
export const CONFLATED_HZ = [1, 5, 10, 20] as const
export type Hz = (typeof CONFLATED_HZ)[number]

/** What a client asks for, checked. */
export type Wanted =
  | {
      readonly channel: 'book'
      readonly marketId: MarketId
      readonly outcome: Outcome
      readonly maxHz?: Hz
    }
  | { readonly channel: 'trades'; readonly marketId: MarketId }
  | { readonly channel: 'orders'; readonly trader: Address }
  | { readonly channel: 'market'; readonly marketId?: MarketId }

/** Changed levels of a conflated book beyond which a whole snapshot is told instead. */
const CONFLATED_CHANGES_MAX = 10_000

type BookFeed<M> = {
  readonly kind: 'book'
  readonly topic: Topic<M>
  readonly of: MarketFeed<M>
  readonly outcome: Outcome
  readonly hz: Hz | undefined
  /** Of a conflated book: the prices that changed since it was last told, and whether all did. */
  readonly changed: readonly [bids: Set<number>, asks: Set<number>]
  all: boolean
}
type TradesFeed<M> = {
  readonly kind: 'trades'
  readonly topic: Topic<M>
  readonly of: MarketFeed<M>
}
type OneMarketFeed<M> = {
  readonly kind: 'market'
  readonly topic: Topic<M>
  readonly of: MarketFeed<M>
}
type OrdersFeed<M> = { readonly kind: 'orders'; topic: Topic<M>; readonly trader: Address }
type AllMarketsFeed<M> = { readonly kind: 'markets'; topic: Topic<M> }

export type Feed<M> =
  | BookFeed<M>
  | TradesFeed<M>
  | OneMarketFeed<M>
  | OrdersFeed<M>
  | AllMarketsFeed<M>

/** The last change of each chain of a market, and the topics of it that somebody follows. */
type MarketFeed<M> = {
  readonly shown: ShownMarket
  readonly bookSeq: [Sequence, Sequence]
  tradesSeq: Sequence
  marketSeq: Sequence
  readonly books: readonly [Set<BookFeed<M>>, Set<BookFeed<M>>]
  trades: TradesFeed<M> | undefined
  market: OneMarketFeed<M> | undefined
}

export type ChannelLimits = {
  /** Messages and bytes that a topic keeps for readers that come back, and bytes of all topics. */
  readonly replayMessages: number
  readonly replayBytes: number
  readonly replayBytesTotal: number
  /** How long a topic that nobody follows any more is kept. */
  readonly lingerMs: number
  /** … and how many of them. */
  readonly lingeringMax: number
}

export type Channels<M> = BoardListener & {
  /** The feed of a subscription, or why there is none. */
  feedOf(wanted: Wanted): Feed<M> | Rejection
  join(feed: Feed<M>, member: M): void
  leave(feed: Feed<M>, member: M): void
  /** What followed a position or cursor; undefined when a snapshot is needed. */
  resume(feed: Feed<M>, since: number | string): Replay | undefined
  /** The state of the feed at its last position; undefined while it cannot be told. */
  snapshot(feed: Feed<M>, reset: boolean): string | undefined
  ordersSnapshot(
    feed: OrdersFeed<M>,
    orders: readonly OpenOrder[],
    at: number,
    reset: boolean,
  ): string
  /** A position as clients see it. */
  shownPosition(feed: Feed<M>, at: number): number | string
  /** Forgets topics that nobody came back to. */
  tidy(): void
  topics(): number
  lingering(): number
}

export type ChannelHooks<M> = {
  /** Sends to everybody who is in step with the topic. */
  readonly publish: (topic: string, text: string) => void
  /** Its members must be given a new snapshot: something happened that nobody told. */
  readonly broken: (feed: OrdersFeed<M>) => void
  /** A conflated book has been told, so that it can be snapshotted. */
  readonly flushed: (feed: Feed<M>) => void
}

export function makeChannels<M>(parts: {
  readonly board: () => MarketBoard
  readonly limits: ChannelLimits
  readonly clock: Clock
  readonly hooks: ChannelHooks<M>
}): Channels<M> {
  const { board, limits, clock, hooks } = parts
  const markets = new Map<MarketId, MarketFeed<M>>()
  const feeds = new Map<string, Feed<M>>()
  const orders = new Map<Address, OrdersFeed<M>>()
  const conflated: Record<Hz, Set<BookFeed<M>>> = {
    1: new Set(),
    5: new Set(),
    10: new Set(),
    20: new Set(),
  }
  const ticking = new Set<Hz>()
  /** Nobody follows these; the longest forsaken first. */
  const lingering = new Map<Feed<M>, number>()
  let all: AllMarketsFeed<M> | undefined
  let breakPlanned = false
  const here = randomBytes(6).toString('hex')
  let epochs = 0
  const ring: { messages: number; bytes: number } & RingLimits = {
    messages: limits.replayMessages,
    bytes: limits.replayBytes,
  }

  const newEpoch = (): string => `${here}${(epochs++).toString(36)}`

  function say(feed: Feed<M>, text: string, at: number): void {
    const { topic } = feed
    topic.push(text, at, ring)
    if (topic.members.size > 0) hooks.publish(topic.name, text)
  }

  /** One step of a chain that is counted by its topic alone. */
  function sayNext(
    feed: OrdersFeed<M> | AllMarketsFeed<M>,
    write: (step: { cursor: string; prevCursor: string }) => string,
  ): void {
    const { topic } = feed
    const at = topic.last + 1
    say(feed, write({ cursor: topic.cursor(at), prevCursor: topic.cursor(topic.last) }), at)
  }

  function marketFeed(shown: ShownMarket): MarketFeed<M> {
    let feed = markets.get(shown.market.id)
    if (feed === undefined) {
      const { seq } = shown
      feed = {
        shown,
        bookSeq: [seq, seq],
        tradesSeq: seq,
        marketSeq: seq,
        books: [new Set(), new Set()],
        trades: undefined,
        market: undefined,
      }
      markets.set(shown.market.id, feed)
    }
    return feed
  }

  function bookChanged(
    of: MarketFeed<M>,
    outcome: Outcome,
    side: Side,
    prices: readonly number[],
    seq: Sequence,
  ): void {
    of.bookSeq[outcome] = seq
    for (const feed of of.books[outcome]) {
      if (feed.hz !== undefined) {
        noteConflated(feed, feed.hz, side, prices)
        continue
      }
      const levels = prices.map(
        (price): ShownLevel => [price, of.shown.books[outcome].total(side, price)],
      )
      const changes = side === BUY ? { bids: levels, asks: [] } : { bids: [], asks: levels }
      const { name, last } = feed.topic
      const position = { seq, prevSeq: last }
      say(feed, messages.bookDelta(name, of.shown, outcome, position, changes), seq)
    }
  }

  function bookReplaced(of: MarketFeed<M>, outcome: Outcome, seq: Sequence): void {
    of.bookSeq[outcome] = seq
    for (const feed of of.books[outcome]) {
      if (feed.hz !== undefined) {
        feed.all = true
        tick(feed.hz)
      } else {
        say(feed, messages.bookSnapshot(feed.topic.name, of.shown, outcome, seq, false), seq)
      }
    }
  }

  function noteConflated(feed: BookFeed<M>, hz: Hz, side: Side, prices: readonly number[]): void {
    const changed = feed.changed[side]
    if (!feed.all) {
      for (const price of prices) changed.add(price)
      if (changed.size > CONFLATED_CHANGES_MAX) {
        feed.all = true
        for (const each of feed.changed) each.clear()
      }
    }
    tick(hz)
  }

  /** Tells the conflated books of this pace now and then, as long as there is something to tell. */
  function tick(hz: Hz): void {
    if (ticking.has(hz)) return
    ticking.add(hz)
    clock.after(1_000 / hz, () => {
      ticking.delete(hz)
      for (const feed of conflated[hz]) flush(feed)
    })
  }

  function isDirty({ all, changed: [bids, asks] }: BookFeed<M>): boolean {
    return all || bids.size > 0 || asks.size > 0
  }

  function flush(feed: BookFeed<M>): void {
    if (!isDirty(feed)) return
    const { of, outcome, topic } = feed
    const seq = of.bookSeq[outcome]
    const book = of.shown.books[outcome]
    if (feed.all) say(feed, messages.bookSnapshot(topic.name, of.shown, outcome, seq, false), seq)
    else {
      const levels = (side: Side): ShownLevel[] =>
        Array.from(feed.changed[side], (price) => [price, book.total(side, price)])
      const changes = { bids: levels(BUY), asks: levels(SELL) }
      const position = { seq, prevSeq: topic.last }
      say(feed, messages.bookDelta(topic.name, of.shown, outcome, position, changes), seq)
    }
    clean(feed)
    hooks.flushed(feed)
  }

  function clean(feed: BookFeed<M>): void {
    feed.all = false
    for (const each of feed.changed) each.clear()
  }

  function matched(of: MarketFeed<M>, event: OrdersMatched): void {
    const { taker, fills, seq, atMs, marketId } = event
    const makers = taker.side === BUY ? SELL : BUY
    const prices = [...new Set(fills.map(({ price }) => price as number))]
    bookChanged(of, taker.outcome, makers, prices, seq)
    const feed = of.trades
    if (feed !== undefined) {
      const buys = taker.side === BUY
      for (const [fillIndex, fill] of fills.entries()) {
        const one: ShownTrade = {
          tradeId: tradeId(marketId, seq, fillIndex),
          marketId,
          seq,
          fillIndex,
          outcome: taker.outcome,
          price: fill.price,
          size: fill.size,
          buyer: buys ? taker.trader : fill.maker,
          seller: buys ? fill.maker : taker.trader,
          buyOrderHash: buys ? taker.orderHash : fill.makerHash,
          sellOrderHash: buys ? fill.makerHash : taker.orderHash,
          takerSide: taker.side,
          matchedAtMs: atMs,
          status: 'matched',
          txHash: '',
        }
        const { name, last } = feed.topic
        say(feed, messages.trade(name, one, last, fillIndex + 1, fills.length), seq)
      }
    }
    of.tradesSeq = seq
    if (orders.size === 0) return
    // What was filled whole is told by the `OrderClosed` that follows.
    if (event.takerRemaining > 0) {
      tellOrder(taker.trader, { ...taker, remaining: event.takerRemaining, marketId, seq, atMs })
    }
    for (const { maker, makerHash, makerRemaining, price } of fills) {
      if (makerRemaining === 0 || !orders.has(maker)) continue
      const { outcome } = taker
      tellOrder(maker, {
        orderHash: makerHash,
        marketId,
        side: makers,
        outcome,
        price,
        size: undefined,
        remaining: makerRemaining,
        seq,
        atMs,
      })
    }
  }

  type Live = Omit<messages.OrderNews, 'status' | 'reason'>

  function tellOrder(trader: Address, news: Live): void {
    const isWhole = news.size === news.remaining
    told(trader, { ...news, status: isWhole ? 'accepted' : 'partially_filled', reason: '' })
  }

  function told(trader: Address, news: messages.OrderNews): void {
    const feed = orders.get(trader)
    if (feed === undefined) return
    sayNext(feed, (step) => messages.order(feed.topic.name, news, step))
  }

  function closed(of: MarketFeed<M>, event: OrderClosed): void {
    if (event.remaining > 0) bookChanged(of, event.outcome, event.side, [event.price], event.seq)
    const { reason } = event
    const status = reason === 'filled' || reason === 'expired' ? reason : 'cancelled'
    told(event.trader, { ...event, status, reason: reason === status ? '' : reason })
  }

  function tellMarket(of: MarketFeed<M>, event: MarketEvent, what: string): void {
    const { seq, atMs, marketId } = event
    const news = { marketId, event: what, seq, atMs }
    const one = of.market
    if (one !== undefined) {
      say(one, messages.market(one.topic.name, news, `"prevSeq":${one.topic.last}`), seq)
    }
    of.marketSeq = seq
    const every = all
    if (every === undefined) return
    sayNext(every, ({ cursor, prevCursor }) =>
      messages.market(every.topic.name, news, `"cursor":"${cursor}","prevCursor":"${prevCursor}"`),
    )
  }

  function followed(shown: ShownMarket, event: MarketEvent): void {
    const of = marketFeed(shown)
    const { seq, atMs, marketId } = event
    switch (event.type) {
      case 'MarketOpened':
        of.bookSeq.fill(seq)
        of.tradesSeq = seq
        tellMarket(of, event, 'created')
        break
      case 'OrderRested': {
        bookChanged(of, event.outcome, event.side, [event.price], seq)
        // The remainder of an order that matched as it came has been told with its match.
        if (event.order !== undefined || event.returned) tellOrder(event.trader, event)
        break
      }
      case 'OrdersMatched':
        matched(of, event)
        break
      case 'OrderClosed':
        closed(of, event)
        break
      case 'MarketClosed': {
        for (const outcome of OUTCOMES) bookReplaced(of, outcome, seq)
        const { reason } = event
        const status = reason === 'expired' ? 'expired' : 'cancelled'
        for (const feed of orders.values()) {
          sayNext(feed, (step) =>
            messages.ordersEnded(feed.topic.name, { marketId, status, reason, seq, atMs }, step),
          )
        }
        tellMarket(of, event, reason)
        break
      }
      case 'TradeSubmitted':
      case 'TradeConfirmed':
      case 'TradeFailed':
      case 'TradeReverted': {
        const feed = of.trades
        if (feed !== undefined) {
          const news = {
            marketId,
            tradeId: event.tradeId,
            seq,
            prevSeq: feed.topic.last,
            status: TRADE_NEWS[event.type],
            txHash: event.txHash,
            reason: 'reason' in event ? event.reason : '',
            atMs,
          }
          say(feed, messages.tradeStatus(feed.topic.name, news), seq)
        }
        of.tradesSeq = seq
        break
      }
    }
  }

  function loaded(shown: ShownMarket, missed: boolean): void {
    const isNew = !markets.has(shown.market.id)
    const of = marketFeed(shown)
    if (!missed) return
    const { seq } = shown
    of.bookSeq.fill(seq)
    of.tradesSeq = seq
    of.marketSeq = seq
    for (const feed of [...of.books[0], ...of.books[1], of.trades, of.market]) {
      if (feed === undefined) continue
      if (feed.kind === 'book') clean(feed)
      feed.topic.rebase(seq)
      const text = written(feed, true)
      feed.topic.published++
      if (text !== undefined) hooks.publish(feed.topic.name, text)
      if (feed.kind === 'book') hooks.flushed(feed)
    }
    // Before the first load of all there is nobody who could have missed anything.
    if (isNew && orders.size === 0 && all === undefined) return
    if (breakPlanned) return
    breakPlanned = true
    // Once for all the markets that are loaded in this turn.
    setImmediate(breakChains)
  }

  function breakChains(): void {
    breakPlanned = false
    for (const feed of orders.values()) {
      feed.topic.rebase(feed.topic.last + 1)
      hooks.broken(feed)
    }
    if (all === undefined) return
    all.topic.rebase(all.topic.last + 1)
    all.topic.published++
    const text = written(all, true)
    if (text !== undefined) hooks.publish(all.topic.name, text)
  }

  function written(feed: Feed<M>, reset: boolean): string | undefined {
    const { name, last } = feed.topic
    switch (feed.kind) {
      case 'book':
        // Its readers do not stand where the book stands; the next flush brings both together.
        if (feed.hz !== undefined && isDirty(feed)) return undefined
        return messages.bookSnapshot(name, feed.of.shown, feed.outcome, last, reset)
      case 'trades':
        return messages.tradesSnapshot(name, feed.of.shown, last, reset)
      case 'market':
        return messages.marketSnapshot(name, feed.of.shown, last, reset)
      case 'markets': {
        const { size } = board().markets
        const cursor = feed.topic.cursor(last)
        return messages.marketsSnapshot(name, size, cursor, reset, clock.nowMs())
      }
      case 'orders':
        return undefined
    }
  }

  /** The last snapshot of each kind, for those who come in numbers between two changes. */
  const recent = new WeakMap<Feed<M>, { published: number; reset: boolean; text: string }>()

  function register<F extends Feed<M>>(feed: F): F {
    feeds.set(feed.topic.name, feed)
    share()
    return feed
  }

  function share(): void {
    const fair = Math.floor(limits.replayBytesTotal / Math.max(1, feeds.size))
    ring.bytes = Math.min(limits.replayBytes, fair)
  }

  function forget(feed: Feed<M>): void {
    lingering.delete(feed)
    feeds.delete(feed.topic.name)
    share()
    switch (feed.kind) {
      case 'book':
        feed.of.books[feed.outcome].delete(feed)
        if (feed.hz !== undefined) conflated[feed.hz].delete(feed)
        break
      case 'trades':
        feed.of.trades = undefined
        break
      case 'market':
        feed.of.market = undefined
        break
      case 'orders':
        orders.delete(feed.trader)
        break
      case 'markets':
        all = undefined
        break
    }
  }

  function bookFeed(of: MarketFeed<M>, outcome: Outcome, hz: Hz | undefined): BookFeed<M> {
    const name = `book:${of.shown.market.id}:${outcome}${hz === undefined ? '' : `:${hz}`}`
    const known = feeds.get(name)
    if (known?.kind === 'book') return known
    const feed: BookFeed<M> = {
      kind: 'book',
      topic: new Topic<M>(name, of.bookSeq[outcome]),
      of,
      outcome,
      hz,
      changed: [new Set(), new Set()],
      all: false,
    }
    of.books[outcome].add(feed)
    if (hz !== undefined) conflated[hz].add(feed)
    return register(feed)
  }

  function feedOf(wanted: Wanted): Feed<M> | Rejection {
    if (wanted.channel === 'orders') {
      const { trader } = wanted
      const known = orders.get(trader)
      if (known !== undefined) return known
      const topic = new Topic<M>(`orders:${checksumAddress(trader)}`, 0, newEpoch())
      const feed: OrdersFeed<M> = { kind: 'orders', topic, trader }
      orders.set(trader, feed)
      return register(feed)
    }
    if (wanted.marketId === undefined) {
      all ??= register({ kind: 'markets', topic: new Topic<M>('market', 0, newEpoch()) })
      return all
    }
    const shown = board().markets.get(wanted.marketId)
    if (shown === undefined) {
      return board().isCurrent() ? reject('MARKET_NOT_FOUND', 'marketId') : reject('OVERLOADED')
    }
    const of = marketFeed(shown)
    if (wanted.channel === 'book') return bookFeed(of, wanted.outcome, wanted.maxHz)
    const name = `${wanted.channel}:${wanted.marketId}`
    if (wanted.channel === 'trades') {
      of.trades ??= register({ kind: 'trades', topic: new Topic<M>(name, of.tradesSeq), of })
      return of.trades
    }
    of.market ??= register({ kind: 'market', topic: new Topic<M>(name, of.marketSeq), of })
    return of.market
  }

  /** Nobody can have seen more than what has happened so far. */
  function horizonOf(feed: Feed<M>): number {
    if (feed.kind === 'orders' || feed.kind === 'markets') return feed.topic.last
    if (feed.kind === 'book' && feed.hz !== undefined && isDirty(feed)) return feed.topic.last
    return feed.of.shown.seq
  }

  return {
    followed,
    loaded,
    feedOf,
    join(feed, member) {
      feed.topic.members.add(member)
      lingering.delete(feed)
    },
    leave(feed, member) {
      feed.topic.members.delete(member)
      if (feed.topic.members.size > 0 || feeds.get(feed.topic.name) !== feed) return
      lingering.set(feed, clock.nowMs())
      for (const oldest of lingering.keys()) {
        if (lingering.size <= limits.lingeringMax) break
        forget(oldest)
      }
    },
    resume(feed, since) {
      const position = typeof since === 'string' ? feed.topic.positionOf(since) : since
      return position === undefined ? undefined : feed.topic.replay(position, horizonOf(feed))
    },
    snapshot(feed, reset) {
      const { published } = feed.topic
      const last = recent.get(feed)
      const isSame = last?.published === published && last.reset === reset
      if (isSame && feed.kind === 'book' && feed.hz === undefined) return last.text
      const text = written(feed, reset)
      if (text !== undefined) recent.set(feed, { published, reset, text })
      return text
    },
    ordersSnapshot(feed, open, at, reset) {
      const { name } = feed.topic
      const trader = checksumAddress(feed.trader)
      const cursor = feed.topic.cursor(at)
      return messages.ordersSnapshot(name, trader, open, cursor, reset, clock.nowMs())
    },
    shownPosition: (feed, at) =>
      feed.kind === 'orders' || feed.kind === 'markets' ? feed.topic.cursor(at) : at,
    tidy() {
      const since = clock.nowMs() - limits.lingerMs
      for (const [feed, forsakenAtMs] of lingering) {
        if (forsakenAtMs > since) break
        forget(feed)
      }
    },
    topics: () => feeds.size,
    lingering: () => lingering.size,
  }
}

const TRADE_NEWS = {
  TradeSubmitted: 'submitted',
  TradeConfirmed: 'confirmed',
  TradeFailed: 'failed',
  TradeReverted: 'reverted',
} as const
