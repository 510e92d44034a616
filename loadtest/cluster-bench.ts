/**
 * `npm run bench -- cluster`: measures the cost of additional nodes. It sends signed orders over HTTP with 1, 2 and 3
 * market nodes, and messages of the stream with 1, 2 and 3 fronts. More nodes must not increase the processor time per
 * order or message, summed over the nodes. Then it sends orders through the bridges of two nodes over NATS, 128 orders
 * in a message. This rate is compared with that of the same channel between two threads. `--orders`, `--stream` or
 * `--bridge` runs only that part.
 */

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { freePorts } from '#devnet/cluster/local-servers.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { Channel } from '#runtime/channel.ts'
import { openNode, sharedBy } from '../test/support/cluster.ts'
import { onServer, TEST_MYSQL_URL } from '../test/support/databases.ts'
import type { Exchange } from '../test/support/exchange.ts'
import { openNats } from '../test/support/nats.ts'
import { median, progress, quick, report, runBench } from './bench.ts'
import { openDriver, type Request, writeRequest } from './http-driver.ts'
import { needFiles } from './many-files.ts'
import { askReaders, followBook, startProcess, stopProcess } from './reader-process.ts'
import { makeTrader, type SignedOrder, signOrders } from './signed-orders.ts'

const ORDERS = quick ? 3_000 : 12_000
const SOCKETS = quick ? 300 : 1_000
const CHANGES = quick ? 100 : 300
const CONNECTIONS = 64
const THREADS = 3
const IDLE_MS = quick ? 2_000 : 5_000
const TICK_US = 10_000
const REST = 'store,chain,prices'
const IN_FLIGHT = 1_024
const BRIDGED = quick ? 50_000 : 200_000

type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
type Markets = { markets: { id: MarketId }[] }

const say = (line: string): void => void process.stdout.write(`${line}\n`)

/** Returns the processor time that all threads of a node have used so far. */
function cpuUsOf({ pid }: { readonly pid: number | undefined }): number {
  const words = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? []
  return (Number(words[11]) + Number(words[12])) * TICK_US
}

const rssOf = ({ pid }: Exchange): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) * 1_024

type Cluster = {
  readonly fronts: readonly Exchange[]
  readonly markets: readonly Exchange[]
  readonly rest: Exchange
  /** Returns the number of bytes that NATS has received so far. */
  readonly natsBytes: () => Promise<number>
}

async function withCluster(
  sizes: { readonly fronts: number; readonly markets: number },
  measure: (cluster: Cluster) => Promise<void>,
): Promise<void> {
  const names = ['log', 'db'].map((kind) => `sibyl_bench_${kind}_${randomBytes(4).toString('hex')}`)
  const [logUrl = '', databaseUrl = ''] = names.map((name) => `${TEST_MYSQL_URL}/${name}`)
  for (const name of names) await onServer(`create database ${name}`)
  const [port = 0] = await freePorts(1)
  const nats = await openNats(['-m', String(port)])
  const shared = {
    ...sharedBy(nats, logUrl, databaseUrl),
    ...{ SIBYL_MARKET_THREADS: String(THREADS), SIBYL_LOG_PARTITIONS: String(THREADS) },
    ...{ SIBYL_LIMITS: 'false', SIBYL_LOG_LEVEL: 'error', SIBYL_DEMO_MARKETS_MORE: '27' },
  }
  const opened: Exchange[] = []
  const open = async (name: string, roles: string): Promise<Exchange> => {
    const node = await openNode(shared, name, roles)
    opened.push(node)
    return node
  }
  const several = (name: string, roles: string, count: number): Promise<Exchange[]> =>
    Promise.all(Array.from({ length: count }, (_, at) => open(`${name}-${at}`, roles)))
  try {
    // All market nodes join before a front requests any market, so that each node takes its share of the market
    // threads.
    const [rest, markets, fronts] = await Promise.all([
      open('rest', REST),
      several('books', 'market', sizes.markets),
      several('gate', 'front', sizes.fronts),
    ])
    const natsBytes = async (): Promise<number> => {
      const told = await fetch(`http://127.0.0.1:${port}/varz`)
      return ((await told.json()) as { in_bytes: number }).in_bytes
    }
    await measure({ rest, markets, fronts, natsBytes })
  } finally {
    for (const node of opened) await node.dispose()
    await nats.dispose()
    for (const name of names) await onServer(`drop database if exists ${name}`)
  }
}

