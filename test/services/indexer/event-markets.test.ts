/**
 * Tests markets with event metadata on a real chain. A market belongs to an event only if its metadata is signed.
 * Invalid metadata does not stop the indexer.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type Hex, keccak256, toHex } from 'viem'
import { type EventInfo, eventText } from '#domain/event-info.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { EVENT_MARKET_TYPES, factoryDomain } from '#domain/typed-data.ts'
import { auditSetAside } from '#store/audit/audit-set-aside.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { listChainMarkets } from '#store/reads/chain-markets.ts'
import { eventsBySlug, eventsOfMarkets, marketsOfEvents } from '#store/reads/events.ts'
import { startWorld, type World } from '../../contracts/support/world.ts'
import { eventually } from '../../support/eventually.ts'
import { type Follower, followChain } from '../../support/follow-chain.ts'
import { startRpcProxy } from '../../support/rpc-proxy.ts'

let world: World
let close: () => Promise<void>
let database: Database
let follower: Follower
let followInto: (database: Database) => Follower
let questions = 0

before(async () => {
  world = await startWorld()
  const proxy = await startRpcProxy(world.chain)
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-events-'))
  database = await openDatabase(`sqlite:${join(folder, 'sibyl.db')}`)
  await migrate(database)
  followInto = (database) =>
    followChain({
      ...{ database, url: proxy.url, chainId: world.chain.id },
      contracts: {
        marketFactory: toAddress(world.factory.address),
        conditionalTokens: toAddress(world.conditionalTokens.address),
        settlement: toAddress(world.settlement.address),
        stablecoin: toAddress(world.collateral.address),
      },
    })
  follower = followInto(database)
  close = async () => {
    follower.stop()
    await proxy.close()
    await world.chain.close()
    await closeDatabase(database)
    await rm(folder, { recursive: true })
  }
})
after(() => close())

const info = (slug: string, rest: Partial<EventInfo> = {}): EventInfo => ({
  ...{ slug, title: `Who wins ${slug}?`, category: 'general', tags: ['sport'], image: '🏆' },
  ...{ description: 'One market per athlete.', end: 1_950_000_000, exclusive: true },
  ...rest,
})

/** Creates a market whose metadata is an event or the given text. */
async function create(event: EventInfo | string): Promise<MarketId> {
  const { maker, quickOperator, chain, factory, read } = world
  const metadata = toHex(typeof event === 'string' ? event : eventText(event))
  const expiration = (await chain.now()) + 3_600n
  const args = [`Question ${++questions}?`, '', 3, expiration] as const
  const [market, id] = await read(factory, 'predictMarket', [maker.address, ...args])
  const signature: Hex = await quickOperator.signTypedData({
    domain: factoryDomain(chain.id, toAddress(factory.address)),
    types: EVENT_MARKET_TYPES,
    primaryType: 'EventMarket',
    message: { market, eventHash: keccak256(metadata) },
  })
  await chain.send(maker, factory, 'createEventMarket', [...args, metadata, signature])
  return id as MarketId
}

async function caughtUp({ state }: Follower = follower): Promise<void> {
  const head = Number(await world.chain.request('eth_blockNumber', []))
  await eventually(() => assert.equal(state.indexed?.number, head, state.why))
}

const reasons = async () => (await auditSetAside(database)).map(({ why }) => why)

test('indexer: markets with the signed metadata of one event are listed under that event, in chain order', async () => {
  const event = info('games')
  const ids = [await create(event), await create(event)]
  await caughtUp()
  const [found] = await eventsBySlug(database, { slug: 'games' })
  assert.ok(found)
  const { chainId, hash, signer, createdAt, volume, ...read } = found
  assert.deepEqual(read, event)
  assert.deepEqual([chainId, volume], [world.chain.id, 0n])
  assert.equal(hash, keccak256(toHex(eventText(event))))
  assert.equal(signer, toAddress(world.quickOperator.address))
  const [members] = await marketsOfEvents(database, { chainId, hashes: [hash], perEvent: 10 })
  assert.deepEqual(
    members?.markets.map(({ id }) => id),
    ids,
  )
  assert.deepEqual(
    (await eventsOfMarkets(database, { marketIds: ids })).map(({ slug }) => slug),
    ['games', 'games'],
  )
})

test('indexer: a market whose event metadata is invalid or contradicts the event is listed without an event', async () => {
  const before = (await reasons()).length
  const bad = [
    await create(info('games', { title: 'Who wins now?' })),
    await create('{"slug":"games"}'),
    await create('no json'),
    await create(eventText(info('x')).replace('"x"', '"../../etc"')),
  ]
  const good = await create(info('games'))
  await caughtUp()
  assert.deepEqual((await reasons()).slice(before), [
    'another event has the slug games',
    'title must be one line of 1 to 200 characters',
    'the metadata must be JSON in UTF-8',
    'slug must be 1 to 64 characters of a-z, 0-9 and single hyphens',
  ])
  const listed = await listChainMarkets(database, { limit: 100 })
  for (const id of [...bad, good]) assert.ok(listed.some((market) => market.id === id))
  const joined = await eventsOfMarkets(database, { marketIds: [...bad, good] })
  assert.deepEqual(
    joined.map(({ marketId }) => marketId),
    [good],
  )
})

test('after a rebuild from the chain, the database lists the same events with the same markets as before', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-events-'))
  const rebuilt = await openDatabase(`sqlite:${join(folder, 'sibyl.db')}`)
  await migrate(rebuilt)
  const again = followInto(rebuilt)
  try {
    await caughtUp(again)
    for (const table of ['events', 'event_markets', 'chain_set_aside']) {
      const [one, other] = await Promise.all(
        [database, rebuilt].map((each) =>
          sqlConnection(each).execute(`select * from ${table} order by block_number, log_index`),
        ),
      )
      assert.deepEqual(other, one, table)
      assert.ok((one as unknown[]).length > 0, table)
    }
  } finally {
    again.stop()
    await closeDatabase(rebuilt)
    await rm(folder, { recursive: true })
  }
})
