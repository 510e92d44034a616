/**
 * Boot on one page. The main thread reads the settings, prepares the database, starts the threads
 * and watches them; it carries no traffic.
 */

import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { makeLog } from '#config/logging.ts'
import { loadSettings, type Settings, SettingsError, shownSettings } from '#config/settings.ts'
import {
  databaseUrlOf,
  relayedChains,
  settledChains,
  type ThreadData,
} from '#config/thread-data.ts'
import {
  frontThreadName,
  MARKET_YOUNG_MB,
  marketThreadName,
  PRICES_THREAD,
  relayerThreadName,
  resolutionThreadName,
} from '#config/topology.ts'
import { claimPort } from '#front/port.ts'
import { makeSharedTable } from '#front/shared-table.ts'
import { makeConnectionCountMemory } from '#front/stream/connection-count.ts'
import { followClock, makeClockMemory, systemClock } from '#runtime/clock.ts'
import '#runtime/inlining.ts'
import { makeSupervisor, type ThreadSpec } from '#runtime/supervisor.ts'
import { checkpoints } from '#store/checkpoints.ts'
import { closeDatabase, openDatabase } from '#store/database.ts'
import { describeDatabaseUrl } from '#store/database-url.ts'
import { migrate } from '#store/migrate.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { loadRecovery } from '#verify/recover.ts'
import { banner } from './banner.ts'
import { openChains } from './open-chains.ts'
import { simulatePrices } from './simulate-prices.ts'

const NODE_MAJOR = 22
const READY_POLL_MS = 20

try {
  await boot()
} catch (error) {
  // Settings, a taken port, an absent database: one line for whoever started it, and no stack.
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(`sibyl: ${message}\n`)
  process.exitCode = 1
}

async function boot(): Promise<void> {
  // 0. Signals: the first one stops in good order, a second one at once.
  let stop: (why: string) => Promise<void> = async () => process.exit(0)
  let stopping = false
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      // Ending the process by itself would abort in the threads that are still open.
      if (stopping) process.kill(process.pid, 'SIGKILL')
      void stop(signal)
    })
  }

  // 1. The right runtime: the native parts are built for one major version.
  const major = Number(process.versions.node.split('.')[0])
  if (major !== NODE_MAJOR) {
    throw new SettingsError(
      `this is Node ${process.versions.node}, Sibyl needs Node ${NODE_MAJOR}: use npm start, which brings it`,
    )
  }

  // 2. The settings. `--settings` shows them and ends.
  const given = loadSettings()
  if (process.argv.includes('--settings')) {
    for (const [path, value] of Object.entries(shownSettings(given))) {
      process.stdout.write(`${path} = ${JSON.stringify(value)}\n`)
    }
    return
  }
  const isTerminal = process.stdout.isTTY === true
  const log = makeLog(given.log, 'main', isTerminal)
  const version = versionOf()
  const clock = makeClockMemory()
  followClock(clock)

  // 3. The port, before anything else is started in vain.
  const port = await claimPort(given.front.host, given.front.port)

  // 4. The chains: on the devnet a local one is started, or found where a killed exchange left it.
  mkdirSync(given.data.dir, { recursive: true })
  const chains = await openChains(given, { clock, log })
  const simulated = await simulatePrices(chains.settings, systemClock)
  const settings = simulated.settings

  // 5. The database, brought to the newest shape.
  const databaseUrl = databaseUrlOf(settings)
  const migrations = await prepareDatabase(databaseUrl, settings.data.dir)
  log.info({ migrations }, `the database is ${describeDatabaseUrl(databaseUrl)}`)

  // 6. The threads, in the order in which they need each other, and in reverse when they stop.
  const registry = new Registry()
  registry.setDefaultLabels({ thread: 'main' })
  collectDefaultMetrics({ register: registry })
  const supervisor = makeSupervisor({
    specs: threadSpecs(settings, {
      isTerminal,
      port,
      version,
      startedAtMs: systemClock.nowMs(),
      clock,
      nonces: makeSharedTable(settings.auth.noncesMax, randomUUID()),
      buckets: makeSharedTable(settings.limits.bucketsMax, randomUUID()),
      streams: makeConnectionCountMemory(settings.front.threads, randomUUID()),
    }),
    clock: systemClock,
    log,
    ...settings.supervisor,
    ownMetrics: () => registry.getMetricsAsJSON(),
    onGivingUp: (thread, why) => {
      process.stderr.write(`sibyl: ${thread} cannot be kept alive: ${why}\n`)
      process.exitCode = 1
      void stop('a thread failed')
    },
  })
  let stopped: Promise<void> | undefined
  stop = (why) => {
    stopping = true
    stopped ??= (async () => {
      log.info({ why }, 'stopping')
      const clean = await supervisor.stop()
      if (!clean) process.exitCode = 1
      // Who stops it means all of it; after a failure the chain waits for the next start.
      await simulated.end()
      if (process.exitCode === undefined) await chains.end()
      else chains.release()
      log.info({ clean }, 'stopped')
    })()
    return stopped
  }
  try {
    await supervisor.start()
  } catch (error) {
    process.exitCode = 1
    await stop('the start failed')
    throw error
  }
  if (stopping) return

  // 7. Ready for traffic, as a client sees it.
  const url = urlOf(settings.front.host, port)
  await untilReady(url, () => stopping)
  if (stopping) return

  // 8. Tell the person in front of it what there is.
  process.stdout.write(
    banner({
      settings,
      version,
      url,
      databaseUrl,
      cores: cpus().length,
      signatures: `${(await loadRecovery()).name}, ${loadKeccak().name}`,
      devnet: chains.devnet,
    }),
  )
}

