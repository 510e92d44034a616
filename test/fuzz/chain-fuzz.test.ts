/** A small sample of `npm run fuzz -- chain`, on both databases. */

import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { onBothDatabases } from '../support/databases.ts'
import { sampleOf } from '../support/sample.ts'
import { fuzzChain } from './chain-fuzz.ts'

await onBothDatabases('hostile contracts do not harm the index of a chain', ({ fresh }) => {
  let database: Database
  before(async () => {
    database = await openDatabase(await fresh())
    await migrate(database)
  })
  after(() => closeDatabase(database))

  it('hostile contracts on the chain neither stop the indexer nor change its counts of honest events', async (t) => {
    const seed = Number(process.env.TEST_SEED ?? 7)
    t.diagnostic(`seed ${seed}`)
    const report = await fuzzChain(database, { seed, logs: sampleOf(700, 2) })
    assert(report.setAside > 0)
  })
})
