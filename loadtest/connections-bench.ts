/**
 * `npm run bench -- connections`: opens 100,000 WebSockets to one front (`--sockets`; `--quick`: 4,000), or as many as
 * the system's limit on open files allows. Each socket subscribes to one book. Measures the memory per socket in the
 * process and in the kernel, CPU at rest, heartbeats, and the delivery of a change to all sockets.
 *
 * Then measures a reconnect storm at a real exchange while orders are placed. 20,000 clients (`--quick`: 2,000) lose
 * their connection at the same moment. They reconnect and request the missed changes with `since`. The figure is the
 * number of clients per second that have their book again. It is compared with the rate at which as many clients
 * reconnect to a bare uWebSockets.js server.
 */

import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { openExchange } from '../test/support/exchange.ts'
import { progress, quick, report } from './bench.ts'
import { Histogram } from './histogram.ts'
import { type Answer, openDriver, writeRequest } from './http-driver.ts'
import { filesWithin, needFiles } from './many-files.ts'
import { cpuSeconds } from './proc-file.ts'
import { askReaders, followBook, received, startProcess, stopProcess } from './reader-process.ts'
import { makeTrader, signOrders } from './signed-orders.ts'
import { type FromServer, MARKET_ID_TEXT, type ToServer } from './stream-wire.ts'

const { values } = parseArgs({
  strict: false,
  options: {
    sockets: { type: 'string', default: quick ? '4000' : '100000' },
    clients: { type: 'string', default: quick ? '2000' : '20000' },
  },
})
/** Number of files that a process has open besides its sockets. */
const OTHER_FILES = 1_000
const SOCKETS = filesWithin(Number(values.sockets) + OTHER_FILES) - OTHER_FILES
const CLIENTS = filesWithin(Number(values.clients) + OTHER_FILES) - OTHER_FILES
/**
 * Maximum number of connections from one client address, which has about 28,000 ports. Clients reconnect from another
 * address, because the ports of their old connections stay in use for a minute.
 */
const PER_HOST = 20_000
/** Two heartbeats. */
const REST_MS = quick ? 16_000 : 31_000
const WINDOW = 8
const WINDOWS = quick ? 3 : 6
const ORDERS_PER_SECOND = 100
const ORDERS_BEFORE = quick ? 300 : 1_000
const STORM_BAR = 0.5

needFiles(Math.max(SOCKETS, CLIENTS) + OTHER_FILES)
if (SOCKETS < Number(values.sockets)) {
  process.stdout.write(`the system allows ${SOCKETS} sockets per process, not ${values.sockets}\n`)
}

type Group = { readonly readers: ChildProcess; readonly host: string; readonly sockets: number }

/** Starts reader processes for this many sockets in total. Each process gets its own client address. */
function groupsOf(sockets: number): Group[] {
  return Array.from({ length: Math.ceil(sockets / PER_HOST) }, (_, at) => ({
    readers: startProcess('./stream-readers.ts'),
    host: `127.0.1.${at + 1}`,
    sockets: Math.min(PER_HOST, sockets - at * PER_HOST),
  }))
}

/** Opens all sockets, one group after the other, so that only the server limits the rate. */
async function openAll(groups: readonly Group[], port: number, request: string): Promise<void> {
  for (const { readers, host, sockets } of groups) {
    await askReaders(readers, { open: sockets, port, request, host })
  }
}

const stopAll = (groups: readonly Group[]) =>
  Promise.all(groups.map(({ readers }) => stopProcess(readers)))

async function figuresOf(server: ChildProcess) {
  const answer = received<FromServer>(server)
  server.send('figures' satisfies ToServer)
  const figures = await answer
  if (!('cpuMs' in figures)) throw new Error('the server did not answer with its figures')
  return figures
}

async function startServer(kind: 'hub' | 'bare') {
  const server = startProcess('./stream-server.ts', [kind])
  const first = await received<FromServer>(server)
  if (!('port' in first))
    throw new Error('the first message of the server does not contain its port')
  return { server, port: first.port }
}

/** Returns the memory that the kernel uses for its objects, sockets among them, in bytes. */
function kernelBytes(): number {
  const kib = /^Slab:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]
  const pages = /^TCP:.* mem (\d+)/m.exec(readFileSync('/proc/net/sockstat', 'utf8'))?.[1]
  return Number(kib) * 1_024 + Number(pages) * 4_096
}

