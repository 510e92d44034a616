/**
 * Tests past books and archive files, which are made from stored books and the public log. They must agree with the
 * books that a front would have shown at the time.
 */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import type { ArchivePart, PastBookRead } from '#api/markets/history.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { BUY, OUTCOMES, type Outcome, SELL } from '#domain/order.ts'
import { makeBoard } from '#live/market-board.ts'
import { JsonBytes } from '#log/json-bytes.ts'
import { PACKED } from '#log/packed-event.ts'
import { makeHistoryJobs } from '#services/front/history-jobs.ts'
import { makeBookIndex } from '#services/transparency/thread/book-index.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { answerOf } from '#store/engine/reply.ts'
import { openDatabase } from '#store/open-database.ts'
import { makeReads } from '#store/reads/reads.ts'
import { storeBooks } from '#store/writes/public-books.ts'
import { growTrees, publishCheckpoints } from '#store/writes/public-log.ts'
import { checksumOf } from '#stream/checksum.ts'
import { entriesOf } from '#transparency/log-entries.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { randomFrom } from '../../support/random.ts'
import { given } from '../market/market-fixture.ts'
import { randomFlow } from '../market/random-flow.ts'

const MARKETS = 4
const STEPS = 1_400
/** Number of events per leaf of the public log: one, so that few events make a segment. */
const ROW = 1
const SAMPLES = 12
const DAY_MS = 86_400_000
const hexSha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** Returns the events of several markets in one partition, interleaved. */
function lives(): MarketEvent[] {
  const all = Array.from({ length: MARKETS }, (_, at) => {
    const market = given({})
    const flow = randomFlow(market, randomFrom(at + 1))
    for (let step = 0; step < STEPS; step++) flow.step()
    const marketId = `0x${String(at + 1).repeat(64)}` as MarketId
    return market.events.map((event): MarketEvent => {
      if (event.type !== 'MarketOpened') return { ...event, marketId }
      return { ...event, marketId, market: { ...event.market, id: marketId } }
    })
  })
  return all
    .flat()
    .map((event, at) => ({ event, at }))
    .sort((a, b) => a.event.atMs - b.event.atMs || a.at - b.at)
    .map(({ event }) => event)
}

function rowOf(events: readonly MarketEvent[], first: number) {
  const text = new JsonBytes()
  for (const [at, event] of events.entries()) {
    text.raw(at === 0 ? '[\n' : ',\n')
    PACKED.write(event, events[at - 1], text)
  }
  text.raw('\n]')
  return { first, count: events.length, payload: Buffer.from(text.bytes) }
}

/** Returns the book of each market after each of its events, as a front has it. */
function followed(events: readonly MarketEvent[]) {
  const board = makeBoard({ isWhole: () => true, isCurrent: () => true })
  const seen = new Map<string, { bids: unknown; asks: unknown; checksum: number; atMs: number }>()
  for (const event of events) {
    board.follow([event])
    for (const outcome of OUTCOMES) {
      const book = board.markets.get(event.marketId)!.books[outcome]
      const levels = (side: typeof BUY | typeof SELL) =>
        book.levels(side).map(([price, size]) => ({ price, size: Number(size) }))
      seen.set(`${event.marketId} ${event.seq} ${outcome}`, {
        ...{ bids: levels(BUY), asks: levels(SELL) },
        ...{ checksum: checksumOf(book), atMs: event.atMs },
      })
    }
  }
  return seen
}

const events = lives()
const seen = followed(events)

