/**
 * Books of the stream. Subscribers get every change, or combined changes at intervals (a conflated book). While a
 * conflated book has unsent changes, its subscribers do not have the current state yet. So a snapshot of the book waits
 * until the changes are sent.
 */

import type { Sequence } from '#domain/ids.ts'
import { BOOK_LEVELS_SHOWN_MAX } from '#domain/limits.ts'
import { ONE } from '#domain/money.ts'
import { BUY, type Outcome, SELL, type Side } from '#domain/order.ts'
import type { LevelBook, ShownLevel } from '#live/level-book.ts'
import { bookOf as shownBook } from '#live/market-board.ts'
import type { Clock } from '#runtime/clock.ts'
import { edgesOf, shownChanges } from './book-window.ts'
import type { BookFeed, Hz, MarketFeed, Wanted } from './feeds.ts'
import * as messages from './messages.ts'
import { Topic } from './topic.ts'
import type { TopicRegistry } from './topic-registry.ts'

type WantedBook = Pick<Extract<Wanted, { channel: 'book' }>, 'outcome' | 'maxHz' | 'implied'>

type BookChannel<M> = {
  feedOf(of: MarketFeed<M>, wanted: WantedBook): BookFeed<M>
  changed(
    of: MarketFeed<M>,
    at: { readonly outcome: Outcome; readonly side: Side },
    prices: readonly number[],
    seq: Sequence,
  ): void
  /**
   * Like `changed`, for books with implied levels (levels that follow from orders of the other outcome). Called only
   * once per event, because one call updates the implied books of both outcomes.
   */
  changedImplied(
    of: MarketFeed<M>,
    at: { readonly outcome: Outcome; readonly side: Side },
    prices: readonly number[],
    seq: Sequence,
  ): void
  /** Called when a whole book was replaced. */
  replaced(of: MarketFeed<M>, outcome: Outcome, seq: Sequence): void
  forget(feed: BookFeed<M>): void
}

export function makeBookChannel<M>(ports: {
  readonly registry: TopicRegistry<M>
  readonly clock: Clock
  /** Called after the changes of a conflated book were sent. From then on, a snapshot of the book can be made. */
  readonly flushed: (feed: BookFeed<M>) => void
}): BookChannel<M> {
  const { registry, clock } = ports
  const conflated = noFeeds<M>()
  const ticking = new Set<Hz>()

  /** Schedules the next messages of conflated books with this rate, unless they are already scheduled. */
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
    const { topic } = feed
    const seq = seqOf(feed)
    const book = levelsOf(feed)
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
    feed.edges = edgesOf(levelsOf(feed))
  }

  /**
   * Sends changed levels of one side to a feed. For a conflated book, only records the changed prices for its next
   * message.
   */
  function change(feed: BookFeed<M>, side: Side, prices: readonly number[], seq: Sequence): void {
    if (feed.hz !== undefined) {
      note(feed, side, prices)
      tick(feed.hz)
      return
    }
    const book = levelsOf(feed)
    const edges = edgesOf(book)
    const levels = shownChanges(book, side, prices, [feed.edges[side], edges[side]])
    feed.edges = edges
    const changes = side === BUY ? { bids: levels, asks: [] } : { bids: [], asks: levels }
    const position = { seq, prevSeq: feed.topic.last }
    registry.say(feed, messages.bookDelta(feed.topic.name, bookOf(feed), position, changes), seq)
  }

  function replace(feed: BookFeed<M>, seq: Sequence): void {
    if (feed.hz === undefined) tellWhole(feed, seq)
    else {
      feed.all = true
      tick(feed.hz)
    }
  }

  return {
    feedOf(of, { outcome, maxHz: hz, implied = false }) {
      const pace = hz === undefined ? '' : `:${hz}`
      const name = `book:${of.shown.market.id}:${outcome}${pace}${implied ? ':implied' : ''}`
      const known = registry.find(name)
      if (known?.kind === 'book') return known
      const feed = newBookFeed(name, of, { outcome, hz, implied })
      feedsWith(feed).add(feed)
      if (hz !== undefined) conflated[hz].add(feed)
      return registry.put(feed)
    },
    changed(of, { outcome, side }, prices, seq) {
      of.bookSeq[outcome] = seq
      for (const feed of of.books[outcome]) change(feed, side, prices, seq)
    },
    changedImplied(of, { outcome, side }, prices, seq) {
      const mirrored = of.implied.size === 0 ? [] : prices.map((price) => ONE - price)
      for (const feed of of.implied) {
        if (feed.outcome === outcome) change(feed, side, prices, seq)
        else if (of.shown.implied !== undefined) change(feed, opposite(side), mirrored, seq)
      }
    },
    replaced(of, outcome, seq) {
      of.bookSeq[outcome] = seq
      for (const feed of of.books[outcome]) replace(feed, seq)
      for (const feed of of.implied) if (feed.outcome === outcome) replace(feed, seq)
    },
    forget(feed) {
      feedsWith(feed).delete(feed)
      if (feed.hz !== undefined) conflated[feed.hz].delete(feed)
    },
  }
}