async function heartbeatsOf(groups: readonly Group[]): Promise<number> {
  let sum = 0
  for (const { readers } of groups) {
    const answer = await askReaders(readers, 'heartbeats')
    if ('heartbeats' in answer) sum += answer.heartbeats
  }
  return sum
}

async function manySockets(): Promise<void> {
  progress(`connections: ${SOCKETS} sockets`)
  const { server, port } = await startServer('hub')
  const groups = groupsOf(SOCKETS)
  try {
    const [before, kernelBefore] = [await figuresOf(server), kernelBytes()]
    await openAll(groups, port, followBook(MARKET_ID_TEXT, 0))
    const [opened, kernelOpened] = [await figuresOf(server), kernelBytes()]
    await heartbeatsOf(groups)
    progress(`connections: ${SOCKETS} sockets at rest`)
    await new Promise((resolve) => setTimeout(resolve, REST_MS))
    const [rested, heartbeats] = [await figuresOf(server), await heartbeatsOf(groups)]
    progress(`connections: a change of the book to ${SOCKETS} sockets`)
    const beganMs = performance.now()
    for (let window = 0; window < WINDOWS; window++) {
      const got = groups.map(({ readers }) => askReaders(readers, { expect: WINDOW }))
      server.send({ publish: WINDOW, outcome: 0 } satisfies ToServer)
      await Promise.all(got)
    }
    const seconds = (performance.now() - beganMs) / 1_000
    const after = await figuresOf(server)
    progress('')
    const delivered = WINDOWS * WINDOW * SOCKETS
    const kib = (bytes: number) => (bytes / SOCKETS / 1_024).toFixed(1)
    const restShare = (rested.cpuMs - opened.cpuMs) / REST_MS
    process.stdout.write(
      `${SOCKETS} sockets on one front: ${kib(opened.rssBytes - before.rssBytes)} KiB each in the process, ` +
        `${kib((kernelOpened - kernelBefore) / 2)} KiB in the kernel\n` +
        `opening and subscribing: ${(((opened.cpuMs - before.cpuMs) * 1_000) / SOCKETS).toFixed(0)} µs of CPU each\n` +
        `at rest: ${(restShare * 100).toFixed(1)} % of one core, ` +
        `${(heartbeats / SOCKETS).toFixed(2)} heartbeats per socket in ${REST_MS / 1_000} s\n` +
        `fan-out: ${Math.round(delivered / seconds).toLocaleString('en')} messages/s, ` +
        `${(((after.cpuMs - rested.cpuMs) * 1_000) / delivered).toFixed(2)} µs of CPU each\n`,
    )
  } finally {
    await stopAll(groups)
    await stopProcess(server)
  }
}

type Storm = {
  readonly perSecond: number
  readonly lastMs: number
  /** CPU time of the server for each client, in µs. */
  readonly cpuUs: number
  readonly failures: string
}

/**
 * Makes all clients lose their connection at the same moment and connect to the server at `port`. `pid` is the process
 * id of the server.
 */
async function storm(
  groups: readonly Group[],
  { port, pid = 0 }: { readonly port: number; readonly pid?: number | undefined },
  request: string,
): Promise<Storm> {
  const cpuBefore = cpuSeconds(pid)
  const answers = await Promise.all(
    groups.map(({ readers }, at) =>
      askReaders(readers, { reconnect: true, port, request, host: `127.0.2.${at + 1}` }),
    ),
  )
  const cpuUs = ((cpuSeconds(pid) - cpuBefore) * 1e6) / CLIENTS
  const times: number[] = []
  const failures = new Map<string, number>()
  for (const answer of answers) {
    if (!('backAfterMs' in answer))
      throw new Error('the readers did not answer with their reconnection times')
    for (const ms of answer.backAfterMs) times.push(ms)
    for (const [why, count] of Object.entries(answer.failures)) {
      failures.set(why, (failures.get(why) ?? 0) + count)
    }
  }
  const lastMs = times.reduce((a, b) => Math.max(a, b), 0)
  return {
    perSecond: (times.length * 1_000) / lastMs,
    lastMs,
    cpuUs,
    failures: [...failures].map(([why, count]) => `${count} × ${why}`).join(', ') || 'none',
  }
}

