/** Events on both databases: ownership of slugs, effects of a reorg, and how lists are sorted, paged and limited. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { BlockMark } from '#domain/chain-event.ts'
import type { EventInfo } from '#domain/event-info.ts'
import { EVENT_MARKETS_MAX, EVENTS_SCANNED_MAX } from '#domain/limits.ts'
import { claimChain } from '#store/chain-index/cursor.ts'
import { indexRange } from '#store/chain-index/index-range.ts'
import { rewindChain } from '#store/chain-index/rewind-chain.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { bytesOf } from '#store/engine/hex.ts'
import {
  type EventFilter,
  eventsBySlug,
  eventsOfMarkets,
  listEvents,
  marketsOfEvents,
} from '#store/reads/events.ts'
import { sumAllEventVolumes, sumEventVolumes } from '#store/writes/event-volumes.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { withStore } from '../batches.ts'
import { fillEvents } from '../reads/many-events.ts'
import {
  type Bare,
  block,
  CHAIN,
  created,
  mark,
  market,
  NOW,
  person,
  word,
} from './chain-events.ts'

const info = (slug: string, rest: Partial<EventInfo> = {}): EventInfo => ({
  ...{ slug, title: `Who wins ${slug}?`, category: 'general', tags: ['sport'], image: '🏆' },
  ...{ description: '', end: NOW + 1_000, exclusive: true },
  ...rest,
})

/**
 * Returns two records of the chain: market `id` is created, and joins the event (group of markets) whose metadata has
 * this hash.
 */
const joined = (id: number, hash: number, event: EventInfo): Bare[] => [
  created(id),
  {
    ...{ type: 'EventMarketCreated', marketId: market(id), eventHash: word(hash) },
    ...{ signer: person(2), info: event },
  },
]

async function write(database: Database, from: BlockMark, to: BlockMark, ...bare: Bare[]) {
  return indexRange(database, {
    ...{ chainId: CHAIN, after: from, upTo: to, marks: [to], setAside: [] },
    ...{ events: block(to, ...bare), giveUpOrphansOf: -1, atMs: 1 },
  })
}

const claim = (database: Database) =>
  claimChain(database, {
    ...{ chainId: CHAIN, deployment: 'here', startBlock: 1, anchor: mark(0), atMs: 1 },
  })

const slugOf = async (database: Database, id: number) =>
  (await eventsOfMarkets(database, { marketIds: [market(id)] }))[0]?.slug

