/**
 * What the stream costs beside the bare library: a hot book fanned out to 10,000 sockets, against
 * uWebSockets.js publishing the same bytes to as many sockets in the same run. Then the same with one
 * reader in twenty that has stopped reading: the others must keep nine tenths of their rate.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { median, quantile, quick, type Round, report, runBench } from './bench.ts'
import type { FromReaders, ToReaders } from './stream-readers.ts'
import { type FromServer, MARKET_ID_TEXT, type ToServer } from './stream-wire.ts'

const SOCKETS = quick ? 1_000 : 10_000
const READER_PROCESSES = 1
/** Messages in flight at once; the next go out when all readers have these. */
const WINDOW = 16
const WINDOWS = quick ? 6 : 12
const STALLED = SOCKETS / 20
const STALLED_SHARE_MIN = 0.9

/** Ten thousand sockets are more files than a shell usually allows. */
function start(file: string, args: string[]): ChildProcess {
  const path = fileURLToPath(new URL(file, import.meta.url))
  const script = 'ulimit -n $(ulimit -Hn); exec "$0" "$@"'
  return spawn('sh', ['-c', script, process.execPath, path, ...args], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
}

function heard<Message>(child: ChildProcess): Promise<Message> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null): void => reject(new Error(`a process ended with ${code}`))
    child.once('exit', ended)
    child.once('message', (message) => {
      child.off('exit', ended)
      resolve(message as Message)
    })
  })
}

async function askServer(child: ChildProcess, message: ToServer) {
  const answer = heard<FromServer>(child)
  child.send(message as object)
  const figures = await answer
  if (!('cpuMs' in figures)) throw new Error('a server answers with figures')
  return figures
}

async function askReaders(child: ChildProcess, message: ToReaders): Promise<FromReaders> {
  const answer = heard<FromReaders>(child)
  child.send(message as object)
  return answer
}

type Side = {
  readonly server: ChildProcess
  readonly readers: ChildProcess[]
  readonly cpuUs: number[]
  readonly rssPerSocket: number
}

async function startSide(kind: 'hub' | 'bare'): Promise<Side> {
  const server = start('./stream-server.ts', [kind])
  const first = await heard<FromServer>(server)
  if (!('port' in first)) throw new Error('a server tells its port first')
  const before = await askServer(server, 'figures')
  const readers = Array.from({ length: READER_PROCESSES }, () => start('./stream-readers.ts', []))
  const request = JSON.stringify({
    op: 'subscribe',
    channel: 'book',
    marketId: MARKET_ID_TEXT,
    outcome: 0,
  })
  for (const child of readers) {
    await askReaders(child, { open: SOCKETS / READER_PROCESSES, port: first.port, request })
  }
  const after = await askServer(server, 'figures')
  return { server, readers, cpuUs: [], rssPerSocket: (after.rssBytes - before.rssBytes) / SOCKETS }
}

/** Messages delivered per second to the readers that read. */
async function deliver(side: Side, reading: number, keep: boolean): Promise<number> {
  const before = await askServer(side.server, 'figures')
  const beganMs = performance.now()
  for (let window = 0; window < WINDOWS; window++) {
    const got = side.readers.map((child) => askReaders(child, { expect: WINDOW }))
    side.server.send({ publish: WINDOW } satisfies ToServer)
    await Promise.all(got)
  }
  const seconds = (performance.now() - beganMs) / 1_000
  const after = await askServer(side.server, 'figures')
  const delivered = WINDOWS * WINDOW * reading
  if (keep) side.cpuUs.push(((after.cpuMs - before.cpuMs) * 1_000) / delivered)
  return delivered / seconds
}

async function latenciesOf(side: Side): Promise<number[]> {
  const all: number[] = []
  for (const child of side.readers) {
    const answer = await askReaders(child, 'latencies')
    if ('latenciesMs' in answer) all.push(...answer.latenciesMs)
  }
  return all
}

const ours = await startSide('hub')
const theirs = await startSide('bare')
try {
  const result = await runBench({
    bench: 'stream',
    unit: 'messages/s',
    peer: 'a bare uWebSockets.js publish of the same bytes to as many sockets',
    bar: 0.8,
    ours: (round: Round) => deliver(ours, SOCKETS, !round.warmup),
    theirs: (round: Round) => deliver(theirs, SOCKETS, !round.warmup),
  })
  const latencies = await latenciesOf(ours)
  const rates: number[] = []
  for (let round = 0; round < 3; round++) rates.push(await deliver(ours, SOCKETS, false))
  for (const child of ours.readers) await askReaders(child, { stall: STALLED / READER_PROCESSES })
  const besideStalled: number[] = []
  for (let round = 0; round < 5; round++) {
    besideStalled.push(await deliver(ours, SOCKETS - STALLED, false))
  }
  const perReader = (rate: number, readers: number): number => rate / readers
  const share =
    perReader(median(besideStalled), SOCKETS - STALLED) / perReader(median(rates), SOCKETS)
  const [oursUs, theirsUs] = [median(ours.cpuUs), median(theirs.cpuUs)]
  const kib = (bytes: number): string => (bytes / 1_024).toFixed(1)
  process.stdout.write(
    `${SOCKETS} sockets; CPU per delivered message: hub ${oursUs.toFixed(2)} µs, bare ` +
      `${theirsUs.toFixed(2)} µs; memory per connection: hub ${kib(ours.rssPerSocket)} KiB, bare ` +
      `${kib(theirs.rssPerSocket)} KiB\n` +
      `from the event to its delta at the client, ${WINDOW} changes at once: p50 ` +
      `${quantile(latencies, 0.5).toFixed(2)} ms, p99 ${quantile(latencies, 0.99).toFixed(2)} ms\n` +
      `with ${STALLED} stalled readers the others keep ${share.toFixed(3)} of their rate\n`,
  )
  report(result)
  if (!(share >= STALLED_SHARE_MIN)) process.exitCode = 1
} finally {
  for (const { server, readers } of [ours, theirs]) {
    for (const child of [server, ...readers]) child.disconnect()
  }
}
