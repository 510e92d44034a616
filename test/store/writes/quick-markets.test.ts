import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Mark, QuickResolution, QuickTerms } from '#domain/quick-market.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import {
  marksSince,
  type PriceRecord,
  pricesSince,
  recordMarks,
  recordPrices,
} from '#store/writes/prices.ts'
import {
  contestQuickMarket,
  noteQuickMarket,
  openQuickMarket,
  quickMarketById,
  quickMarketsOfAsset,
  resolveQuickMarket,
  unfinishedQuickMarkets,
} from '#store/writes/quick-markets.ts'
import { onBothDatabases } from '../../support/databases.ts'

const START_SEC = 1_800_000_000
const HASH = `0x${'ab'.repeat(32)}`

function markOf(fields: Partial<Mark> = {}): Mark {
  return {
    asset: 'BTC',
    source: 'pyth',
    boundarySec: START_SEC,
    price: 6_400_000_000_000,
    atMs: START_SEC * 1_000 + 250,
    receivedAtMs: START_SEC * 1_000 + 300,
    via: 'stream',
    exact: true,
    raw: '{"héllo":"🤖 \\" \'"}',
    ...fields,
  }
}

function termsOf(number: number, fields: Partial<QuickTerms> = {}): QuickTerms {
  const startSec = START_SEC + number * 900
  return {
    marketId: `0x${number.toString(16).padStart(64, '0')}` as MarketId,
    chainId: 31_337,
    contractAddress: `0x${'c0'.repeat(20)}` as Address,
    asset: 'BTC',
    startSec,
    intervalSec: 900,
    strike: markOf({ boundarySec: startSec }),
    createdAtMs: startSec * 1_000 + 400,
    ...fields,
  }
}

