/**
 * Runs every read of the API on 100,000 trades, and checks the databases' query plans. No query may scan a table that
 * grows, and lists must be read from an index in its order.
 */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Address, MarketId } from '#domain/ids.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { answerQuery, type QueryName, type QueryTask } from '#store/reads/answer-query.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { fillSums } from '../../support/fill-sums.ts'
import { withStore } from '../batches.ts'
import { seedTrades } from './large-seed.ts'

const START_MS = 1_700_000_000_000
const CHAIN = 31_337
const m = `0x${(7).toString(16).padStart(64, '0')}` as MarketId
const user = `0x${(7).toString(16).padStart(40, '0')}` as Address
const nowMs = START_MS + 90_000_000
const PLACE = { atMs: START_MS + 70_000_000, seq: 7, fillIndex: 0, row: 9 }

function ask<Name extends QueryName>(query: Name, args: QueryTask<Name>['args']): QueryTask {
  return { query, args } as QueryTask
}

const ASKED: QueryTask[] = [
  ask('marketById', { marketId: m }),
  ask('listMarkets', { quick: false, limit: 100, after: { createdAt: 0, id: undefined } }),
  ask('listMarkets', { chainId: CHAIN, quick: false, limit: 9, after: { createdAt: 5, id: m } }),
  ask('listChainMarkets', { quick: false, nowSec: 5, limit: 100 }),
  ask('listChainMarkets', { nowSec: 5, status: 'open', limit: 100 }),
  ask('listChainMarkets', { category: 'general', quick: false, nowSec: 5, limit: 100 }),
  ask('listChainMarkets', { quick: false, nowSec: 5, limit: 9, after: { createdAt: 5, id: m } }),
  ask('earlierTrades', { marketId: m, limit: 100, before: { seq: 1_900, fillIndex: 0 } }),
  ask('recentTrades', { marketId: m, limit: 100 }),
  ask('recentTrades', { marketId: m, limit: 100, before: { seq: 1_900, fillIndex: 0 } }),
  ask('tradesOfUser', { user, chainId: CHAIN, limit: 100 }),
  ask('tradesOfUser', {
    user,
    chainId: CHAIN,
    limit: 100,
    before: { atMs: START_MS + 50_000_000, seq: 7, fillIndex: 0, row: 1 },
  }),
  ask('newestPendingTrades', { limit: 1_000 }),
  ask('failedTradesSince', { sinceMs: START_MS + 80_000_000, limit: 1_000 }),
  ask('newestPendingTrades', { limit: 1_000, before: PLACE }),
  ask('failedTradesSince', { sinceMs: START_MS, limit: 1_000, before: PLACE }),
  ask('marketStats', { marketId: m, nowMs }),
  ask('marketFigures', { marketIds: [m, `0x${'0'.repeat(63)}9` as MarketId], nowMs }),
  ask('chainStats', { nowMs }),
  ask('chainStats', { chainId: CHAIN, nowMs }),
  ask('candles', {
    marketId: m,
    outcome: 0,
    intervalSec: 300,
    fromSec: START_MS / 1_000 - 200,
    toSec: START_MS / 1_000 + 90_000,
  }),
  ask('positionOf', { market: { marketId: m }, user }),
  ask('positionOf', { market: { contractAddress: user }, user }),
  ask('positionsOfUser', { user, chainId: CHAIN, limit: 100 }),
  ask('positionsOfUser', {
    user,
    chainId: CHAIN,
    limit: 100,
    after: `0x${'0'.repeat(64)}` as MarketId,
  }),
  ask('realisedProfitOf', { user, chainId: CHAIN }),
  ask('holdersOf', { marketId: m, limit: 10 }),
  ask('payoutsOfUser', { user, chainId: CHAIN, limit: 100 }),
]

/** Lists whose limit bounds the work. */
const ORDERED: readonly QueryName[] = [
  'listMarkets',
  'listChainMarkets',
  'earlierTrades',
  'recentTrades',
  'tradesOfUser',
  'newestPendingTrades',
  'failedTradesSince',
  'candles',
  'positionsOfUser',
  'holdersOf',
  'payoutsOfUser',
]

/** Tables with one row per chain, or per chain and partition. */
const SMALL = /from `?chain_(stats|holdings|cursors)\b/

await onBothDatabases('reads of 100,000 trades are fast', (databases) => {
  it('queries over 100,000 trades find their rows by an index, in the requested order', async () => {
    await withStore(databases, async (database) => {
      await seedTrades(database, { trades: 100_000, markets: 400, users: 2_000 })
      await forgetSums(database)
      assert(await fillSums(database))
      for (const task of ASKED) await assertIndexed(database, databases.dialect, task)
    })
  })
})

async function forgetSums(database: Database): Promise<void> {
  for (const table of ['market_stats', 'candles', 'chain_spans', 'chain_stats', 'traders']) {
    await sqlConnection(database).execute(`delete from ${table}`)
  }
}

async function assertIndexed(
  database: Database,
  dialect: 'sqlite' | 'mysql',
  task: QueryTask,
): Promise<void> {
  const { config } = database.orm
  const statements: string[] = []
  config.set('onQuery', (sql: string, values: readonly unknown[]) => {
    statements.push(database.orm.em.getPlatform().formatQuery(sql, values))
    return sql
  })
  const reply = await answerQuery(async () => database, task)
  config.set('onQuery', (sql: string) => sql)
  assert(reply.ok, `${task.query}: ${reply.ok ? '' : reply.message}`)
  assert(
    reply.answer !== undefined && ![reply.answer].flat().every((part) => part === undefined),
    `${task.query} must find something`,
  )
  assert(statements.length > 0, task.query)
  for (const statement of statements.filter((one) => !SMALL.test(one))) {
    const label = `${task.query}: ${statement}`
    const sorted = ORDERED.includes(task.query) && /order by/.test(statement)
    const connection = sqlConnection(database)
    if (dialect === 'sqlite') {
      const plan = await connection.execute<{ detail: string }[]>(`explain query plan ${statement}`)
      const text = plan.map(({ detail }) => detail).join('; ')
      assert.match(text, /SEARCH|USING (COVERING )?INDEX/, `${label}\n${text}`)
      // A query may scan along an index only if it has a limit, which bounds the scan.
      const walks = /limit/.test(statement) && /USING (COVERING )?INDEX/.test(text)
      if (!walks) assert.doesNotMatch(text, /SCAN/, `${label}\n${text}`)
      if (sorted) assert.doesNotMatch(text, /TEMP B-TREE/, `${label}\n${text}`)
    } else {
      const plan = await connection.execute<Record<string, unknown>[]>(`explain ${statement}`)
      for (const step of plan) {
        const text = `${label}\n${JSON.stringify(step)}`
        assert.notEqual(step.type, 'ALL', text)
        if (step.Extra !== 'Impossible WHERE noticed after reading const tables') {
          assert.notEqual(step.key, null, text)
        }
        if (sorted) assert.doesNotMatch(String(step.Extra), /filesort/, text)
      }
    }
  }
}