function threadSpecs(
  settings: Settings,
  common: Omit<ThreadData, 'name' | 'index' | 'settings'>,
): ThreadSpec[] {
  const numbers = (count: number) => Array.from({ length: count }, (_, index) => index)
  const marketNames = numbers(settings.markets.threads).map(marketThreadName)
  const spec = (
    kind: string,
    name: string,
    index: number,
    links: readonly string[],
    terminable: boolean,
  ): ThreadSpec => ({
    name,
    entry: new URL(`../workers/${kind}.ts`, import.meta.url),
    data: { ...common, name, index, settings } satisfies ThreadData,
    links,
    terminable,
  })
  const relayerNames = relayedChains(settings).map(({ chainId }) => relayerThreadName(chainId))
  const priceNames = settings.feeds.live ? [PRICES_THREAD] : []
  const indexerNames = settings.chains.some(({ rpcUrls }) => rpcUrls.length > 0) ? ['indexer'] : []
  return [
    ...marketNames.map((name, index) => ({
      ...spec('market', name, index, [], true),
      youngMb: MARKET_YOUNG_MB,
    })),
    spec('store', 'store', 0, marketNames, true),
    ...indexerNames.map((name) => spec('indexer', name, 0, [...marketNames, 'store'], true)),
    ...relayerNames.map((name, index) => spec('relayer', name, index, ['store'], true)),
    ...settledChains(settings).map(({ chainId }, index) =>
      spec('resolution', resolutionThreadName(chainId), index, ['store'], true),
    ),
    ...(settles(settings)
      ? [spec('settlement', 'settlement', 0, [...marketNames, 'store'], true)]
      : []),
    ...priceNames.map((name) => spec('prices', name, 0, [...marketNames, 'store'], true)),
    ...numbers(settings.front.threads).map((index) =>
      spec(
        'front',
        frontThreadName(index),
        index,
        [...marketNames, 'store', ...indexerNames, ...relayerNames, ...priceNames],
        false,
      ),
    ),
  ]
}

/** Brings the database to the newest shape; one that another event log has filled is refused. */
async function prepareDatabase(databaseUrl: string, dataDir: string): Promise<string[]> {
  const database = await openDatabase(databaseUrl)
  try {
    const migrations = await migrate(database)
    if (!existsSync(join(dataDir, 'log')) && (await checkpoints(database)).length > 0) {
      throw new SettingsError(
        `SIBYL_DATABASE_URL: ${describeDatabaseUrl(databaseUrl)} has data of another event log than ` +
          `that in ${dataDir}; empty it, or name another database`,
      )
    }
    return migrations
  } finally {
    await closeDatabase(database)
  }
}

/** Whether there is a chain to settle on, and a key to do it with. */
function settles({ settlement, keys, chains }: Settings): boolean {
  const reachable = chains.some(({ rpcUrls }) => rpcUrls.length > 0)
  return settlement.enabled && keys.settlement !== '' && reachable
}

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}

async function untilReady(url: string, givenUp: () => boolean): Promise<void> {
  while (!givenUp()) {
    const ready = await fetch(`${url}/readyz`).catch(() => undefined)
    await ready?.body?.cancel()
    if (ready?.ok) return
    await new Promise((resolve) => setTimeout(resolve, READY_POLL_MS))
  }
}

function versionOf(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
