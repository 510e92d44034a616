/**
 * Simulates days of quick markets: `npm run soak -- quick-days [days] [seed] [hours]`. With `hours`, simulates only the
 * first hours of each day. The seed increases by one per day. Prints one line per day. If a day fails, prints its seed
 * and stops. The run has its own process, because the test runner tracks every promise, and a day creates millions.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { closeDatabase, sqlConnection } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { randomFrom } from '../../../support/random.ts'
import { assertDay, runDay } from './quick-day.ts'

const [days = '1', first = String(Math.floor(Math.random() * 2 ** 31)), hours = '24'] =
  process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'sibyl-quick-'))
try {
  for (let seed = Number(first); seed < Number(first) + Number(days); seed++) {
    const database = await openDatabase(`sqlite:${folder}/${seed}.db`)
    await migrate(database)
    // A crash of the machine is not part of this run, so the database need not sync.
    await sqlConnection(database).execute('pragma synchronous = off')
    try {
      const day = await runDay(randomFrom(seed), database, Number(hours))
      const markets = Object.values(day.markets).flat()
      const exact = markets.filter(
        ({ strike, resolution }) => strike.exact && resolution?.end.exact,
      )
      const others = markets.filter(({ strike, resolution }) => {
        return resolution !== null && resolution.source !== strike.source
      })
      process.stdout.write(
        `TEST_SEED=${seed}: ${markets.length} markets, ${exact.length} at exact prices, ` +
          `${others.length} decided by a fallback, ${day.faults} faults, ${day.restarts} restarts, ` +
          `${day.missed.size} intervals without the exchange, ${day.published} prices\n`,
      )
      assertDay(day)
    } catch (error) {
      process.stdout.write(`TEST_SEED=${seed} failed\n`)
      throw error
    } finally {
      await closeDatabase(database)
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
