/**
 * A real market thread for measurements: `workers/market.ts` on a log in a folder of its own, with a
 * channel from the measuring thread, as a front has one.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MessageChannel, Worker } from 'node:worker_threads'
import { proxy, type Remote, transfer, wrap } from 'comlink'
import { loadSettings } from '#config/settings.ts'
import { channelOptions, type ThreadData } from '#config/thread-data.ts'
import { MARKET_YOUNG_MB } from '#config/topology.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { endpointOf } from '#runtime/endpoint.ts'
import type { WorkerControl } from '#runtime/thread.ts'
import { tuneV8 } from '#runtime/v8-flags.ts'
import type { FlowCommand } from './market-flow.ts'

tuneV8()

export type MarketHost = {
  readonly channel: Channel<MarketThreadProtocol>
  readonly control: Remote<WorkerControl>
  /** Seconds of CPU that the thread has used. */
  cpuSeconds(): Promise<number>
  /** Seconds and number of the commits so far. */
  commits(): Promise<{ seconds: number; count: number }>
  stop(): Promise<void>
}

export async function startMarketHost(
  env: Readonly<Record<string, string>> = {},
  dataDir = mkdtempSync(join(tmpdir(), 'sibyl-bench-')),
  keep = false,
): Promise<MarketHost> {
  const settings = loadSettings({
    SIBYL_DATA_DIR: dataDir,
    SIBYL_LOG_LEVEL: 'warn',
    SIBYL_REQUEST_DEADLINE_MS: '120000',
    ...env,
  })
  const data: Pick<ThreadData, 'name' | 'index' | 'settings' | 'isTerminal'> = {
    name: 'market-0',
    index: 0,
    settings,
    isTerminal: false,
  }
  const worker = new Worker(new URL('../workers/market.ts', import.meta.url), {
    resourceLimits: { maxYoungGenerationSizeMb: MARKET_YOUNG_MB },
  })
  worker.on('error', (error) => {
    throw error
  })
  const control = wrap<WorkerControl>(endpointOf(worker))
  const exited = new Promise((resolve) => worker.once('exit', resolve))
  const home = proxy({
    ...{ threads: () => ({}), metrics: async () => [], made: async () => ({}) },
    // A market thread asks for none of these.
    ...{ begin: async () => {}, ended: async () => '', begun: () => [] },
    ...{ drain: async () => {}, end: async () => {} },
    connect: () => false,
  })
  await control.start(home, [{ name: data.name, kind: 'market', data }])
  const { port1, port2 } = new MessageChannel()
  // Events come as they come to every front, but to read them is the work of their reader.
  const options = { ...channelOptions(settings), forms: MARKET_FORMS }
  const channel = new Channel<MarketThreadProtocol>(port1, options, { heard() {} })
  // Comlink's type of a transfer list knows the browser's ports only.
  await control.connect(data.name, 'front-0', transfer(port2, [port2 as unknown as Transferable]))
  return {
    channel,
    control,
    async cpuSeconds() {
      const { user, system } = await worker.cpuUsage()
      return (user + system) / 1e6
    },
    async commits() {
      const [metrics = []] = (await control.metrics()) as unknown as {
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
      await control.drain()
      channel.close()
      await control.stop()
      await exited
      if (!keep) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** Sends the commands with so many under way at once; answers the seconds it took. */
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
