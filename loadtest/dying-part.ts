/**
 * `npm run bench -- dying-part`: kills the prices thread each time it is ready again, while orders are placed. Prints
 * how many orders failed, how long placing took, whether the exchange gave up, and what `/readyz` answered meanwhile.
 * Also prints whether the exchange stopped cleanly while the prices thread waited for its restart. Exits with 1 if an
 * order failed, the exchange gave up, or the stop was not clean.
 */

import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadSettings } from '#config/settings.ts'
import { databaseUrlOf, makeAccountsBegun } from '#config/thread-data.ts'
import { startPriceServer } from '#devnet/price-server.ts'
import { backoff } from '#domain/backoff.ts'
import type { MarketId } from '#domain/ids.ts'
import { toAddress } from '#domain/ids.ts'
import { claimPort } from '#http/port.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { makeClockMemory, systemClock } from '#runtime/clock.ts'
import { makeSupervisor } from '#runtime/supervisor.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { makeConnectionCountMemory } from '#stream/connection-count.ts'
import { threadSpecs } from '../src/boot/thread-specs.ts'
import { Histogram } from './histogram.ts'
import { openDriver, writeRequest } from './http-driver.ts'
import { makeTrader, signOrders } from './signed-orders.ts'

const DEATHS = 8
const ORDERS_MAX = 5_000
const ORDER_EVERY_MS = 20
const LOOK_MS = 20

const dataDir = await mkdtemp(join(tmpdir(), 'sibyl-dying-'))
const base = loadSettings({
  SIBYL_PORT: '0',
  SIBYL_DATA_DIR: dataDir,
  SIBYL_LOG_LEVEL: 'silent',
  SIBYL_DEVNET: 'false',
  // The window for counting restarts is long. So even on a slow machine, the thread dies in one window more often than
  // the restart limit allows.
  SIBYL_RESTART_WINDOW_MS: '600000',
})
const server = await startPriceServer({ assets: base.feeds.assets, seed: 1, clock: systemClock })
const settings = { ...base, feeds: { ...base.feeds, ...server.feeds, live: true } }
const { supervisor: rules } = settings
const database = await openDatabase(databaseUrlOf(settings))
await migrate(database).finally(() => closeDatabase(database))
const port = await claimPort(settings.front.host, 0)
const url = `http://127.0.0.1:${port}`
let gaveUp = ''
const supervisor = makeSupervisor({
  clock: systemClock,
  log: { info: () => {}, warn: () => {}, error: () => {} },
  ...rules,
  restartPauseMs: (count) => backoff(rules.restartBackoffMs, rules.restartBackoffMsMax, count),
  onGivingUp: (thread, why) => {
    gaveUp = `${thread}: ${why}`
  },
})
let fails = 0
const latencies = new Histogram()
try {
  await supervisor.start(
    threadSpecs(settings, 2, {
      ...{ isTerminal: false, port, version: 'bench', startedAtMs: systemClock.nowMs() },
      clock: makeClockMemory(),
      nonces: makeSharedTable(settings.auth.noncesMax, randomUUID()),
      buckets: makeSharedTable(settings.limits.bucketsMax, randomUUID()),
      streams: makeConnectionCountMemory(settings.front.threads, randomUUID()),
      accountsBegun: makeAccountsBegun(settings),
    }),
  )
  const [chain] = settings.chains
  if (chain === undefined) throw new Error('the settings configure no chain')
  const verifyingContract = toAddress(chain.contracts.settlement)
  while (!(await fetch(`${url}/readyz`)).ok);
  const { markets } = (await (await fetch(`${url}/api/v1/markets`)).json()) as {
    markets: { id: MarketId }[]
  }
  const orders = signOrders({
    count: ORDERS_MAX,
    traders: Array.from({ length: 10 }, () => makeTrader()),
    markets: markets.map(({ id }) => id),
    domain: { chainId: chain.chainId, verifyingContract },
  })
  const driver = await openDriver(url, 8)
  const requests = orders.map((order) =>
    writeRequest('POST', '/api/v1/orders', JSON.stringify(order)),
  )
  let deaths = 0
  let firstMs = 0
  let lastMs = 0
  const readiness = new Set<string>()
  let placed = 0
  const isReady = (): boolean => supervisor.health().prices?.ready === true
  const dying = (async () => {
    while (placed < ORDERS_MAX && deaths < DEATHS && gaveUp === '') {
      const answer = await fetch(`${url}/readyz`).catch(() => undefined)
      await answer?.body?.cancel()
      readiness.add(String(answer?.status ?? 'none'))
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
      if (!isReady()) continue
      deaths++
      lastMs = performance.now()
      firstMs ||= lastMs
      await supervisor.kill('prices')
      while (isReady()) await new Promise((resolve) => setTimeout(resolve, 1))
    }
  })()
  let dead = false
  void dying.finally(() => {
    dead = true
  })
  const answers: Promise<void>[] = []
  for (; !dead && placed < ORDERS_MAX; placed++) {
    const { promise, resolve } = Promise.withResolvers<void>()
    answers.push(promise)
    driver.send(requests[placed]!, performance.now(), ({ status, latencyMs }) => {
      if (status === 200) latencies.recordMs(latencyMs)
      else fails++
      resolve()
    })
    await new Promise((next) => setTimeout(next, ORDER_EVERY_MS))
  }
  await Promise.all(answers)
  await dying
  driver.close()
  const { why = '' } = supervisor.health().prices ?? {}
  const clean = await supervisor.stop()
  const p50Ms = Math.round(latencies.quantileMs(0.5) * 10) / 10
  const readyz = [...readiness].sort()
  const tookS = Math.round(lastMs - firstMs) / 1_000
  const told = { deaths, tookS, gaveUp, orders: placed, fails, p50Ms, readyz, why }
  process.stdout.write(`${JSON.stringify({ ...told, cleanStop: clean })}\n`)
  if (fails > 0 || gaveUp !== '' || !clean) process.exitCode = 1
} finally {
  await supervisor.stop()
  await server.close()
  await rm(dataDir, { recursive: true, force: true })
}