async function tradingAt(url: string) {
  const read = async <T>(path: string): Promise<T> => (await fetch(url + path)).json() as Promise<T>
  const [chain] = (await read<Config>('/api/v1/config')).chains
  if (chain === undefined) throw new Error('the exchange has no chain configured')
  const verifyingContract = toAddress(chain.contracts.settlement)
  const markets = (await read<Markets>('/api/v1/markets')).markets.map(({ id }) => id)
  const traders = Array.from({ length: 100 }, () => makeTrader())
  return {
    markets,
    sign: (count: number, among = markets) =>
      signOrders({
        ...{ count, traders, markets: among },
        domain: { chainId: chain.chainId, verifyingContract },
      }),
  }
}

function requestOf(signed: SignedOrder): Request {
  return writeRequest('POST', '/api/v1/orders', JSON.stringify(signed))
}

/** Returns the processor time that nodes use while nothing happens, in microseconds per second. */
async function idleOf(nodes: readonly Exchange[]): Promise<number> {
  await untilQuiet(nodes)
  const before = nodes.map(cpuUsOf)
  await pause(IDLE_MS)
  const after = nodes.map(cpuUsOf)
  return (sum(after) - sum(before)) / (IDLE_MS / 1_000)
}

/** Waits until the nodes use little CPU time, because the projection continues to work after the last order. */
async function untilQuiet(nodes: readonly Exchange[]): Promise<void> {
  for (let quietTurns = 0; quietTurns < 2; ) {
    const before = sum(nodes.map(cpuUsOf))
    await pause(500)
    quietTurns = sum(nodes.map(cpuUsOf)) - before < 40_000 * nodes.length ? quietTurns + 1 : 0
  }
}

const sum = (values: readonly number[]): number => values.reduce((all, each) => all + each, 0)

async function measureOrders(markets: number): Promise<void> {
  progress(`cluster: orders with ${markets} market nodes`)
  await withCluster({ fronts: 1, markets }, async (cluster) => {
    const [front] = cluster.fronts as [Exchange]
    const all = [front, ...cluster.markets, cluster.rest]
    const { sign } = await tradingAt(front.url)
    const driver = await openDriver(front.url, CONNECTIONS)
    const place = (count: number) =>
      driver.closedLoop(sign(count).map(requestOf), ({ status, body }) => {
        if (status !== 200) throw new Error(`${status}: ${body}`)
      })
    await place(ORDERS / 2)
    const idle = await idleOf(all)
    const groups = [[front], cluster.markets, [cluster.rest]]
    const before = groups.map((group) => sum(group.map(cpuUsOf)))
    const bytesBefore = await cluster.natsBytes()
    const beganMs = performance.now()
    const elapsedMs = await place(ORDERS)
    await untilQuiet(all)
    const seconds = (performance.now() - beganMs) / 1_000
    const spent = groups.map((group, at) => sum(group.map(cpuUsOf)) - before[at]!)
    const bytes = (await cluster.natsBytes()) - bytesBefore
    driver.close()
    const per = (us: number): string => (us / ORDERS).toFixed(0)
    const [ofFront = 0, ofMarkets = 0, ofRest = 0] = spent
    const net = sum(spent) - idle * seconds
    say(
      `${markets} market node${markets > 1 ? 's' : ''}: ${per(net)} µs of CPU per accepted order ` +
        `(front ${per(ofFront)}, market ${per(ofMarkets)}, rest ${per(ofRest)}, of all ` +
        `${(idle / 1_000).toFixed(0)} ms a second for nothing taken off), ` +
        `${per(bytes)} bytes over NATS per order, ${Math.round((ORDERS * 1_000) / elapsedMs)} orders/s`,
    )
  })
}

async function measureStream(count: number): Promise<void> {
  progress(`cluster: the stream with ${count} fronts`)
  await withCluster({ fronts: count, markets: 1 }, async ({ fronts, markets, rest }) => {
    const { sign, markets: known } = await tradingAt(fronts[0]!.url)
    const [market] = known as [MarketId]
    const place = async (signed: readonly SignedOrder[]): Promise<void> => {
      for (const one of signed) {
        const response = await fetch(`${fronts[0]!.url}/api/v1/orders`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(one),
        })
        if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
      }
    }
    await place(sign(CHANGES, [market]))
    const cost = async (work: () => Promise<void>): Promise<number> => {
      const idle = await idleOf(fronts)
      const before = sum(fronts.map(cpuUsOf))
      const beganMs = performance.now()
      await work()
      await untilQuiet([...fronts, ...markets, rest])
      const seconds = (performance.now() - beganMs) / 1_000
      return sum(fronts.map(cpuUsOf)) - before - idle * seconds
    }
    // Measures the cost of the orders alone, without stream readers. It is subtracted later from the cost with readers.
    const bare = await cost(() => place(sign(CHANGES, [market])))
    const rssBefore = sum(fronts.map(rssOf))
    const readers = fronts.map(() => startProcess('./stream-readers.ts'))
    try {
      await Promise.all(
        readers.map((each, at) =>
          askReaders(each, {
            ...{ open: SOCKETS, port: Number(new URL(fronts[at]!.url).port) },
            request: followBook(market, 0),
          }),
        ),
      )
      const bytes = (sum(fronts.map(rssOf)) - rssBefore) / (SOCKETS * count)
      const beside = await cost(async () => {
        const told = readers.map((each) => askReaders(each, { expect: CHANGES }))
        await place(sign(CHANGES, [market]))
        await Promise.all(told)
      })
      const delivered = CHANGES * SOCKETS * count
      say(
        `${count} front${count > 1 ? 's' : ''}: ${((beside - bare) / delivered).toFixed(2)} µs of CPU per ` +
          `delivered message of the stream, ${SOCKETS} sockets each, ` +
          `${(bytes / 1_024).toFixed(1)} KiB of memory per socket`,
      )
    } finally {
      for (const each of readers) await stopProcess(each)
    }
  })
}