await onBothDatabases('prices and quick markets are stored', ({ fresh }) => {
  let database: Database
  before(async () => {
    database = await openDatabase(await fresh())
    await migrate(database)
  })
  after(() => closeDatabase(database))

  it('a quick market is stored once, with its first start price', async () => {
    const terms = termsOf(1)
    const opened = await openQuickMarket(database, terms)
    const { id, ...rest } = opened
    assert.ok(Number.isSafeInteger(id) && id > 0)
    assert.deepEqual(rest, {
      ...terms,
      contested: null,
      resolution: null,
      resolvedAtMs: null,
      createTxHash: '',
      reportTxHash: '',
      onChain: 'pending',
    })
    const other = { ...terms, strike: markOf({ price: 1 }), createdAtMs: 1 }
    assert.deepEqual(await openQuickMarket(database, other), opened)
    assert.deepEqual(await quickMarketById(database, { id }), opened)
    assert.equal(await quickMarketById(database, { id: id + 1_000 }), undefined)
  })

  it('a quick market keeps the matching rule with which it was first stored', async () => {
    const opened = await openQuickMarket(database, termsOf(40, { matching: 'complementary' }))
    assert.equal(opened.matching, 'complementary')
    assert.deepEqual(await openQuickMarket(database, termsOf(40)), opened)
    const plain = await openQuickMarket(database, termsOf(41))
    assert.equal('matching' in plain, false)
    const other = termsOf(41, { matching: 'complementary' })
    assert.deepEqual(await openQuickMarket(database, other), plain)
    for (const { chainId, marketId } of [opened, plain]) {
      const note = { createTxHash: '', reportTxHash: '', onChain: 'reported' } as const
      await noteQuickMarket(database, { chainId, marketId, ...note })
    }
  })

  it('a quick market is decided once, and counts as unfinished until the chain has the outcome', async () => {
    const terms = termsOf(2)
    const { id } = await openQuickMarket(database, terms)
    const end = markOf({ boundarySec: terms.startSec + 900, price: 6_400_000_000_001 })
    const resolution: QuickResolution = { source: 'pyth', start: terms.strike, end, outcome: 0 }
    const atMs = (terms.startSec + 901) * 1_000
    const resolved = await resolveQuickMarket(database, { ...terms, resolution, atMs })
    assert.deepEqual(resolved.resolution, resolution)
    const otherwise = { ...resolution, outcome: 1 as const }
    const again = await resolveQuickMarket(database, { ...terms, resolution: otherwise, atMs: 5 })
    assert.deepEqual(again, resolved)
    const note = { ...terms, createTxHash: '', reportTxHash: '' }
    const unfinished = async () =>
      (await unfinishedQuickMarkets(database, { limit: 10 })).some((one) => one.id === id)
    await noteQuickMarket(database, { ...note, onChain: 'created', createTxHash: HASH })
    assert.ok(await unfinished())
    const done = await noteQuickMarket(database, { ...note, onChain: 'reported' })
    assert.deepEqual([done.createTxHash, done.reportTxHash, done.onChain], [HASH, '', 'reported'])
    assert.ok(!(await unfinished()))
  })

  it('a contested market keeps its first evidence and accepts only the oracle’s outcome', async () => {
    const terms = termsOf(3)
    await openQuickMarket(database, terms)
    const end = markOf({ boundarySec: terms.startSec + 900, price: 6_300_000_000_000 })
    const contested: QuickResolution = { source: 'pyth', start: terms.strike, end, outcome: 1 }
    const first = await contestQuickMarket(database, { ...terms, contested })
    assert.deepEqual([first.contested, first.resolution], [contested, null])
    const other = { ...contested, outcome: 0 as const }
    assert.deepEqual(await contestQuickMarket(database, { ...terms, contested: other }), first)
    const byPrices = { ...terms, resolution: other, atMs: 5 }
    assert.deepEqual(await resolveQuickMarket(database, byPrices), first)
    const resolution = { ...other, byOracle: true } as const
    const resolved = await resolveQuickMarket(database, { ...terms, resolution, atMs: 7 })
    assert.deepEqual(resolved, { ...first, resolution, resolvedAtMs: 7 })
    const late = { ...terms, contested: { ...contested, source: 'binance' } as const }
    assert.deepEqual(await contestQuickMarket(database, late), resolved)
  })

  it('a price that the database refuses does not prevent others from being stored', async () => {
    const absurd = 1e300
    const sec = START_SEC - 100_000
    const marks = [1, 2, 3].map((number) =>
      markOf({ asset: 'BAD', boundarySec: sec + number, price: number === 2 ? absurd : number }),
    )
    assert.equal(await recordMarks(database, { marks, fromSec: 0 }), 1)
    const kept = (await marksSince(database, { sinceSec: sec, limit: 10 })).filter(
      ({ asset }) => asset === 'BAD',
    )
    assert.deepEqual(kept.map(({ price }) => price).sort(), [1, 3])
    const prices: PriceRecord[] = [1, 2, 3].map((number) => ({
      ...{ asset: 'BAD', source: 'pyth', number },
      ...{ price: number === 1 ? absurd : number, atMs: (sec + number) * 1_000 },
    }))
    assert.equal(await recordPrices(database, { prices, pricesFromSec: 0 }), 1)
    const listed = await pricesSince(database, { asset: 'BAD', sinceSec: sec, limit: 10 })
    assert.deepEqual(
      listed.map(({ price }) => price),
      [2, 3],
    )
  })

  it('the quick markets of an asset are listed newest first', async () => {
    for (const number of [30, 10, 20]) {
      await openQuickMarket(database, termsOf(number, { asset: 'ETH' }))
    }
    const listed = await quickMarketsOfAsset(database, { asset: 'ETH', limit: 2 })
    assert.deepEqual(
      listed.map(({ startSec }) => startSec),
      [30, 20].map((number) => START_SEC + number * 900),
    )
    const beforeSec = listed.at(-1)?.startSec ?? 0
    const earlier = await quickMarketsOfAsset(database, { asset: 'ETH', limit: 2, beforeSec })
    assert.deepEqual(
      earlier.map(({ startSec }) => startSec),
      [START_SEC + 10 * 900],
    )
  })

  it('prices are stored per second, for a limited time', async () => {
    const price = (second: number, fields: Partial<PriceRecord> = {}): PriceRecord => ({
      asset: 'BTC',
      price: 100 + second,
      atMs: (START_SEC + second) * 1_000 + 17,
      source: 'binance',
      number: second,
      ...fields,
    })
    const many = Array.from({ length: 450 }, (_, second) => price(second))
    await recordPrices(database, { prices: many, pricesFromSec: 0 })
    const other = price(449, { asset: 'ETH' })
    const last = price(449, { price: 7, number: 1_000, source: 'pyth' })
    await recordPrices(database, { prices: [last, other], pricesFromSec: START_SEC + 400 })
    const kept = await pricesSince(database, { asset: 'BTC', sinceSec: 0, limit: 1_000 })
    assert.deepEqual(kept, [...many.slice(400, 449), last])
    const few = await pricesSince(database, { asset: 'BTC', sinceSec: START_SEC + 410, limit: 3 })
    assert.deepEqual(few, [many[447], many[448], last])
  })

  it('the price reports at start and end times are stored per source and time', async () => {
    const marks = [
      markOf(),
      markOf({ source: 'coinbase', exact: false, via: 'history' }),
      markOf({ asset: 'ETH', boundarySec: START_SEC + 900 }),
    ]
    await recordMarks(database, { marks, fromSec: 0 })
    const better = markOf({ source: 'coinbase', price: 9 })
    await recordMarks(database, { marks: [better], fromSec: START_SEC })
    const found = await marksSince(database, { sinceSec: START_SEC, limit: 10 })
    assert.deepEqual(new Set(found), new Set([marks[0], better, marks[2]]))
    await recordMarks(database, { marks: [], fromSec: START_SEC + 1 })
    assert.deepEqual(await marksSince(database, { sinceSec: 0, limit: 10 }), [marks[2]])
  })
})
