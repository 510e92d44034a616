/** Runs the threads of an exchange under a supervisor of the test, so that the test can kill one of them. */

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { loadSettings } from '#config/settings.ts'
import type { Settings } from '#config/settings-schema.ts'
import { databaseUrlOf, makeAccountsBegun, type ThreadData } from '#config/thread-data.ts'
import { claimPort } from '#http/port.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { makeClockMemory, systemClock } from '#runtime/clock.ts'
import type { ThreadSpec } from '#runtime/host.ts'
import { makeSupervisor, type Supervisor } from '#runtime/supervisor.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { makeConnectionCountMemory } from '#stream/connection-count.ts'
import { eventually } from '../support/eventually.ts'
import type { Environment } from '../support/exchange.ts'

export type Common = Omit<ThreadData, 'name' | 'index' | 'settings'>

export async function startSupervised(
  t: TestContext,
  options: {
    readonly environment?: Environment
    /** Fills the data folder before the start. */
    readonly prepare?: (dataDir: string) => Promise<void>
    readonly specs: (settings: Settings, common: Common) => ThreadSpec[]
  },
): Promise<{ url: string; dataDir: string; supervisor: Supervisor }> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sibyl-threads-'))
  const settings = loadSettings({
    SIBYL_PORT: '0',
    SIBYL_DATA_DIR: dataDir,
    SIBYL_LOG_LEVEL: 'silent',
    SIBYL_RESTART_BACKOFF_MS: '1',
    ...options.environment,
  })
  const database = await openDatabase(databaseUrlOf(settings))
  await migrate(database).finally(() => closeDatabase(database))
  await options.prepare?.(dataDir)
  const port = await claimPort(settings.front.host, 0)
  const common = {
    isTerminal: false,
    version: 'test',
    port,
    startedAtMs: systemClock.nowMs(),
    clock: makeClockMemory(),
    nonces: makeSharedTable(settings.auth.noncesMax, randomUUID()),
    buckets: makeSharedTable(settings.limits.bucketsMax, randomUUID()),
    streams: makeConnectionCountMemory(settings.front.threads, randomUUID()),
    accountsBegun: makeAccountsBegun(settings),
  }
  const silent = { info: () => {}, warn: () => {}, error: () => {} }
  const supervisor = makeSupervisor({
    clock: systemClock,
    log: silent,
    ...settings.supervisor,
    restartPauseMs: () => settings.supervisor.restartBackoffMs,
    onGivingUp: (name, why) => assert.fail(`${name}: ${why}`),
  })
  t.after(async () => {
    await supervisor.stop()
    await rm(dataDir, { recursive: true, force: true })
  })
  await supervisor.start(options.specs(settings, common))
  const url = `http://127.0.0.1:${port}`
  await untilReady(url)
  return { url, dataDir, supervisor }
}

export async function untilReady(url: string): Promise<void> {
  await eventually(async () => {
    const { status } = await fetch(`${url}/readyz`)
    assert.equal(status, 200)
  }, 120_000)
}