type Order = Record<string, string | number>
type Peer = { PlaceOrder: { takes: Order; answers: { orderHash: string } } }

const hex = (bytes: number): string => `0x${randomBytes(bytes).toString('hex')}`

async function measureBridge(): Promise<void> {
  const nats = await openNats()
  const entry = new URL('./bridge-peer.ts', import.meta.url)
  const books = new Worker(entry, {
    workerData: { url: nats.url, node: 'books', offers: ['store'] },
  })
  const gate = new Worker(entry, { workerData: { url: nats.url, node: 'gate', offers: [] } })
  const beside = new Worker(new URL('./channel-peer.ts', import.meta.url))
  const { port1, port2 } = new MessageChannel()
  beside.postMessage(port2, [port2])
  const options = { inFlightMax: 2 * IN_FLIGHT, batchMax: 128, deadlineMs: 30_000 }
  // Replaces the link when a new port arrives. On a busy machine a node may get no processor for a second. The other
  // node then treats it as dead, and the link is opened again.
  let bridged: Channel<Peer> | undefined
  gate.on('message', (port: MessagePort) => {
    bridged = new Channel<Peer>(port, options, { received() {} })
  })
  const inProcess = new Channel<Peer>(port1, options, { received() {} })
  const orders = Array.from({ length: 10_000 }, (_, index) => ({
    ...{ orderHash: hex(32), marketId: hex(32), trader: hex(20), side: index % 2, outcome: 0 },
    ...{ price: 1 + index, size: 1_000_000 + index, nonce: String(index), signature: hex(65) },
    ...{ expiration: '1900000000', makerFeeRecipient: `0x${'0'.repeat(40)}` },
  }))
  // Returns the processor time of all threads of this process and of the NATS server.
  const spentUs = (): number => {
    const { user, system } = process.cpuUsage()
    return user + system + cpuUsOf(nats)
  }
  const through = async (channel: () => Channel<Peer> | undefined): Promise<number> => {
    let sent = 0
    const beganMs = performance.now()
    const before = spentUs()
    const lane = async (): Promise<void> => {
      while (sent < BRIDGED) {
        const order = orders[sent++ % orders.length]!
        for (let got = ''; got !== order.orderHash; ) {
          const answer = await channel()?.ask('PlaceOrder', order)
          if (answer !== undefined && 'orderHash' in answer) got = answer.orderHash
          else await pause(10)
        }
      }
    }
    await Promise.all(Array.from({ length: IN_FLIGHT }, lane))
    const ms = performance.now() - beganMs
    rates.get(channel)?.push((BRIDGED * 1e6) / (spentUs() - before))
    return (BRIDGED * 1_000) / ms
  }
  const [ours, theirs] = [() => bridged, () => inProcess]
  const rates = new Map([ours, theirs].map((each) => [each, [] as number[]]))
  const result = await runBench({
    ...{ bench: 'cluster', unit: 'orders/s through two bridges and NATS' },
    ...{ peer: 'the same channel between two threads', bar: 0.2 },
    ours: () => through(ours),
    theirs: () => through(theirs),
  })
  bridged?.close()
  inProcess.close()
  await Promise.all([books, gate, beside].map((worker) => worker.terminate()))
  await nats.dispose()
  const [over, between] = [ours, theirs].map((each) => Math.round(median(rates.get(each) ?? [])))
  say(
    `per CPU second, in messages of 128: ${over} orders over NATS, ${between} between two threads`,
  )
  report(result)
}

needFiles(3 * SOCKETS + 1_000)
const only = process.argv.find((word) => ['--orders', '--stream', '--bridge'].includes(word))
if (only === undefined || only === '--orders') for (const n of [1, 2, 3]) await measureOrders(n)
if (only === undefined || only === '--stream') for (const n of [1, 2, 3]) await measureStream(n)
if (only === undefined || only === '--bridge') await measureBridge()