await onBothDatabases('books of the past can be computed', ({ migrated, giveBack }) => {
  test('an order book recomputed for an earlier sequence number or time equals the live book of that moment', async (t) => {
    const url = await migrated()
    const database = await openDatabase(url)
    const reads = makeReads(url)
    t.after(async () => {
      await reads.close()
      await closeDatabase(database)
      giveBack(url)
    })
    const leaves = []
    for (let first = 0; first < events.length; first += ROW) {
      const row = rowOf(events.slice(first, first + ROW), first + 1)
      const throughMs = events[Math.min(first + ROW, events.length) - 1]!.atMs
      for (const entry of entriesOf(row, hexSha256)) {
        leaves.push({ first: first + 1, throughMs, entry })
      }
    }
    const root = Buffer.alloc(32)
    const size = leaves.length
    const tree = { partition: 0, logId: 'log', beginsAt: 1, from: { size: 0 }, leaves, tiles: [] }
    const to = { size, root, nextOffset: events.length + 1 }
    await growTrees(database, { trees: [{ ...tree, to }] })
    await publishCheckpoints(database, {
      checkpoints: [{ partition: 0, size, root, checkpoint: 'signed' }],
    })
    const { query } = reads
    const store = (segment: Parameters<typeof storeBooks>[1]) => storeBooks(database, segment)
    let index = makeBookIndex({ query, store })
    assert.equal(await index.step(), true)
    // Simulates a restart, which continues at the last stored segment.
    index = makeBookIndex({ query, store })
    let segments = 1
    while (await index.step()) segments++
    assert.ok(segments > 1, `${segments} segments of ${events.length} events`)
    const end = await query('publicBooksEnd', { partition: 0 })
    assert.ok(end < leaves.length, 'some events follow the stored segments')

    const jobs = makeHistoryJobs(query)
    const bookAt = async (marketId: MarketId, until: object, outcome: Outcome) => {
      const ask = { marketId, partition: 0, until: until as { seq: number }, outcome }
      const read = answerOf(await jobs.pastBook(ask)) as PastBookRead
      assert.ok(read.state === 'found', read.state)
      const { bids, asks, checksum, seq } = JSON.parse(read.json)
      return { bids, asks, checksum, seq }
    }
    const random = randomFrom(9)
    const last = events.at(-1)!
    for (const event of [
      events[1]!,
      ...Array.from({ length: SAMPLES }, () => random.pick(events)),
      last,
    ]) {
      const { marketId, seq, atMs } = event
      const outcome = random.pick(OUTCOMES)
      const { atMs: _, ...expected } = seen.get(`${marketId} ${seq} ${outcome}`)!
      assert.deepEqual(await bookAt(marketId, { seq }, outcome), { ...expected, seq })
      const lastThen = events.findLast((each) => each.marketId === marketId && each.atMs <= atMs)!
      const { atMs: __, ...then } = seen.get(`${marketId} ${lastThen.seq} ${outcome}`)!
      assert.deepEqual(await bookAt(marketId, { atMs }, outcome), { ...then, seq: lastThen.seq })
    }

    await t.test(
      'the event files of all days together contain each event of a market once',
      async () => {
        const marketId = last.marketId
        const own = events.filter((event) => event.marketId === marketId)
        const found: { seq: number; atMs: number; type: string }[] = []
        const [firstDay, lastDay] = [own[0]!, own.at(-1)!].map(({ atMs }) =>
          Math.floor(atMs / DAY_MS),
        )
        for (let day = firstDay!; day <= lastDay!; day++) {
          for (let afterSeq = 0; ; ) {
            const [fromMs, toMs] = [day * DAY_MS, (day + 1) * DAY_MS]
            const ask = { marketId, partition: 0, fromMs, toMs, afterSeq }
            const part = answerOf(await jobs.archivePart(ask)) as ArchivePart
            if (part.state !== 'found') break
            assert.equal(hexSha256(part.file), part.sha256)
            const lines = gunzipSync(part.file).toString().trimEnd().split('\n')
            assert.equal(lines.length, part.events)
            found.push(...lines.map((line) => JSON.parse(line)))
            if (!part.hasMore) break
            afterSeq = part.lastSeq
          }
        }
        const facts = (list: readonly { seq: number; atMs: number; type: string }[]) =>
          list.map(({ seq, atMs, type }) => [seq, atMs, type])
        assert.deepEqual(facts(found), facts(own))
      },
    )

    await t.test(
      'a history request for a market that is not in the log reports the market as unknown',
      async () => {
        const ask = { marketId: `0x${'9'.repeat(64)}` as MarketId, partition: 0, until: { seq: 1 } }
        assert.deepEqual(answerOf(await jobs.pastBook(ask)), { state: 'unknown' })
      },
    )
  })
})