await onBothDatabases('events', (databases) => {
  it('an event (group of markets) whose slug is taken is refused, and later events are stored', () =>
    withStore(databases, async (database) => {
      await claim(database)
      const games = info('games')
      const written = await write(
        database,
        mark(0),
        mark(1),
        ...joined(1, 100, games),
        ...joined(2, 200, info('games', { title: 'Mine now' })),
        ...joined(3, 100, games),
        ...joined(4, 300, info('races')),
      )
      assert.deepEqual(
        written.setAside.map(({ event, why }) => [event, why]),
        [['EventMarketCreated', 'another event has the slug games']],
      )
      const slugs = await Promise.all([1, 2, 3, 4].map((id) => slugOf(database, id)))
      assert.deepEqual(slugs, ['games', undefined, 'games', 'races'])
      const [found] = await eventsBySlug(database, { slug: 'games' })
      assert.equal(found?.title, 'Who wins games?')
    }))

  it('an event refuses unlisted markets, and markets above the maximum per event', () =>
    withStore(databases, async (database) => {
      await claim(database)
      const games = info('games')
      const many = Array.from({ length: EVENT_MARKETS_MAX + 1 }, (_, at) =>
        joined(at + 1, 100, games),
      )
      const [, stray] = joined(9_999, 100, games)
      const written = await write(database, mark(0), mark(1), ...many.flat(), stray!)
      assert.deepEqual(
        written.setAside.map(({ why }) => why),
        [
          `the event games already has the maximum of ${EVENT_MARKETS_MAX} markets`,
          'the market is not listed',
        ],
      )
      const asked = { chainId: CHAIN, hashes: [word(100)], perEvent: 3 }
      const [members] = await marketsOfEvents(database, asked)
      assert.equal(members?.count, EVENT_MARKETS_MAX)
      assert.deepEqual(
        members.markets.map(({ id }) => id),
        [1, 2, 3].map(market),
      )
    }))

  it('a reorg removes events, and their slugs can be used again', () =>
    withStore(databases, async (database) => {
      await claim(database)
      await write(database, mark(0), mark(1), ...joined(1, 100, info('games')))
      await write(
        database,
        mark(1),
        mark(2),
        ...joined(2, 100, info('games')),
        ...joined(3, 300, info('races')),
      )
      await rewindChain(database, { chainId: CHAIN, from: mark(2), to: mark(1), atMs: 2 })
      assert.equal(await slugOf(database, 1), 'games')
      assert.equal(await slugOf(database, 2), undefined)
      assert.deepEqual(await eventsBySlug(database, { slug: 'races' }), [])
      // On the chain's new branch, an event with other metadata takes the slug.
      const fork = mark(2, 1)
      await write(database, mark(1), fork, ...joined(3, 301, info('races', { title: 'Others' })))
      const [races] = await eventsBySlug(database, { slug: 'races' })
      assert.deepEqual([races?.hash, races?.title], [word(301), 'Others'])
      assert.equal(await slugOf(database, 3), 'races')
    }))

  it('the volume of an event is the sum of its markets’ volumes, including trades before the event', () =>
    withStore(databases, async (database) => {
      await claim(database)
      const trade = (id: number, whole: number, millionths: number) =>
        sqlConnection(database).execute(
          'insert into market_stats (market_id, chain_id, volume_whole, volume_millionths, trades) values (?, ?, ?, ?, 1)',
          [bytesOf(market(id)), CHAIN, whole, millionths],
        )
      const volume = async () => (await eventsBySlug(database, { slug: 'games' }))[0]?.volume
      await trade(1, 3, 500_000)
      const games = info('games')
      await write(database, mark(0), mark(1), ...joined(1, 100, games), ...joined(2, 100, games))
      assert.equal(await volume(), 3_500_000n)
      await trade(2, 9_007_199_254, 740_993)
      await sumEventVolumes(database, [market(2), market(77)])
      assert.equal(await volume(), 9_007_199_258_240_993n)
      await sqlConnection(database).execute('update events set volume_e6 = 7')
      await sumAllEventVolumes(database)
      assert.equal(await volume(), 9_007_199_258_240_993n)
    }))

  it('the pages of an event list contain every event once in each sort order, even with equal values', () =>
    withStore(databases, async (database) => {
      await claim(database)
      const categories = ['defi', 'general', 'protocol', 'stablecoin'] as const
      const all = Array.from({ length: 40 }, (_, at) =>
        info(`e-${at}`, {
          category: categories[at % 4]!,
          end: NOW + 100 + (at % 7),
          tags: at % 3 === 0 ? ['third', 'x'] : ['thirds'],
        }),
      )
      await write(
        database,
        mark(0),
        mark(1),
        ...all.flatMap((event, at) => joined(at + 1, 1_000 + ((at * 7) % 40), event)),
      )
      const set = (column: string, value: string) =>
        sqlConnection(database).execute(`update events set ${column} = ${value}`)
      await set('volume_e6', '(length(slug) * 1000)')
      const pages = async (filter: Partial<EventFilter>, limit: number) => {
        const slugs: string[] = []
        for (let after: EventFilter['after'] | null; after !== null; ) {
          const asked = { sort: 'volume', nowSec: NOW, limit, ...filter } as const
          const page = await listEvents(database, {
            ...asked,
            ...(after === undefined ? {} : { after }),
          })
          assert.ok(page.events.length <= limit)
          slugs.push(...page.events.map(({ slug }) => slug))
          after = page.next ?? null
        }
        assert.equal(new Set(slugs).size, slugs.length)
        return slugs
      }
      const bySlug = new Map(all.map((event) => [event.slug, event]))
      for (const limit of [1, 7, 40]) {
        for (const sort of ['volume', 'newest', 'ending', 'category'] as const) {
          assert.equal((await pages({ sort }, limit)).length, 40, `${sort} by ${limit}`)
        }
      }
      const volumes = (await pages({}, 9)).map((slug) => slug.length)
      assert.deepEqual(
        volumes,
        volumes.toSorted((a, b) => b - a),
      )
      const ends = (await pages({ sort: 'ending' }, 9)).map((slug) => bySlug.get(slug)!.end)
      assert.deepEqual(
        ends,
        ends.toSorted((a, b) => a - b),
      )
      const names = (await pages({ sort: 'category' }, 9)).map((slug) => bySlug.get(slug)!.category)
      assert.deepEqual(names, names.toSorted())
      assert.equal((await pages({ tag: 'third' }, 5)).length, 14)
      assert.deepEqual(await pages({ search: 'WHO WINS E-17' }, 5), ['e-17'])
      assert.equal((await pages({ category: 'defi', sort: 'newest' }, 3)).length, 10)
      assert.deepEqual(await pages({ status: 'ended' }, 5), [])
      const later = { nowSec: NOW + 103, status: 'open', sort: 'ending' } as const
      const open = await pages(later, 4)
      assert.deepEqual(
        open.toSorted(),
        all
          .filter(({ end }) => end > NOW + 103)
          .map(({ slug }) => slug)
          .toSorted(),
      )
      assert.equal((await pages({ chainId: 5 }, 5)).length, 0)
    }))

  it('one page of a filtered event list scans a limited number of events, and its cursor continues the scan', () =>
    withStore(databases, async (database) => {
      await fillEvents(database, EVENTS_SCANNED_MAX + 500)
      // Only the oldest event matches, so a search that begins with the newest event finds it last.
      const filter = { sort: 'newest', nowSec: NOW, limit: 5, search: 'needle' } as const
      const first = await listEvents(database, filter)
      assert.deepEqual(first.events, [])
      assert.ok(first.next)
      const second = await listEvents(database, { ...filter, after: first.next })
      assert.deepEqual(
        second.events.map(({ slug }) => slug),
        ['e0'],
      )
      assert.equal(second.next, undefined)
      // A cursor that the exchange never issued is still a valid position in the list.
      const last = { chainId: Number.MAX_SAFE_INTEGER, hash: `0x${'ff'.repeat(32)}` }
      for (const [sort, value] of [
        ['volume', '9999999999999999999'],
        ['newest', '9999999999999999999'],
        ['ending', '0'],
        ['category', 'a'],
      ] as const) {
        const after = { value, ...last }
        const { events } = await listEvents(database, { sort, nowSec: NOW, limit: 3, after })
        assert.equal(events.length, 3, sort)
      }
    }))
})
