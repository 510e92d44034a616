/**
 * Tests that no two checkpoints of a public log contradict each other, even if the exchange is killed or
 * another node takes over.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closeDatabase, sqlConnection } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { sharedBy } from '../support/cluster.ts'
import { onServerDatabase } from '../support/databases.ts'
import type { Exchange } from '../support/exchange.ts'
import { natsMissing, startNats } from '../support/nats.ts'
import { WHOLE } from '../support/sample.ts'
import { crashTakeovers, crashUnderWitness } from './transparency-crash.ts'

const seed = Number(process.env.TEST_SEED ?? 20_261_118)
/**
 * Number of kills; `npm run crash -- transparency` makes any number. Before the last restart the public log is deleted.
 */
const KILLS = WHOLE ? 3 : 2
const TAKEOVERS = 2

/** Deletes the public log, as if the database had been rebuilt. */
async function emptyPublicLog({ dataDir }: Exchange): Promise<void> {
  const database = await openDatabase(`sqlite:${dataDir}/sibyl.db`)
  for (const table of ['public_trees', 'public_tiles', 'public_entries']) {
    await sqlConnection(database).execute(`delete from ${table}`)
  }
  await closeDatabase(database)
}

test('a witness accepts every checkpoint although the exchange is killed repeatedly and loses its public log', async (t) => {
  const report = await crashUnderWitness({
    ...{ kills: KILLS, seed, environments: [{}] },
    whileDown: async (round, exchange) => {
      if (round === KILLS - 1) await emptyPublicLog(exchange)
    },
  })
  t.diagnostic(JSON.stringify(report))
  assert.equal(report.kills, KILLS)
  assert.ok(report.accepted > 0 && report.cosigned > 0 && report.entries > 0)
})

await onServerDatabase('the public log moves between two nodes', ({ fresh }) => {
  test('a witness accepts every checkpoint although a second node takes over the public log', {
    skip: natsMissing,
  }, async (t) => {
    const shared = sharedBy(await startNats(t), await fresh(), await fresh())
    const report = await crashTakeovers({ kills: TAKEOVERS, seed, shared })
    t.diagnostic(JSON.stringify(report))
    assert.equal(report.kills, TAKEOVERS)
    assert.ok(report.accepted > 0 && report.cosigned > 0 && report.entries > 0)
  })
})
