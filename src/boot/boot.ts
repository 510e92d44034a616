/**
 * Starts and stops an exchange, on the main thread, which carries no traffic. Opens one part after the other, waits for
 * the stop, and closes the parts in reverse order. A stop during the start waits for the current step.
 */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { isReadable, type Log, makeLog } from '#config/logging.ts'
import { makeFolder } from '#config/make-folder.ts'
import { requireComplete } from '#config/production-gaps.ts'
import { loadSettings, settingsWarnings } from '#config/settings.ts'
import type { Settings } from '#config/settings-schema.ts'
import { settingsLines } from '#config/shown-settings.ts'
import { databaseUrlOf, isNode, makeAccountsBegun, PAGE } from '#config/thread-data.ts'
import { endWithReader } from '#devnet/reader-gone.ts'
import { backoff } from '#domain/backoff.ts'
import { lazily } from '#http/lazily.ts'
import { claimPort } from '#http/port.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { loadSqlite } from '#log/partition/load-sqlite.ts'
import { makeDatabaseFolder } from '#operator/database-folder.ts'
import { type ClockMemory, followClock, makeClockMemory, systemClock } from '#runtime/clock.ts'
import { makeSupervisor } from '#runtime/supervisor.ts'
import { tuneV8 } from '#runtime/v8-flags.ts'
import { loopLagMeter } from '#services/kit/loop-lag.ts'
import { watchLoop } from '#services/kit/world.ts'
import { describeDatabaseUrl } from '#store/engine/database-url.ts'
import { makeConnectionCountMemory } from '#stream/connection-count.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { loadRecovery } from '#verify/recover.ts'
import { banner } from './banner.ts'
import { bundlePage } from './bundle-page.ts'
import { hasRole, nodeSpecs, nodeWorkersAhead } from './node-specs.ts'
import { type OpenChains, openChains, requireLocalChain } from './open-chains.ts'
import { registerPlaceMeters } from './place-meters.ts'
import { prepareDatabase } from './prepare-database.ts'
import { requireWitnesses } from './require-witnesses.ts'
import { simulatePrices } from './simulate-prices.ts'
import { registerThreadMeters } from './thread-meters.ts'
import { threadSpecs, workersAhead } from './thread-specs.ts'
import { watchClock } from './watch-clock.ts'

const READY_POLL_MS = 20
// Load `node:http` with `getBuiltinModule`, because an `import` would also load the client of `fetch`.
const { get } = process.getBuiltinModule('node:http')

/**
 * Runs an exchange until `stop` is aborted, by a signal or by a failure. Resolves when the exchange has stopped, or
 * rejects with the failure that stopped it.
 */
export async function boot(stop: AbortController): Promise<void> {
  const settings = loadSettings()
  if (process.argv.includes('--settings')) {
    endWithReader()
    process.stdout.write(`${settingsLines(settings).join('\n')}\n`)
    requireComplete(settings)
    return
  }
  requireComplete(settings)
  requireLocalChain(settings)
  await requireWitnesses(settings)
  const log = makeLog(settings, 'main', process.stdout.isTTY === true)
  for (const warning of settingsWarnings(settings)) log.warn({}, warning)
  /** Functions that close the open parts. Each receives whether the exchange has failed. */
  const closers: ((failed: boolean) => Promise<void>)[] = []
  let failed = true
  try {
    await open(settings, { stop, log, closers })
    if (!stop.signal.aborted) await aborted(stop.signal)
    failed = stop.signal.reason instanceof Error
  } finally {
    log.info({ why: String(stop.signal.reason ?? 'the start failed') }, 'stopping')
    for (const close of closers.reverse()) {
      await close(failed).catch((error: unknown) => {
        failed = true
        log.error({ err: error }, 'a part of the exchange could not be closed')
      })
    }
    if (failed) process.exitCode = 1
    log.info({ failed }, 'stopped')
  }
  if (stop.signal.reason instanceof Error) throw stop.signal.reason
}

type Run = {
  readonly stop: AbortController
  readonly log: Log
  readonly closers: ((failed: boolean) => Promise<void>)[]
}

