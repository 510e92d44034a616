/**
 * `npm run bench -- market`: measures commands per second through a real market thread with the durable log on. Another
 * thread sends the commands over the channel, to 1 and to 100 markets. In the same run it sends the same commands over
 * a bare channel to a thread that only answers, to measure the cost of the messages alone. Fails below 60,000 commands
 * a second. It also shows which share of the time the commits take. The CPU time of the market thread per command is
 * shown too, because it does not depend on the load of the machine. `--public` compares a market thread whose log is
 * published with one whose log is not. That comparison uses commands per second of CPU time, because a small machine
 * may have no separate core for the publisher.
 */

import { MessageChannel, Worker } from 'node:worker_threads'
import type { MarketProtocol } from '#protocol/market.ts'
import { Channel } from '#runtime/channel.ts'
import { type BenchResult, median, quick, report, runBench } from './bench.ts'
import { type FlowCommand, FlowRecorder } from './market-flow.ts'
import { type MarketHost, sendAll, startMarketHost } from './market-host.ts'

const COMMANDS_PER_SECOND_MIN = 60_000
const IN_FLIGHT = 4_096
const RESTING = 1_000
const commandsPerRound = quick ? 60_000 : 150_000
const rounds = quick ? 3 : 7

type Figures = { share: number[]; cpuUs: number[]; perCommit: number[] }

async function measured(
  host: MarketHost,
  commands: readonly FlowCommand[],
  figures: Figures | undefined,
): Promise<number> {
  const [cpu, commits] = [await host.cpuSeconds(), await host.commits()]
  const seconds = await sendAll(host, commands, IN_FLIGHT)
  const [cpuAfter, commitsAfter] = [await host.cpuSeconds(), await host.commits()]
  figures?.share.push((commitsAfter.seconds - commits.seconds) / seconds)
  figures?.cpuUs.push(((cpuAfter - cpu) * 1e6) / commands.length)
  figures?.perCommit.push(commands.length / (commitsAfter.count - commits.count))
  return commands.length / seconds
}

/** Sends the same commands to a thread that answers each and does nothing else. */
async function throughBareChannel(
  channel: Channel<MarketProtocol>,
  commands: readonly FlowCommand[],
): Promise<number> {
  let sent = 0
  const startMs = performance.now()
  const sender = async (): Promise<void> => {
    while (sent < commands.length) {
      const { type, message } = commands[sent++]!
      await channel.ask(type, message)
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, sender))
  return (commands.length * 1_000) / (performance.now() - startMs)
}

async function marketBench(markets: number): Promise<BenchResult> {
  const recorder = new FlowRecorder(markets, markets)
  const host = await startMarketHost()
  for (const market of recorder.markets) await host.channel.ask('OpenMarket', { market })
  let commands = recorder.resting(RESTING)
  await sendAll(host, commands, IN_FLIGHT)

  const bare = new Worker(new URL('./channel-peer.ts', import.meta.url))
  const { port1, port2 } = new MessageChannel()
  bare.postMessage(port2, [port2])
  const options = { inFlightMax: 2 * IN_FLIGHT, batchMax: 128, deadlineMs: 120_000 }
  const channel = new Channel<MarketProtocol>(port1, options, { received() {} })

  const figures: Figures = { share: [], cpuUs: [], perCommit: [] }
  const result = await runBench({
    bench: `market thread, ${markets} market${markets === 1 ? '' : 's'}, durable log`,
    unit: 'commands/s',
    peer: 'the bare channel, which only carries the same commands and answers',
    bar: 0.15,
    rounds,
    ours(round) {
      commands = recorder.flow(commandsPerRound)
      return measured(host, commands, round.warmup ? undefined : figures)
    },
    theirs: () => throughBareChannel(channel, commands),
  })
  channel.close()
  await bare.terminate()
  await host.stop()
  const percent = (median(figures.share) * 100).toFixed(1)
  process.stdout.write(
    `${markets} markets: ${percent} % of the time goes to the commit, ` +
      `${median(figures.perCommit).toFixed(0)} commands share one, ` +
      `${median(figures.cpuUs).toFixed(1)} µs of CPU per command in the market thread\n`,
  )
  return result
}

/** Measures two market threads, each with a flow of its own; only one of them has a public log. */
async function publicLogBench(markets: number): Promise<BenchResult> {
  const sides: { recorder: FlowRecorder; host: MarketHost; rates: number[] }[] = []
  for (const isPublic of [true, false]) {
    const recorder = new FlowRecorder(markets, markets)
    const host = await startMarketHost({ isPublic })
    for (const market of recorder.markets) await host.channel.ask('OpenMarket', { market })
    await sendAll(host, recorder.resting(RESTING), IN_FLIGHT)
    sides.push({ recorder, host, rates: [] })
  }
  const perCpuSecond = async (side: number): Promise<number> => {
    const { recorder, host, rates } = sides[side]!
    const before = await host.cpuSeconds()
    const commands = recorder.flow(commandsPerRound)
    rates.push(commands.length / (await sendAll(host, commands, IN_FLIGHT)))
    return commands.length / ((await host.cpuSeconds()) - before)
  }
  const result = await runBench({
    bench: `market thread, ${markets} market${markets === 1 ? '' : 's'}, public log`,
    unit: 'commands per second of its CPU time',
    peer: 'the same, the log not public',
    bar: 0.97,
    rounds,
    ours: () => perCpuSecond(0),
    theirs: () => perCpuSecond(1),
  })
  for (const { host } of sides) await host.stop()
  const [ours = 0, theirs = 0] = sides.map(({ rates }) => Math.round(median(rates)))
  process.stdout.write(
    `${markets} markets: ${ours} commands/s with a public log, ${theirs} without\n`,
  )
  return result
}

if (process.argv.includes('--public')) {
  for (const markets of [1, 100]) report(await publicLogBench(markets))
  process.exit()
}

const results = [await marketBench(1), await marketBench(100)]
for (const result of results.toSorted((a, b) => b.figure - a.figure)) {
  if (result.figure < COMMANDS_PER_SECOND_MIN) {
    process.stdout.write(
      `${result.bench}: ${result.figure} commands/s, ${COMMANDS_PER_SECOND_MIN} are wanted\n`,
    )
    process.exitCode = 1
  }
  report(result)
}
