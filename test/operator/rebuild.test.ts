import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { Fault } from '#domain/fault.ts'
import { rebuild } from '#operator/rebuild.ts'
import { onBothDatabases } from '../support/databases.ts'
import {
  archiveIn,
  cut,
  newTrading,
  projectAll,
  readWhole,
  startTrading,
  tablesOf,
  withDatabase,
} from './trading.ts'

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-upkeep-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const quiet = () => undefined

function says(code: string, pattern: RegExp) {
  return (error: unknown) => {
    assert(error instanceof Fault, `${error}`)
    assert.equal(error.code, code)
    assert.match(error.message, pattern)
    return true
  }
}

/** Returns the segments of a partition, oldest first. */
function segments(dataDir: string, logId: string, partition: number): string[] {
  const folder = join(archiveIn(dataDir), logId, `partition-${partition}`)
  return readdirSync(folder)
    .sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10))
    .map((name) => join(folder, name))
}

await onBothDatabases('a lost database can be rebuilt', ({ fresh }) => {
  it('a rebuild from the log writes every missing row, whether the database is empty or outdated', async () => {
    const dataDir = newFolder()
    const host = startTrading(dataDir)
    const trading = newTrading(31)
    const [kept, lost, older] = [await fresh(), await fresh(), await fresh()]
    for (let round = 0; round < 3; round++) {
      await trading.trade(host, 40)
      if (round === 2) {
        const marketId = trading.stream.markets[0]!.id
        await host.run({ type: 'CloseMarket', message: { marketId, reason: 'resolved' } })
      }
      // The database `older` is filled only in the first round, and `kept` in every round.
      if (round === 0) await withDatabase(older, (database) => projectAll(host, database))
      await withDatabase(kept, (database) => projectAll(host, database))
      await cut(host, round * 100 + 1)
    }
    await trading.trade(host, 10)
    await withDatabase(kept, (database) => projectAll(host, database))
    const expected = await withDatabase(kept, tablesOf)
    assert(expected.trades!.length > 50 && expected.candles!.length > 0)

    const log = readWhole(dataDir)
    assert(log.firstOffset(0) === 1 && host.log.state(0).firstOffset > 100)
    const lines: string[] = []
    const say = (line: string) => void lines.push(line)
    // Rebuilds while the exchange runs. The first rebuild is aborted at once. The second one writes half of the log,
    // the third writes the rest, and the fourth finds nothing left to write.
    await withDatabase(lost, async (database) => {
      const stop = new AbortController()
      const first = await rebuild({
        ...{ log, database },
        say: () => stop.abort(),
        signal: stop.signal,
      })
      assert.deepEqual(first, { events: 0, ended: false })
      const half = { ...log, lastOffset: (partition: number) => log.lastOffset(partition) >> 1 }
      assert.equal((await rebuild({ log: half, database, say })).ended, true)
      const rest = await rebuild({ log, database, say })
      assert(rest.ended && rest.events > 100)
      assert.deepEqual(await rebuild({ log, database, say: quiet }), { events: 0, ended: true })
    })
    assert.match(lines.join('\n'), /partition 1: writing \d+ events, from offset 1 to \d+/)
    assert.deepEqual(await withDatabase(lost, tablesOf), expected)

    await withDatabase(older, (database) => rebuild({ log, database, say }))
    assert.deepEqual(await withDatabase(older, tablesOf), expected)
    await log.close()
    await host.stop()
  })
})

await onBothDatabases('a rebuild with missing files is refused', ({ fresh, dialect }) => {
  // The checks that follow do not depend on the kind of database, so they run with SQLite only.
  if (dialect === 'mysql') return
  it('a rebuild lists missing and damaged files before it writes anything', async () => {
    const dataDir = newFolder()
    const host = startTrading(dataDir)
    const trading = newTrading(32)
    const [kept, lost] = [await fresh(), await fresh()]
    // Three rounds may archive fewer than three segments, so the rounds continue until there are three.
    const archived = () => segments(dataDir, host.log.id, 1).length
    for (let round = 0; round < 3 || archived() < 3; round++) {
      await trading.trade(host, 40)
      await withDatabase(kept, (database) => projectAll(host, database))
      const { firstOffset: before } = host.log.state(1)
      await cut(host, Math.max(before, host.log.state(0).firstOffset))
    }
    const log = readWhole(dataDir)
    const paths = segments(dataDir, log.id, 1)
    // Opens a new log reader each time, because a reader does not read an unchanged file again.
    const into = async (url: string) => {
      const log = readWhole(dataDir)
      try {
        await withDatabase(url, (database) => rebuild({ log, database, say: quiet }))
      } finally {
        await log.close()
      }
    }
    const untouched = await withDatabase(lost, tablesOf)

    const middle = paths[1]!
    renameSync(middle, `${middle}.away`)
    const span = /\/(\d+)-(\d+)\.events$/.exec(middle)!
    await assert.rejects(
      into(lost),
      says(
        'REBUILD_IMPOSSIBLE',
        new RegExp(
          `^partition 1: the database ends at offset 0, .* begins at ${Number(span[2]) + 1}:`,
        ),
      ),
    )
    assert.deepEqual(await withDatabase(lost, tablesOf), untouched)
    assert.throws(
      () => log.read(1, Number(span[1]), 1),
      says('LOG_ARCHIVE_MISSING', new RegExp(`partition 1: offsets ${span[1]} to ${span[2]} are`)),
    )

    const whole = readFileSync(`${middle}.away`)
    const spoilt = Buffer.from(whole)
    spoilt[100]! ^= 1
    writeFileSync(middle, spoilt)
    await assert.rejects(into(lost), says('LOG_ARCHIVE_DAMAGED', /partition 1: .*\.events/))
    writeFileSync(middle, whole.subarray(0, whole.length - 3))
    await assert.rejects(into(lost), says('LOG_ARCHIVE_DAMAGED', /its end is wrong/))
    // A segment of another partition is reported as damage.
    writeFileSync(middle, readFileSync(segments(dataDir, log.id, 0)[1]!))
    await assert.rejects(into(lost), says('LOG_ARCHIVE_DAMAGED', /its end is wrong/))
    writeFileSync(middle, whole)
    await into(lost)
    assert.deepEqual(await withDatabase(lost, tablesOf), await withDatabase(kept, tablesOf))

    // A rebuild from a log that is older than the database is refused.
    const early = { ...log, lastOffset: () => 10 }
    await assert.rejects(
      withDatabase(kept, (database) => rebuild({ log: early, database, say: quiet })),
      says('REBUILD_IMPOSSIBLE', /but the log ends at 10; the log is older than the database/),
    )
    await log.close()
    await host.stop()
  })
})