/**
 * Makes the supervisor of the exchange's threads. The supervisor stops the exchange if it cannot keep a thread alive.
 */
function superviseThreads(
  given: Settings,
  { stop, log, registry }: Pick<Run, 'stop' | 'log'> & { readonly registry: Registry },
) {
  return makeSupervisor({
    clock: systemClock,
    log,
    ...given.supervisor,
    restartPauseMs: (restarts) =>
      backoff(given.supervisor.restartBackoffMs, given.supervisor.restartBackoffMsMax, restarts),
    optionalPauseMs: (deaths) =>
      backoff(given.supervisor.restartBackoffMs, given.supervisor.optionalBackoffMsMax, deaths),
    metricsKeepMs: given.front.metricsCacheMs,
    made: { [PAGE]: makePage(given) },
    ownMetrics: () => registry.getMetricsAsJSON(),
    onGivingUp: (thread, why) =>
      stop.abort(new Error(`${thread} failed and is not started again: ${why}`)),
  })
}

/** Opens every part and announces that the exchange is open. Returns early if the exchange is stopped meanwhile. */
async function open(given: Settings, { stop, log, closers }: Run): Promise<void> {
  const { signal } = stop
  const isTerminal = process.stdout.isTTY === true
  const version = versionOf()
  const readable = isReadable(given.logging, isTerminal)
  const step = makeSteps(readable, log)
  step(`starting ${given.service.name} ${version} (${given.profile})`)
  const clock = makeClockMemory()
  followClock(clock)

  // 1. Make the folders and claim the ports first: problems with them are found before anything else starts.
  makeFolders(given)
  const hasFront = hasRole(given, 'front')
  const port = hasFront ? await claimPort(given.front.host, given.front.port, 'SIBYL_PORT') : 0
  const { adminHost, adminPort } = given.front
  if (adminPort !== 0) await claimPort(adminHost, adminPort, 'SIBYL_ADMIN_PORT')
  if (signal.aborted) return

  // 2. Start the supervisor and load the workers early: they load their modules while the next steps wait.
  const registry = new Registry()
  registry.setDefaultLabels({ thread: 'main' })
  collectDefaultMetrics({ register: registry })
  const endLoopLag = loopLagMeter(registry, watchLoop)
  closers.push(async () => endLoopLag())
  let known = given
  const endWatch = watchClock({
    ...{ memory: clock, rules: given.clock, log, registry },
    chains: () => known.chains,
  })
  closers.push(async () => endWatch())
  const supervisor = superviseThreads(given, { stop, log, registry })
  registerThreadMeters(registry, supervisor.health)
  registerPlaceMeters(registry, given, systemClock.nowMs)
  const cores = availableParallelism()
  loadSqlite()
  supervisor.preload(isNode(given) ? nodeWorkersAhead(given, cores) : workersAhead(given, cores))
  closers.push(async () => {
    if (!(await supervisor.stop())) throw new Error('a thread did not stop')
  })
  // Once the start is stopped, the supervisor starts no further thread.
  signal.addEventListener('abort', () => void supervisor.stop())

  // 3. The chains. On the devnet, start a local chain. If the exchange was killed and its local chain still runs,
  //    use this chain.
  const chains = await openChains(given, { clock, log, step })
  closers.splice(-1, 0, closerOf(chains))
  if (signal.aborted) return
  const simulated = await simulatePrices(chains.settings, systemClock)
  closers.splice(-1, 0, () => simulated.end())
  const settings = simulated.settings
  known = settings
  if (signal.aborted) return

  // 4. The database, migrated to the newest schema.
  step('preparing the database')
  const databaseUrl = databaseUrlOf(settings)
  const migrations = await prepareDatabase(databaseUrl, settings, { signal, log })
  log.info({ migrations }, `the database is ${describeDatabaseUrl(databaseUrl)}`)
  if (signal.aborted) return

  // 5. The threads, in the order of their dependencies.
  step('starting the threads')
  const common = { isTerminal, port, version, ...sharedMemory(settings, clock) }
  if (isNode(settings)) {
    const { threads, onCall } = nodeSpecs(settings, cores, common)
    await supervisor.start(threads, onCall)
  } else await supervisor.start(threadSpecs(settings, cores, common))
  tuneV8()
  if (signal.aborted) return
  if (!hasFront) {
    const { node, roles } = settings.cluster
    const runs = `${settings.service.name} node ${node} runs with these roles: ${roles.join(', ')}`
    announce({ log, readable, text: `${runs}\n`, fields: { roles }, message: runs })
    return
  }

  // 6. Wait until `/readyz` reports that every part is ready for traffic.
  step('waiting until every part is ready')
  const url = urlOf(settings.front.host, port)
  const adminUrl = adminPort === 0 ? url : urlOf(adminHost, adminPort)
  await untilReady(adminUrl, signal)
  if (signal.aborted) return

  // 7. The banner.
  const signatures = `${(await loadRecovery()).name}, ${loadKeccak().name}`
  announce({
    ...{ log, readable },
    text: await banner({
      ...{ settings, version, url, adminUrl, databaseUrl, cores, signatures },
      devnet: chains.devnet,
    }),
    fields: { url, signatures, database: describeDatabaseUrl(databaseUrl) },
    message: `${settings.service.name} ${version} is open (${settings.profile})`,
  })
}

