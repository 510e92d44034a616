/**
 * Compares the stream with bare uWebSockets.js. A busy book is sent to 10,000 sockets; in the same run, uWebSockets.js
 * alone publishes the same bytes to 10,000 other sockets.
 *
 * Then the stream is measured again while one reader in twenty has stopped reading. The other readers must keep nine
 * tenths of their rate.
 *
 * The last part uses a real exchange with 10,000 clients. It measures the time from an order until the clients receive
 * the change of the book.
 */

import type { ChildProcess } from 'node:child_process'
import { median, progress, quick, type Round, report, runBench } from './bench.ts'
import { needFiles } from './many-files.ts'
import { askReaders, followBook, received, startProcess, stopProcess } from './reader-process.ts'
import { measureLatency } from './stream-latency.ts'
import { type FromServer, MARKET_ID_TEXT, type ToServer } from './stream-wire.ts'

const SOCKETS = quick ? 1_000 : 10_000
/** Number of messages sent at a time. The next messages are sent when all readers have received the previous ones. */
const WINDOW = 16
const WINDOWS = quick ? 6 : 8
const STALLED = SOCKETS / 20
const STALLED_ROUNDS = quick ? 3 : 5
const STALLED_SHARE_MIN = 0.9
/**
 * Number of messages published at a time on the second book, which only the stalled readers follow. Publishing repeats
 * until the server has dropped messages for every stalled reader.
 */
const POUR = 500
const POURS_MAX = 200
const ORDERS = quick ? 40 : 120
const ORDERS_PER_SECOND = 4

needFiles(SOCKETS + 1_000)

async function askServer(child: ChildProcess, message: ToServer) {
  const answer = received<FromServer>(child)
  child.send(message as object)
  const figures = await answer
  if (!('cpuMs' in figures)) throw new Error('the server did not answer with its figures')
  return figures
}

type Side = {
  readonly server: ChildProcess
  readonly readers: ChildProcess
  readonly cpuUs: number[]
  readonly rssPerSocket: number
}

async function startSide(kind: 'hub' | 'bare'): Promise<Side> {
  progress(`stream: ${SOCKETS} sockets to the ${kind} server`)
  const server = startProcess('./stream-server.ts', [kind])
  const first = await received<FromServer>(server)
  if (!('port' in first))
    throw new Error('the first message of the server does not contain its port')
  const before = await askServer(server, 'figures')
  const readers = startProcess('./stream-readers.ts')
  await askReaders(readers, {
    open: SOCKETS,
    port: first.port,
    request: followBook(MARKET_ID_TEXT, 0),
  })
  const after = await askServer(server, 'figures')
  return { server, readers, cpuUs: [], rssPerSocket: (after.rssBytes - before.rssBytes) / SOCKETS }
}

async function stopSide({ server, readers }: Side): Promise<void> {
  // Stop the readers before the server, because a reader fails when it loses its connection.
  await stopProcess(readers)
  await stopProcess(server)
}

/**
 * `rate`: messages per second, summed over all readers that read. `cpuUs`: the server's CPU time per message, in
 * microseconds.
 */
type Delivered = { readonly rate: number; readonly cpuUs: number }

async function deliver(side: Side, reading: number): Promise<Delivered> {
  const before = await askServer(side.server, 'figures')
  const beganMs = performance.now()
  for (let window = 0; window < WINDOWS; window++) {
    const got = askReaders(side.readers, { expect: WINDOW })
    side.server.send({ publish: WINDOW, outcome: 0 } satisfies ToServer)
    await got
  }
  const seconds = (performance.now() - beganMs) / 1_000
  const after = await askServer(side.server, 'figures')
  const delivered = WINDOWS * WINDOW * reading
  const cpuUs = ((after.cpuMs - before.cpuMs) * 1_000) / delivered
  return { rate: delivered / seconds, cpuUs }
}

async function deliverRound(side: Side, { warmup }: Round): Promise<number> {
  const { rate, cpuUs } = await deliver(side, SOCKETS)
  if (!warmup) side.cpuUs.push(cpuUs)
  return rate
}

/**
 * Measures the rate while `STALLED` readers have stopped reading and the server has dropped messages for each of them.
 *
 * Each round stalls different readers. A reader that resumes reads much data at once, so the operating system enlarges
 * its receive buffer. If a later round stalled the same reader, the server would drop messages for it only after far
 * more messages.
 */
