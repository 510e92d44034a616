/**
 * Measures the rate and the CPU time of the price stream, which sends the prices of one asset to 2,000 readers. The
 * peer is a bare loop of uWebSockets.js that writes the same bytes to as many responses in the same run. The ratio of
 * the rates and the ratio of the CPU times per event must both be at least `BAR`.
 */

import type { ChildProcess } from 'node:child_process'
import { median, progress, quick, report, runBench } from './bench.ts'
import { needFiles } from './many-files.ts'
import { received, startProcess, stopProcess } from './reader-process.ts'
import type { ToSseReaders } from './sse-readers.ts'

const READERS = 2_000
/** Number of events sent at a time. The next events are sent when all readers have received the previous ones. */
const WINDOW = 8
const WINDOWS = quick ? 8 : 20
const BAR = 0.7

needFiles(READERS + 1_000)

type Side = { readonly server: ChildProcess; readonly readers: ChildProcess; cpuUs: number[] }

async function askReaders(child: ChildProcess, message: ToSseReaders): Promise<void> {
  const answer = received<unknown>(child)
  child.send(message)
  await answer
}

async function cpuMsOf(child: ChildProcess): Promise<number> {
  const answer = received<{ cpuMs: number }>(child)
  child.send('figures')
  return (await answer).cpuMs
}

async function startSide(kind: 'front' | 'bare'): Promise<Side> {
  progress(`sse: ${READERS} readers of the ${kind} server`)
  const server = startProcess('./sse-server.ts', [kind])
  const { port } = await received<{ port: number }>(server)
  const readers = startProcess('./sse-readers.ts')
  await askReaders(readers, { open: READERS, port })
  return { server, readers, cpuUs: [] }
}

/** Returns the number of events per second that all readers together receive. */
async function deliver(side: Side, isWarmup: boolean): Promise<number> {
  const cpuMs = await cpuMsOf(side.server)
  const beganMs = performance.now()
  for (let window = 0; window < WINDOWS; window++) {
    const got = askReaders(side.readers, { expect: WINDOW })
    side.server.send({ publish: WINDOW })
    await got
  }
  const seconds = (performance.now() - beganMs) / 1_000
  const events = WINDOW * WINDOWS * READERS
  if (!isWarmup) side.cpuUs.push((((await cpuMsOf(side.server)) - cpuMs) * 1_000) / events)
  return events / seconds
}

const ours = await startSide('front')
const theirs = await startSide('bare')
try {
  const result = await runBench({
    bench: 'sse',
    unit: 'events/s',
    peer: 'a bare uWebSockets.js loop that writes the same bytes to as many responses',
    bar: BAR,
    ours: ({ warmup }) => deliver(ours, warmup),
    theirs: ({ warmup }) => deliver(theirs, warmup),
  })
  const [oursUs, theirsUs] = [median(ours.cpuUs), median(theirs.cpuUs)]
  const share = theirsUs / oursUs
  process.stdout.write(
    `${READERS} readers; CPU time per event: front ${oursUs.toFixed(2)} µs, bare ` +
      `${theirsUs.toFixed(2)} µs, ratio ${share.toFixed(3)} (at least ${BAR})\n`,
  )
  report(result)
  if (!(share >= BAR)) process.exitCode = 1
} finally {
  for (const { server, readers } of [ours, theirs]) {
    await stopProcess(readers)
    await stopProcess(server)
  }
}