async function bareStorm(): Promise<Storm> {
  progress(`connections: ${CLIENTS} clients come back to a bare server`)
  const { server, port } = await startServer('bare')
  const groups = groupsOf(CLIENTS)
  try {
    const request = followBook(MARKET_ID_TEXT, 0)
    await openAll(groups, port, request)
    return await storm(groups, { port, pid: server.pid }, request)
  } finally {
    await stopAll(groups)
    await stopProcess(server)
  }
}

type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
type Markets = { markets: { id: MarketId }[] }

/**
 * Makes all clients reconnect at a real exchange. Also measures how long orders take before the storm and
 * during it.
 */
async function ourStorm() {
  progress(`connections: ${CLIENTS} clients come back to an exchange`)
  // A front counts a closed connection until it notices that the client has gone. During the storm, each client may
  // count twice, so the limit must be twice the number of clients.
  const connectionsMax = String(2 * CLIENTS + OTHER_FILES)
  const exchange = await openExchange({
    environment: {
      SIBYL_LOG_LEVEL: 'error',
      SIBYL_LIMITS: 'false',
      SIBYL_CONNECTIONS_MAX: connectionsMax,
      SIBYL_STREAM_CONNECTIONS_MAX: connectionsMax,
    },
  })
  const groups = groupsOf(CLIENTS)
  try {
    const read = async <T>(path: string): Promise<T> =>
      (await fetch(exchange.url + path)).json() as Promise<T>
    const [chain] = (await read<Config>('/api/v1/config')).chains
    const [followed, traded] = (await read<Markets>('/api/v1/markets')).markets
    if (chain === undefined || followed === undefined || traded === undefined) {
      throw new Error('the exchange has no chain, or fewer than two markets')
    }
    const signed = signOrders({
      count: 12 * ORDERS_BEFORE,
      traders: Array.from({ length: 10 }, makeTrader),
      markets: [traded.id],
      domain: { chainId: chain.chainId, verifyingContract: toAddress(chain.contracts.settlement) },
    }).map((one) => writeRequest('POST', '/api/v1/orders', JSON.stringify(one)))
    const port = Number(new URL(exchange.url).port)
    const request = followBook(followed.id, 0)
    await openAll(groups, port, request)
    const driver = await openDriver(exchange.url, 64)
    const latencies = async (orders: typeof signed): Promise<Histogram> => {
      const histogram = new Histogram()
      await driver.openLoop(orders, ORDERS_PER_SECOND, ({ status, body, latencyMs }: Answer) => {
        if (status !== 200) throw new Error(`${status}: ${body}`)
        histogram.recordMs(latencyMs)
      })
      return histogram
    }
    await latencies(signed.splice(0, ORDERS_BEFORE))
    const before = await latencies(signed.splice(0, ORDERS_BEFORE))
    let isOver = false
    const meanwhile = new Histogram()
    const placing = (async () => {
      while (!isOver) meanwhile.add(await latencies(signed.splice(0, ORDERS_PER_SECOND / 4)))
    })()
    const back = await storm(groups, { port, pid: exchange.pid }, request)
    isOver = true
    await placing
    driver.close()
    return { ...back, p99BeforeMs: before.quantileMs(0.99), p99Ms: meanwhile.quantileMs(0.99) }
  } finally {
    await stopAll(groups)
    await exchange.dispose()
  }
}

await manySockets()
const bare = await bareStorm()
const ours = await ourStorm()
progress('')
process.stdout.write(
  `${CLIENTS} clients came back: the last after ${(ours.lastMs / 1_000).toFixed(2)} s, at a bare server after ` +
    `${(bare.lastMs / 1_000).toFixed(2)} s\n` +
    `CPU of the server per client: ${ours.cpuUs.toFixed(0)} µs with the orders meanwhile, bare ${bare.cpuUs.toFixed(0)} µs\n` +
    `attempts that failed: ${ours.failures}; at the bare server: ${bare.failures}\n` +
    `p99 of ${ORDERS_PER_SECOND} orders/s: ${ours.p99Ms.toFixed(1)} ms meanwhile, ` +
    `${ours.p99BeforeMs.toFixed(1)} ms before\n`,
)
report({
  bench: `connections, ${CLIENTS} clients come back at once`,
  figure: Math.round(ours.perSecond),
  unit: 'clients/s with their book again',
  peer: 'a bare uWebSockets.js server that upgrades as many',
  peerFigure: Math.round(bare.perSecond),
  ratio: Math.round((ours.perSecond / bare.perSecond) * 1_000) / 1_000,
  bar: STORM_BAR,
})
