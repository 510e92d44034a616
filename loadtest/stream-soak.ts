/**
 * A long run of a real exchange with stream clients that lose their connections all the time. From
 * time to time the flow of orders stops, and every local book must be the exchange's; a difference is
 * a gap that nobody noticed, and ends the run with 1. Memory is reported at each stop, so that it can
 * be seen to stay flat. `--minutes 10` is the default.
 */

import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { privateKeyToAccount } from 'viem/accounts'
import { createClient } from '#client/client.ts'
import { createStream, type StreamEvents } from '#client/stream.ts'

const at = process.argv.indexOf('--minutes')
const MINUTES = at > 0 ? Number(process.argv[at + 1]) : 10
const CLIENTS = 40
const ROUND_SECONDS = Math.min(20, MINUTES * 10)
const OPEN = /is open \(\w+\) at (http:\/\/\S+)/

const root = fileURLToPath(new URL('..', import.meta.url))
const dataDir = await mkdtemp(join(tmpdir(), 'sibyl-soak-'))
const exchange = spawn(process.execPath, ['src/main.ts'], {
  cwd: root,
  env: {
    ...process.env,
    SIBYL_PORT: '0',
    SIBYL_DATA_DIR: dataDir,
    SIBYL_DEVNET: 'false',
    SIBYL_LOG_FORMAT: 'json',
    SIBYL_FRONT_THREADS: '1',
  },
  stdio: ['ignore', 'pipe', 'inherit'],
})
const url = await new Promise<string>((resolve, reject) => {
  let said = ''
  exchange.stdout.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-10_000)
    const found = OPEN.exec(said)?.[1]
    if (found !== undefined) resolve(found)
  })
  exchange.once('exit', (code) => reject(new Error(`the exchange ended with ${code}: ${said}`)))
})

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function residentMiB(): Promise<number> {
  const status = await readFile(`/proc/${exchange.pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / 1_024
}

const reader = createClient({ url })
const markets = (await reader.markets()).map(({ id }) => id)
const traders = [1, 2, 3].map((number) => {
  const key = `0x${number.toString(16).padStart(64, '0')}` as const
  return createClient({ url, signer: privateKeyToAccount(key) })
})

const counts: Partial<Record<keyof StreamEvents, number>> = {}
const sockets = new Set<WebSocket>()
class Counted extends WebSocket {
  constructor(address: string | URL) {
    super(address)
    sockets.add(this)
    this.addEventListener('close', () => sockets.delete(this))
  }
}

const clients = Array.from({ length: CLIENTS }, (_, index) => {
  const stream = createStream({ url, backoffMs: 50, backoffMsMax: 500, WebSocket: Counted })
  for (const event of ['open', 'reset', 'gap', 'checksum', 'lag', 'silent', 'error'] as const) {
    stream.on(event, () => {
      counts[event] = (counts[event] ?? 0) + 1
    })
  }
  const marketId = markets[index % markets.length]!
  const outcome = index % 2 === 0 ? 'YES' : 'NO'
  const { book } =
    index % 4 === 3
      ? stream.book({ marketId, outcome, maxHz: 10 })
      : stream.book({ marketId, outcome })
  return { stream, marketId, outcome, book } as const
})

let flowing = true
let placed = 0

async function flow(client: (typeof traders)[number]): Promise<void> {
  while (flowing) {
    const intents = Array.from({ length: 20 }, () => ({
      marketId: markets[Math.floor(Math.random() * markets.length)]!,
      side: Math.random() < 0.5 ? ('buy' as const) : ('sell' as const),
      outcome: Math.random() < 0.5 ? ('YES' as const) : ('NO' as const),
      price: 450_000 + Math.floor(Math.random() * 100) * 1_000,
      size: 1_000_000 + Math.floor(Math.random() * 5_000_000),
      ttlSeconds: 120,
    }))
    placed += (await client.orders.placeBatch(intents)).filter(({ ok }) => ok).length
  }
}

async function cut(): Promise<void> {
  while (flowing) {
    await pause(100)
    const all = [...sockets]
    all[Math.floor(Math.random() * all.length)]?.close()
  }
}

/** Whether every local book is the exchange's, once what is under way has arrived. */
async function differences(): Promise<string[]> {
  let wrong: string[] = []
  for (let attempt = 0; attempt < 100; attempt++) {
    await pause(100)
    wrong = []
    for (const { marketId, outcome, book } of clients) {
      const { bids, asks } = await reader.orderbook(marketId, outcome)
      const text = (levels: typeof bids) =>
        levels.map(({ price, size }) => `${price}:${size}`).join()
      const isSame = text(book.bids()) === text(bids) && text(book.asks()) === text(asks)
      if (!isSame) wrong.push(`${marketId.slice(0, 10)} ${outcome} at ${book.seq}`)
    }
    if (wrong.length === 0) break
  }
  return wrong
}

const endMs = performance.now() + MINUTES * 60_000
let failed = false
try {
  while (performance.now() < endMs && !failed) {
    flowing = true
    const works = [...traders.map(flow), cut()]
    await pause(ROUND_SECONDS * 1_000)
    flowing = false
    await Promise.all(works)
    const wrong = await differences()
    failed = wrong.length > 0
    const memory = `${(await residentMiB()).toFixed(0)} MiB`
    process.stdout.write(
      `${placed} orders, ${memory}, ${JSON.stringify(counts)} ${wrong.join('; ')}\n`,
    )
  }
} finally {
  for (const { stream } of clients) stream.close()
  exchange.kill('SIGTERM')
  await new Promise((resolve) => exchange.once('exit', resolve))
  await rm(dataDir, { recursive: true, force: true })
}
process.exit(failed || (counts.checksum ?? 0) > 0 ? 1 : 0)
