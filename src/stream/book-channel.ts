/**
 * The books of the stream: every change as it comes, or the sum of the changes now and then. A
 * conflated book that has changed since it was last told stands where none of its readers does; until
 * the next flush it cannot be snapshotted.
 */

import type { Sequence } from '#domain/ids.ts'
import { BUY, type Outcome, SELL, type Side } from '#domain/order.ts'
import type { ShownLevel } from '#live/level-book.ts'
import type { Clock } from '#runtime/clock.ts'
import type { BookFeed, Hz, MarketFeed } from './feeds.ts'
import * as messages from './messages.ts'
import type { Shelf } from './shelf.ts'
import { Topic } from './topic.ts'

/** Changed levels of a conflated book beyond which a whole snapshot is told instead. */
const CONFLATED_CHANGES_MAX = 10_000

type BookChannel<M> = {
  feedOf(of: MarketFeed<M>, outcome: Outcome, hz: Hz | undefined): BookFeed<M>
  changed(
    of: MarketFeed<M>,
    at: { readonly outcome: Outcome; readonly side: Side },
    prices: readonly number[],
    seq: Sequence,
  ): void
  /** The whole book is another one. */
  replaced(of: MarketFeed<M>, outcome: Outcome, seq: Sequence): void
  forget(feed: BookFeed<M>): void
}

export function makeBookChannel<M>(ports: {
  readonly shelf: Shelf<M>
  readonly clock: Clock
  /** A conflated book has been told, so that it can be snapshotted. */
  readonly flushed: (feed: BookFeed<M>) => void
}): BookChannel<M> {
  const { shelf, clock } = ports
  const conflated: Record<Hz, Set<BookFeed<M>>> = {
    1: new Set(),
    5: new Set(),
    10: new Set(),
    20: new Set(),
  }
  const ticking = new Set<Hz>()

  /** Tells the conflated books of this pace now and then, as long as there is something to tell. */
  function tick(hz: Hz): void {
    if (ticking.has(hz)) return
    ticking.add(hz)
    clock.after(1_000 / hz, () => {
      ticking.delete(hz)
      for (const feed of conflated[hz]) flush(feed)
    })
  }

  function note(feed: BookFeed<M>, hz: Hz, side: Side, prices: readonly number[]): void {
    const changed = feed.changed[side]
    if (!feed.all) {
      for (const price of prices) changed.add(price)
      if (changed.size > CONFLATED_CHANGES_MAX) {
        cleanBook(feed)
        feed.all = true
      }
    }
    tick(hz)
  }

  function flush(feed: BookFeed<M>): void {
    if (!isDirty(feed)) return
    const { of, outcome, topic } = feed
    const seq = of.bookSeq[outcome]
    const book = of.shown.books[outcome]
    if (feed.all) tellWhole(feed, seq)
    else {
      const levels = (side: Side): ShownLevel[] =>
        Array.from(feed.changed[side], (price) => [price, book.total(side, price)])
      const changes = { bids: levels(BUY), asks: levels(SELL) }
      const position = { seq, prevSeq: topic.last }
      shelf.say(feed, messages.bookDelta(topic.name, bookOf(feed), position, changes), seq)
    }
    cleanBook(feed)
    ports.flushed(feed)
  }

  function tellWhole(feed: BookFeed<M>, seq: Sequence): void {
    shelf.say(feed, messages.bookSnapshot(feed.topic.name, bookOf(feed), seq, false), seq)
  }

  return {
    feedOf(of, outcome, hz) {
      const name = `book:${of.shown.market.id}:${outcome}${hz === undefined ? '' : `:${hz}`}`
      const known = shelf.find(name)
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
      return shelf.put(feed)
    },
    changed(of, { outcome, side }, prices, seq) {
      of.bookSeq[outcome] = seq
      for (const feed of of.books[outcome]) {
        if (feed.hz !== undefined) {
          note(feed, feed.hz, side, prices)
          continue
        }
        const levels = prices.map(
          (price): ShownLevel => [price, of.shown.books[outcome].total(side, price)],
        )
        const changes = side === BUY ? { bids: levels, asks: [] } : { bids: [], asks: levels }
        const { name, last } = feed.topic
        const position = { seq, prevSeq: last }
        shelf.say(feed, messages.bookDelta(name, bookOf(feed), position, changes), seq)
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

/** Which book its messages tell of. */
export function bookOf<M>({ of, outcome }: BookFeed<M>): messages.BookOf {
  return { shown: of.shown, outcome }
}

/** Whether it has changed since its readers were last told. */
export function isDirty<M>({ hz, all, changed: [bids, asks] }: BookFeed<M>): boolean {
  return hz !== undefined && (all || bids.size > 0 || asks.size > 0)
}

export function cleanBook<M>(feed: BookFeed<M>): void {
  feed.all = false
  for (const each of feed.changed) each.clear()
}