function opposite(side: Side): Side {
  return side === BUY ? SELL : BUY
}

function noFeeds<M>(): Record<Hz, Set<BookFeed<M>>> {
  return { 1: new Set(), 5: new Set(), 10: new Set(), 20: new Set() }
}

function newBookFeed<M>(
  name: string,
  of: MarketFeed<M>,
  which: Pick<BookFeed<M>, 'outcome' | 'hz' | 'implied'>,
): BookFeed<M> {
  return {
    kind: 'book',
    topic: new Topic<M>(name, seqOf({ of, ...which })),
    ...{ of, ...which },
    changed: [new Set(), new Set()],
    all: false,
    edges: edgesOf(levelsOf({ of, ...which })),
  }
}

type WhichBook<M> = Pick<BookFeed<M>, 'of' | 'outcome' | 'implied'>

/**
 * Returns the set to which the feed of this book belongs. Without implied levels, the set has the outcome's feeds: one
 * with every change, and one per rate. With implied levels, it has the implied feeds of both outcomes.
 */
function feedsWith<M>({ of, outcome, implied }: WhichBook<M>): Set<BookFeed<M>> {
  return implied ? of.implied : of.books[outcome]
}

function levelsOf<M>({ of, outcome, implied }: WhichBook<M>): LevelBook {
  return shownBook(of.shown, outcome, implied)
}

/**
 * Returns the sequence number of the book's last change. With implied levels, orders of both outcomes change the book.
 */
function seqOf<M>({ of, outcome, implied }: WhichBook<M>): Sequence {
  const hasBoth = implied && of.shown.implied !== undefined
  return hasBoth ? Math.max(...of.bookSeq) : of.bookSeq[outcome]
}

/** Remembers changed levels of a conflated book until its next message. */
function note<M>(feed: BookFeed<M>, side: Side, prices: readonly number[]): void {
  const changed = feed.changed[side]
  if (!feed.all) {
    for (const price of prices) changed.add(price)
    // If more prices changed than a snapshot shows per side, a whole snapshot is smaller than the changes.
    if (changed.size > BOOK_LEVELS_SHOWN_MAX) {
      cleanBook(feed)
      feed.all = true
    }
  }
}

/** Returns the book of a feed. */
export function bookOf<M>({ of, outcome, implied }: BookFeed<M>): messages.BookOf {
  return { shown: of.shown, outcome, implied }
}

/** Returns whether a conflated book has changed since its last message. */
export function isDirty<M>({ hz, all, changed: [bids, asks] }: BookFeed<M>): boolean {
  return hz !== undefined && (all || bids.size > 0 || asks.size > 0)
}

/** Marks the book as sent. */
export function cleanBook<M>(feed: BookFeed<M>): void {
  feed.all = false
  feed.edges = edgesOf(levelsOf(feed))
  for (const each of feed.changed) each.clear()
}
