/**
 * A real market thread for measurements: `workers/market.ts` with a log in its own folder. The measuring thread has a
 * channel to it, like a front. For a public log, the store and transparency threads run beside it and publish its log.
 */

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { proxy, type Remote, transfer, wrap } from 'comlink'
import { loadSettings } from '#config/settings.ts'
import { channelOptions, databaseUrlOf, type ThreadData } from '#config/thread-data.ts'
import { MARKET_YOUNG_MB, TRANSPARENCY_THREAD } from '#config/topology.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { endpointOf } from '#runtime/endpoint.ts'
import type { WorkerControl } from '#runtime/thread.ts'
import { tuneV8 } from '#runtime/v8-flags.ts'
import { migrateNew } from '../test/support/migrated-database.ts'
import type { FlowCommand } from './market-flow.ts'

tuneV8()

export type MarketHost = {
  readonly channel: Channel<MarketThreadProtocol>
  /** Returns the CPU seconds that the thread has used. */
  cpuSeconds(): Promise<number>
  /** Returns the duration and number of the commits so far. */
  commits(): Promise<{ seconds: number; count: number }>
  stop(): Promise<void>
}

export async function startMarketHost({ isPublic = false } = {}): Promise<MarketHost> {
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-bench-'))
  const settings = loadSettings({
    SIBYL_DATA_DIR: dataDir,
    SIBYL_LOG_LEVEL: 'warn',
    SIBYL_REQUEST_DEADLINE_MS: '120000',
    ...(isPublic && {
      SIBYL_TRANSPARENCY: 'on',
      SIBYL_TRANSPARENCY_KEYS: `0x${randomBytes(32).toString('hex')}`,
    }),
  })
  const market = await startThread('market', 'market-0', settings)
  const followers: RunningThread[] = []
  if (isPublic) {
    await migrateNew(databaseUrlOf(settings))
    const store = await startThread('store', 'store', settings)
    const publisher = await startThread('transparency', TRANSPARENCY_THREAD, settings)
    await connect(store, publisher)
    await connect(market, store)
    followers.push(publisher, store)
  }
  const { port1, port2 } = new MessageChannel()
  // The channel decodes events as at a front, but nothing processes them.
  const options = { ...channelOptions(settings), forms: MARKET_FORMS }
  const channel = new Channel<MarketThreadProtocol>(port1, options, { received() {} })
  await giveEnd(market, 'front-0', port2)
  return {
    channel,
    async cpuSeconds() {
      const { user, system } = await market.worker.cpuUsage()
      return (user + system) / 1e6
    },
    async commits() {
      const [metrics = []] = (await market.control.metrics()) as unknown as {
        name: string
        values: { metricName?: string; value: number }[]
      }[][]
      const commit = metrics.find(({ name }) => name === 'sibyl_market_commit_seconds')
      const value = (name: string) =>
        commit?.values.find(
          ({ metricName }) => metricName === `sibyl_market_commit_seconds_${name}`,
        )?.value ?? 0
      return { seconds: value('sum'), count: value('count') }
    },
    async stop() {
      channel.close()
      for (const { control, exited } of [market, ...followers]) {
        await control.drain()
        await control.stop()
        await exited
      }
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

type RunningThread = {
  readonly name: string
  readonly worker: Worker
  readonly control: Remote<WorkerControl>
  readonly exited: Promise<unknown>
}

async function startThread(
  kind: string,
  name: string,
  settings: ThreadData['settings'],
): Promise<RunningThread> {
  const data: Pick<ThreadData, 'name' | 'index' | 'settings' | 'isTerminal'> = {
    ...{ name, index: 0, settings, isTerminal: false },
  }
  const worker = new Worker(new URL(`../workers/${kind}.ts`, import.meta.url), {
    resourceLimits: { maxYoungGenerationSizeMb: MARKET_YOUNG_MB },
  })
  worker.on('error', (error) => {
    throw error
  })
  const control = wrap<WorkerControl>(endpointOf(worker))
  const exited = new Promise((resolve) => worker.once('exit', resolve))
  const home = proxy({
    ...{ threads: () => ({}), metrics: async () => [], made: async () => ({}) },
    // These threads never ask for another thread.
    ...{ begin: async () => {}, ended: async () => '', begun: () => [] },
    ...{ drain: async () => {}, end: async () => {} },
    connect: () => false,
  })
  await control.start(home, [{ name, kind, data }])
  return { name, worker, control, exited }
}

async function connect(one: RunningThread, other: RunningThread): Promise<void> {
  const { port1, port2 } = new MessageChannel()
  await giveEnd(one, other.name, port1)
  await giveEnd(other, one.name, port2)
}

function giveEnd({ control, name }: RunningThread, peer: string, port: MessagePort): Promise<void> {
  // The cast is needed because Comlink's type of a transfer list allows only browser ports.
  return control.connect(name, peer, transfer(port, [port as unknown as Transferable]))
}

/** Keeps `inFlight` commands under way; returns the seconds until all were answered. */
export async function sendAll(
  host: MarketHost,
  commands: readonly FlowCommand[],
  inFlight: number,
): Promise<number> {
  let sent = 0
  const startMs = performance.now()
  const sender = async (): Promise<void> => {
    while (sent < commands.length) {
      const { type, message } = commands[sent++]!
      const answer = await host.channel.ask(type, message)
      if (isUnanswered(answer) || 'rejected' in answer) {
        throw new Error(`${type} was answered ${JSON.stringify(answer)}`)
      }
    }
  }
  await Promise.all(Array.from({ length: inFlight }, sender))
  return (performance.now() - startMs) / 1_000
}