async function deliverBesideStalled(side: Side, round: number): Promise<Delivered> {
  await askReaders(side.readers, {
    stall: STALLED,
    from: round * STALLED,
    request: followBook(MARKET_ID_TEXT, 1),
  })
  for (let pours = 0; ; pours++) {
    const { lagging } = await askServer(side.server, 'figures')
    if (lagging === STALLED) break
    if (pours > POURS_MAX) throw new Error(`only ${lagging} of the stalled readers lag`)
    side.server.send({ publish: POUR, outcome: 1 } satisfies ToServer)
  }
  const delivered = await deliver(side, SOCKETS - STALLED)
  const resume = JSON.stringify({ op: 'unsubscribe', sub: `book:${MARKET_ID_TEXT}:1` })
  await askReaders(side.readers, { resume })
  return delivered
}

/**
 * Measures each round twice, once with stalled readers and once without. The order of the two measurements alternates.
 * Returns two ratios per round, each of them the value with stalled readers divided by the value without. `shares` has
 * the ratios of the message rate per reader that reads. `costs` has the ratios of the server's CPU time per message,
 * which do not depend on other work of the machine.
 */
async function stalledShares(side: Side): Promise<{ shares: number[]; costs: number[] }> {
  const shares: number[] = []
  const costs: number[] = []
  for (let round = 0; round <= STALLED_ROUNDS; round++) {
    progress(`stream: stalled readers, round ${round} of ${STALLED_ROUNDS}`)
    const stalledFirst = round % 2 === 0
    const early = stalledFirst ? await deliverBesideStalled(side, round) : undefined
    const alone = await deliver(side, SOCKETS)
    const beside = early ?? (await deliverBesideStalled(side, round))
    // The first one warms up.
    if (round === 0) continue
    shares.push(beside.rate / (SOCKETS - STALLED) / (alone.rate / SOCKETS))
    costs.push(beside.cpuUs / alone.cpuUs)
  }
  return { shares, costs }
}

const sides: Side[] = []
try {
  const ours = await startSide('hub')
  sides.push(ours)
  const theirs = await startSide('bare')
  sides.push(theirs)
  const result = await runBench({
    bench: 'stream',
    unit: 'messages/s',
    peer: 'a bare uWebSockets.js publish of the same bytes to as many sockets',
    bar: 0.8,
    ours: (round) => deliverRound(ours, round),
    theirs: (round) => deliverRound(theirs, round),
  })
  const { shares, costs } = await stalledShares(ours)
  for (const side of sides.splice(0)) await stopSide(side)
  progress('stream: orders through a real exchange')
  const latency = await measureLatency(SOCKETS, ORDERS, ORDERS_PER_SECOND)
  progress('')
  const share = median(shares)
  const [oursUs, theirsUs] = [median(ours.cpuUs), median(theirs.cpuUs)]
  const kib = (bytes: number): string => (bytes / 1_024).toFixed(1)
  process.stdout.write(
    `${SOCKETS} sockets\n` +
      `rate: hub ${result.ratio} of bare (at least ${result.bar})\n` +
      `server CPU per delivered message: hub ${oursUs.toFixed(2)} µs, bare ${theirsUs.toFixed(2)} µs\n` +
      `resident memory per connection: hub ${kib(ours.rssPerSocket)} KiB, bare ` +
      `${kib(theirs.rssPerSocket)} KiB\n` +
      `with ${STALLED} stalled readers the others keep ${share.toFixed(3)} of their rate (at least ` +
      `${STALLED_SHARE_MIN}; rounds ${shares.map((each) => each.toFixed(2)).join(', ')}), at ` +
      `${median(costs).toFixed(2)} times the server CPU per message\n` +
      `from an order's acceptance to its delta at the client, ${latency.orders} orders at ` +
      `${latency.perSecond}/s through a real exchange: p50 ${latency.p50Ms.toFixed(1)} ms, p99 ` +
      `${latency.p99Ms.toFixed(1)} ms\n`,
  )
  report(result)
  if (!(share >= STALLED_SHARE_MIN)) process.exitCode = 1
} finally {
  for (const side of sides) await stopSide(side)
}
