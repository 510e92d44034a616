/**
 * Books of the stream: every change, or the sum of changes at intervals. A conflated book that changed since its last
 * message differs from what its readers have; it cannot be snapshotted until the next flush.
 */

import type { Sequence } from '#domain/ids.ts'
import { BOOK_LEVELS_SHOWN_MAX } from '#domain/limits.ts'
import { BUY, type Outcome, SELL, type Side } from '#domain/order.ts'
import type { ShownLevel } from '#live/level-book.ts'
import type { Clock } from '#runtime/clock.ts'
import { edgesOf, shownChanges } from './book-window.ts'
import type { BookFeed, Hz, MarketFeed } from './feeds.ts'
import * as messages from './messages.ts'
import { Topic } from './topic.ts'
import type { TopicRegistry } from './topic-registry.ts'

type BookChannel<M> = {
  feedOf(of: MarketFeed<M>, outcome: Outcome, hz: Hz | undefined): BookFeed<M>
  changed(
    of: MarketFeed<M>,
    at: { readonly outcome: Outcome; readonly side: Side },
    prices: readonly number[],
    seq: Sequence,
  ): void
  /** The whole book was replaced. */
  replaced(of: MarketFeed<M>, outcome: Outcome, seq: Sequence): void
  forget(feed: BookFeed<M>): void
}

export function makeBookChannel<M>(ports: {
  readonly registry: TopicRegistry<M>
  readonly clock: Clock
  /** Called when a conflated book was sent, so that it can be snapshotted. */
  readonly flushed: (feed: BookFeed<M>) => void
}): BookChannel<M> {
  const { registry, clock } = ports
  const conflated: Record<Hz, Set<BookFeed<M>>> = {
    1: new Set(),
    5: new Set(),
    10: new Set(),
    20: new Set(),
  }
  const ticking = new Set<Hz>()

  /** Sends the conflated books of this rate at intervals, while there are changes. */
  function tick(hz: Hz): void {
    if (ticking.has(hz)) return
    ticking.add(hz)
    clock.after(1_000 / hz, () => {
      ticking.delete(hz)
      for (const feed of conflated[hz]) flush(feed)
    })
  }

  function flush(feed: BookFeed<M>): void {
    if (!isDirty(feed)) return
    const { of, outcome, topic } = feed
    const seq = of.bookSeq[outcome]
    const book = of.shown.books[outcome]
    if (feed.all) tellWhole(feed, seq)
    else {
      const edges = edgesOf(book)
      const levels = (side: Side): ShownLevel[] =>
        shownChanges(book, side, feed.changed[side], [feed.edges[side], edges[side]])
      const changes = { bids: levels(BUY), asks: levels(SELL) }
      const position = { seq, prevSeq: topic.last }
      registry.say(feed, messages.bookDelta(topic.name, bookOf(feed), position, changes), seq)
    }
    cleanBook(feed)
    ports.flushed(feed)
  }

  function tellWhole(feed: BookFeed<M>, seq: Sequence): void {
    registry.say(feed, messages.bookSnapshot(feed.topic.name, bookOf(feed), seq, false), seq)
    feed.edges = edgesOf(feed.of.shown.books[feed.outcome])
  }

  return {
    feedOf(of, outcome, hz) {
      const name = `book:${of.shown.market.id}:${outcome}${hz === undefined ? '' : `:${hz}`}`
      const known = registry.find(name)
      if (known?.kind === 'book') return known
      const feed = newBookFeed(name, of, outcome, hz)
      of.books[outcome].add(feed)
      if (hz !== undefined) conflated[hz].add(feed)
      return registry.put(feed)
    },
    changed(of, { outcome, side }, prices, seq) {
      of.bookSeq[outcome] = seq
      for (const feed of of.books[outcome]) {
        if (feed.hz !== undefined) {
          note(feed, side, prices)
          tick(feed.hz)
          continue
        }
        const book = of.shown.books[outcome]
        const edges = edgesOf(book)
        const levels = shownChanges(book, side, prices, [feed.edges[side], edges[side]])
        feed.edges = edges
        const changes = side === BUY ? { bids: levels, asks: [] } : { bids: [], asks: levels }
        const { name, last } = feed.topic
        const position = { seq, prevSeq: last }
        registry.say(feed, messages.bookDelta(name, bookOf(feed), position, changes), seq)
      }
    },
    replaced(of, outcome, seq) {
      of.bookSeq[outcome] = seq
      for (const feed of of.books[outcome]) {
        if (feed.hz === undefined) tellWhole(feed, seq)
        else {
          feed.all = true
          tick(feed.hz)
        }
      }
    },
    forget(feed) {
      feed.of.books[feed.outcome].delete(feed)
      if (feed.hz !== undefined) conflated[feed.hz].delete(feed)
    },
  }
}

function newBookFeed<M>(
  name: string,
  of: MarketFeed<M>,
  outcome: Outcome,
  hz: Hz | undefined,
): BookFeed<M> {
  return {
    kind: 'book',
    topic: new Topic<M>(name, of.bookSeq[outcome]),
    ...{ of, outcome, hz },
    changed: [new Set(), new Set()],
    all: false,
    edges: edgesOf(of.shown.books[outcome]),
  }
}

/** Remembers changed levels of a conflated book. */
function note<M>(feed: BookFeed<M>, side: Side, prices: readonly number[]): void {
  const changed = feed.changed[side]
  if (!feed.all) {
    for (const price of prices) changed.add(price)
    // A whole snapshot is smaller than that.
    if (changed.size > BOOK_LEVELS_SHOWN_MAX) {
      cleanBook(feed)
      feed.all = true
    }
  }
}

/** Returns the book of a feed. */
export function bookOf<M>({ of, outcome }: BookFeed<M>): messages.BookOf {
  return { shown: of.shown, outcome }
}

/** Returns whether it has changed since its last message. */
export function isDirty<M>({ hz, all, changed: [bids, asks] }: BookFeed<M>): boolean {
  return hz !== undefined && (all || bids.size > 0 || asks.size > 0)
}

/** Marks the book as sent. */
export function cleanBook<M>(feed: BookFeed<M>): void {
  feed.all = false
  feed.edges = edgesOf(feed.of.shown.books[feed.outcome])
  for (const each of feed.changed) each.clear()
}