/**
 * Announces that the exchange is open. If standard output is for JSON, one log line is written to it, and the banner is
 * written to standard error.
 */
function announce(opened: {
  readonly log: Log
  readonly readable: boolean
  readonly text: string
  readonly fields: object
  readonly message: string
}): void {
  const { log, readable, text, fields, message } = opened
  if (readable) process.stdout.write(text)
  else {
    log.info(fields, message)
    process.stderr.write(text)
  }
}

/** Returns a function that announces each step of the start: as a line for a person, or as a log line for a machine. */
function makeSteps(readable: boolean, log: Log): (what: string) => void {
  const beganMs = performance.now()
  return (what) => {
    const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1)
    if (readable) process.stdout.write(`${seconds.padStart(6)} s  ${what} …\n`)
    else log.info({ seconds: Number(seconds) }, what)
  }
}

/** Makes every folder that the exchange writes to; an error names the setting. */
function makeFolders(settings: Settings): void {
  makeFolder('SIBYL_DATA_DIR', settings.data.dir)
  const { archiveDir } = settings.eventLog
  if (archiveDir !== '') makeFolder('SIBYL_LOG_ARCHIVE_DIR', archiveDir)
  makeDatabaseFolder(databaseUrlOf(settings))
}

/**
 * Returns the function that closes the chains. A normal stop of the exchange also stops its local chain. After a
 * failure, the local chain keeps running and waits for the next start.
 */
function closerOf(chains: OpenChains): (failed: boolean) => Promise<void> {
  return async (failed) => {
    if (failed) chains.release()
    else await chains.end()
  }
}

/**
 * Returns a function that builds the trading page: at the first request, once for all fronts. With `web.reload`, the
 * page is built at every request.
 */
function makePage({ service, web }: Settings): () => Promise<object> {
  const make = () => bundlePage(service.name)
  return web.reload ? make : lazily(make)
}

/** Makes the memory that threads share: some parts for all threads, others only for the fronts. */
function sharedMemory(settings: Settings, clock: ClockMemory) {
  const { auth, limits, front } = settings
  return {
    startedAtMs: systemClock.nowMs(),
    clock,
    nonces: makeSharedTable(auth.noncesMax, randomUUID()),
    buckets: makeSharedTable(limits.bucketsMax, randomUUID()),
    streams: makeConnectionCountMemory(front.threads, randomUUID()),
    accountsBegun: makeAccountsBegun(settings),
  }
}

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}

async function untilReady(url: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    if (await isReady(`${url}/readyz`)) return
    await new Promise((resolve) => setTimeout(resolve, READY_POLL_MS))
  }
}

/**
 * Returns whether the exchange is ready. Uses the smaller of Node's two HTTP clients, because loading the client of
 * `fetch` takes longer than the request.
 */
function isReady(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const call = get(url, { agent: false }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    call.on('error', () => resolve(false))
  })
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve()))
}

function versionOf(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
