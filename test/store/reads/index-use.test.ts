/** Every query of the store must find its rows by an index: the test reads the databases' query plans. */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { inspect } from 'node:util'
import { type MarketId, type OrderHash, tradeId } from '#domain/ids.ts'
import type { PermitSignature } from '#domain/order.ts'
import type { Mark } from '#domain/quick-market.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { project } from '#store/projection/project.ts'
import { answerQuery, type QueryName, type QueryTask } from '#store/reads/answer-query.ts'
import { openNeeds } from '#store/reads/open-needs.ts'
import { recordMarks, recordPrices } from '#store/writes/prices.ts'
import { noteQuickMarket, openQuickMarket } from '#store/writes/quick-markets.ts'
import { onBothDatabases } from '../../support/databases.ts'
import {
  address,
  batch,
  id,
  market,
  order,
  orderRow,
  START_MS,
  trade,
  withStore,
} from '../batches.ts'
import { fillEvents, joinEvents } from './many-events.ts'

const MARKETS = 400
const PER_MARKET = 5

const marketName = (index: number) => `m${index % MARKETS}`
const m = id<MarketId>('m3')

const ASKED: QueryTask[] = [
  ask('marketById', { marketId: m }),
  ask('oldestMarketOf', { idStart: m.slice(2, 14) }),
  ask('marketsByContract', { contractAddress: address('c-m3') }),
  ask('listMarkets', { limit: 10 }),
  ask('listMarkets', { quick: false, limit: 10 }),
  ask('listMarkets', { chainId: 4, quick: false, limit: 10 }),
  ask('listMarkets', { category: 'defi', quick: false, limit: 10 }),
  ask('recentTrades', { marketId: m, limit: 10 }),
  ask('tradesOfUser', { user: address('t3'), chainId: 3, limit: 10 }),
  ask('pendingTradesWithOrders', { chainId: 3, limit: 10 }),
  ask('permitsOf', { chainId: 3, owners: [address('t3')] }),
  ask('newestPendingTrades', { limit: 10 }),
  ask('tradeNeeds', { tradeIds: [tradeId(m, 5, 0), tradeId(id<MarketId>('m9'), 11, 0)] }),
  ask('settledTradesOf', { chainId: 3, trader: address('t3'), sinceMs: START_MS, limit: 10 }),
  ask('orderState', { orderHash: id<OrderHash>('o3') }),
  ask('storedOrders', { orderHashes: [id<OrderHash>('o3')] }),
  ask('failedTradesSince', { sinceMs: START_MS + 1_990, limit: 10 }),
  ask('pricesSince', { asset: 'BTC', sinceSec: 1_700_000_900, limit: 10 }),
  ask('marksSince', { sinceSec: 1_700_900_000, limit: 10 }),
  ask('quickMarketsOfAsset', { asset: 'BTC', limit: 10 }),
  ask('quickMarketById', { id: 3 }),
  ask('unfinishedQuickMarkets', { limit: 10 }),
  ...(['volume', 'newest', 'ending', 'category'] as const).flatMap((sort) => {
    const filter = { sort, nowSec: 1_800_000_100, limit: 10, status: 'open' } as const
    const value = sort === 'category' ? 'general' : sort === 'volume' ? '7' : '1800000300'
    const after = { value, chainId: 31_337, hash: id('e') as string }
    return [ask('listEvents', filter), ask('listEvents', { ...filter, after, search: 'event 3' })]
  }),
  ask('eventsBySlug', { slug: 'e3' }),
  ask('eventsOfMarkets', { marketIds: [m] }),
]

/** Queries that must read the index in the order of their result, so that a limit bounds the work. */
const ORDERED: readonly QueryName[] = [
  'listMarkets',
  'recentTrades',
  'tradesOfUser',
  'pendingTradesWithOrders',
  'permitsOf',
  'newestPendingTrades',
  'failedTradesSince',
  'listEvents',
]

function ask<Name extends QueryName>(query: Name, args: QueryTask<Name>['args']): QueryTask {
  return { query, args } as QueryTask
}

/** Inserts prices, marks and quick markets; few of the markets are unfinished. */
async function fillPrices(database: Database, count: number): Promise<void> {
  const marks = Array.from({ length: count }, (_, index): Mark => {
    const boundarySec = 1_700_000_000 + index * 1_000
    const source = 'pyth' as const
    const price = 100 + index
    const times = { atMs: boundarySec * 1_000, receivedAtMs: boundarySec * 1_000 }
    return {
      asset: 'BTC',
      source,
      boundarySec,
      price,
      ...times,
      via: 'stream',
      exact: true,
      raw: '{}',
    }
  })
  const prices = marks.map(({ asset, price, source }, index) => ({
    ...{ asset: index % 2 === 0 ? asset : 'ETH', price, source },
    atMs: (1_700_000_000 + index) * 1_000,
    number: index,
  }))
  await recordPrices(database, { prices, pricesFromSec: 0 })
  await recordMarks(database, { marks, fromSec: 0 })
  for (const [index, strike] of marks.slice(0, 200).entries()) {
    const key = { chainId: 5, marketId: id<MarketId>(`quick${index}`) }
    await openQuickMarket(database, {
      ...key,
      contractAddress: address(`quick${index}`),
      asset: index % 2 === 0 ? 'BTC' : 'ETH',
      startSec: strike.boundarySec,
      intervalSec: 900,
      strike,
      createdAtMs: START_MS,
    })
    const hashes = { createTxHash: '', reportTxHash: '' }
    if (index % 50 !== 0)
      await noteQuickMarket(database, { ...key, ...hashes, onChain: 'reported' })
  }
}

/** Inserts so many rows that a query planner with statistics prefers an existing index to a scan. */
async function fill(database: Database): Promise<void> {
  const count = MARKETS * PER_MARKET
  const indexes = Array.from({ length: count }, (_, index) => index)
  await project(
    database,
    batch(1, 2, {
      markets: indexes.slice(0, MARKETS).map((index) => ({
        market: market(marketName(index), {
          chainId: index % 20,
          category: index % 10 === 0 ? 'defi' : 'general',
          quick: index % 4 !== 0,
          createdAt: 1_700_000_000 + index,
          description: 'as long as descriptions are '.repeat(20),
        }),
        seq: 1,
        atMs: START_MS,
      })),
      orders: indexes.map((index) =>
        orderRow(
          order(`o${index}`, {
            marketId: id<MarketId>(marketName(index)),
            trader: address(`t${index % 100}`),
            ...(index % 8 === 3 ? { permit: { nonce: '0' } as PermitSignature } : {}),
          }),
          { status: index % 3 === 0 ? 'open' : 'filled' },
        ),
      ),
      trades: indexes.map((index) =>
        trade(index + 2, 0, {
          marketId: id<MarketId>(marketName(index)),
          buyer: address(`t${index % 100}`),
          seller: address(`t${(index * 7) % 100}`),
        }),
      ),
      tradeChanges: indexes
        .filter((index) => index % 20 !== 0)
        .map((index) => ({
          tradeId: tradeId(id<MarketId>(marketName(index)), index + 2, 0),
          status: index % 19 === 0 ? 'failed' : 'confirmed',
          txHash: id(`tx${index}`),
          reason: '',
          atMs: START_MS + index,
        })),
    }),
  )
  await fillPrices(database, 1_000)
  await fillEvents(database, 2_000)
  await joinEvents(
    database,
    indexes.slice(0, MARKETS).map((index) => id(marketName(index))),
  )
  const connection = sqlConnection(database)
  if (database.address.dialect === 'sqlite') await connection.execute('analyze')
  else
    await connection.execute(
      'analyze table events, event_markets, asset_prices, price_marks, quick_markets, markets, orders, trades',
    )
}

/** Returns the statements that a read runs, with their values inserted. */
async function statementsOf(database: Database, run: () => Promise<void>): Promise<string[]> {
  const statements: string[] = []
  const { config } = database.orm
  config.set('onQuery', (sql, values) => {
    statements.push(database.orm.em.getPlatform().formatQuery(sql, values))
    return sql
  })
  try {
    await run()
  } finally {
    config.set('onQuery', (sql) => sql)
  }
  // Leaves out reads of `chain_stats`, which has one row per chain and partition and does not grow. Also
  // leaves out statements that begin or end a transaction.
  return statements.filter((one) => /^\s*select/.test(one) && !/from chain_stats/.test(one))
}

/**
 * Asserts that a statement finds its rows by an index, and reads them in the order of the index if that is required.
 */
async function assertIndexed(
  database: Database,
  name: string,
  statement: string,
  isOrdered: boolean,
): Promise<void> {
  const connection = sqlConnection(database)
  const label = `${name}: ${statement}`
  const sorted = isOrdered && !statement.includes('count(')
  const exact = /from trades where pending/.test(statement) ? EXACT[name] : undefined
  if (database.address.dialect === 'sqlite') {
    const plan = await connection.execute<{ detail: string }[]>(`explain query plan ${statement}`)
    const text = plan.map(({ detail }) => detail).join('; ')
    assert.match(text, /SEARCH|USING (COVERING )?INDEX/, `${label}\n${text}`)
    assert.doesNotMatch(text, /SCAN (?!.*USING (COVERING )?INDEX)/, `${label}\n${text}`)
    if (sorted) assert.doesNotMatch(text, /TEMP B-TREE/, `${label}\n${text}`)
    if (exact !== undefined) assert.ok(text.includes(exact), `${label}\n${text}`)
    return
  }
  const plan = await connection.execute<Record<string, unknown>[]>(`explain ${statement}`)
  for (const step of plan) {
    const text = `${label}\n${JSON.stringify(step)}`
    assert.notEqual(step.type, 'ALL', text)
    assert.notEqual(step.key, null, text)
    if (sorted) assert.doesNotMatch(String(step.Extra), /filesort/, text)
    if (exact !== undefined) assert.equal(step.key, exact, text)
  }
}

/** Index that a query must use, by query name. Any other index would read many rows that the query does not need. */
const EXACT: Readonly<Record<string, string>> = {
  pendingTradesWithOrders: 'trades_pending_of_chain',
}

await onBothDatabases('queries', (databases) => {
  it('every database query finds its rows by an index', async () => {
    await withStore(databases, async (database) => {
      await fill(database)
      for (const task of ASKED) {
        const asked = await statementsOf(database, async () => {
          const reply = await answerQuery(async () => database, task)
          assert(reply.ok, inspect(reply))
          const { length } = [reply.answer].flat()
          assert(length > 0 && reply.answer !== undefined, `${task.query} must find something`)
        })
        assert(asked.length > 0)
        for (const statement of asked) {
          await assertIndexed(database, task.query, statement, ORDERED.includes(task.query))
        }
      }

      const found = { markets: 0, orders: 0, trades: 0 }
      const asked = await statementsOf(database, () =>
        openNeeds(database, { closedSinceMs: 0, pageMax: 50 }, (page) => {
          if ('markets' in page) found.markets += page.markets.length
          if ('orders' in page) found.orders += page.orders.length
          if ('trades' in page) found.trades += page.trades.length
        }),
      )
      assert.deepEqual(found, { markets: MARKETS + 1, orders: 667, trades: 100 })
      for (const statement of asked.filter((one) => !/from checkpoints/.test(one))) {
        await assertIndexed(database, 'openNeeds', statement, true)
      }
    })
  })
})
