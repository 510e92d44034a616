/**
 * A long run of a real exchange with two fronts. Its stream clients often lose their connections and reconnect to
 * either front. From time to time the flow of orders stops. Then every local book must equal the book of the exchange,
 * and every client must have received the newest trades. If anything differs, a client has missed a message without
 * noticing: an unnoticed gap.
 *
 * The run fails with exit code 1 after an unnoticed gap, after a checksum error, or if memory keeps growing. The last
 * line of the output is the result. `--minutes 10` is the default.
 */

import { privateKeyToAccount } from 'viem/accounts'
import { createClient } from '#client/client.ts'
import { createStream } from '#client/stream.ts'
import type { StreamEvents } from '#client/stream-types.ts'
import { openExchange } from '../test/support/exchange.ts'
import { openResident, slopeOf } from './resident.ts'

const at = process.argv.indexOf('--minutes')
const MINUTES = at > 0 ? Number(process.argv[at + 1]) : 10
const CLIENTS = 40
const ROUND_SECONDS = Math.min(20, MINUTES * 10)
/** Number of newest trades that every client must have received. */
const TRADES_COMPARED = 50
/** Number of trades that a client of this run remembers. */
const TRADES_KEPT = 1_000
/** Share of the run, from its start, in which growth of the memory is ignored, because caches and pools fill. */
const WARM_SHARE = 0.3
/** Maximum growth of the resident memory that counts as flat, in MiB per minute. */
const SLOPE_MAX = 5

const exchange = await openExchange({
  environment: { SIBYL_FRONT_THREADS: '2', SIBYL_LIMITS: 'false', SIBYL_LOG_LEVEL: 'error' },
})
const { url } = exchange

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

const residentMiB = await openResident(exchange.dataDir)
const reader = createClient({ url })
const markets = (await reader.markets()).map(({ id }) => id)
const traders = [1, 2, 3].map((number) => {
  const key = `0x${number.toString(16).padStart(64, '0')}` as const
  return createClient({ url, signer: privateKeyToAccount(key) })
})

const counts: Partial<Record<keyof StreamEvents, number>> = {}
let resumes = 0
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
  stream.on('subscribed', (news) => {
    if (news.resumed) resumes++
  })
  const marketId = markets[index % markets.length]!
  const outcome = index % 2 === 0 ? 'YES' : 'NO'
  const { book } =
    index % 4 === 3
      ? stream.book({ marketId, outcome, maxHz: 10 })
      : stream.book({ marketId, outcome })
  const trades = new Set<string>()
  const remember = (tradeId: string): void => {
    trades.add(tradeId)
    for (const oldest of trades) {
      if (trades.size <= TRADES_KEPT) break
      trades.delete(oldest)
    }
  }
  stream.trades(marketId, (message) => {
    if (message.type === 'trade') remember(message.tradeId)
    if (message.type === 'trades.snapshot') for (const one of message.trades) remember(one.tradeId)
  })
  return { stream, marketId, outcome, book, trades } as const
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

/** Returns the clients whose data differs from the exchange's after the last messages have arrived. */
async function differences(): Promise<string[]> {
  let wrong: string[] = []
  for (let attempt = 0; attempt < 100; attempt++) {
    await pause(100)
    wrong = []
    for (const { marketId, outcome, book, trades } of clients) {
      const { bids, asks } = await reader.orderbook(marketId, outcome)
      const text = (levels: typeof bids) =>
        levels.map(({ price, size }) => `${price}:${size}`).join()
      const isSame = text(book.bids()) === text(bids) && text(book.asks()) === text(asks)
      if (!isSame) wrong.push(`book ${marketId.slice(0, 10)} ${outcome} at ${book.seq}`)
      for (const { tradeId } of (await reader.trades(marketId)).slice(0, TRADES_COMPARED)) {
        if (!trades.has(tradeId)) wrong.push(`trade ${tradeId}`)
      }
    }
    if (wrong.length === 0) break
  }
  return wrong
}

const beganMs = performance.now()
const minutesNow = (): number => (performance.now() - beganMs) / 60_000
const samples: [minute: number, mib: number][] = []
let stops = 0
let unnoticed: string[] = []
try {
  while (minutesNow() < MINUTES && unnoticed.length === 0) {
    flowing = true
    const works = [...traders.map(flow), cut()]
    await pause(ROUND_SECONDS * 1_000)
    flowing = false
    await Promise.all(works)
    unnoticed = await differences()
    stops++
    samples.push([minutesNow(), await residentMiB()])
    process.stdout.write(
      `minute ${minutesNow().toFixed(1)}: ${placed} orders, ${samples.at(-1)![1].toFixed(0)} MiB, ` +
        `${resumes} resumed, ${JSON.stringify(counts)} ${unnoticed.join('; ')}\n`,
    )
  }
} finally {
  for (const { stream } of clients) stream.close()
  await exchange.dispose()
}
const warm = samples.filter(([minute]) => minute >= WARM_SHARE * MINUTES)
const slope = slopeOf(warm)
const result = {
  soak: 'stream',
  minutes: Number(minutesNow().toFixed(1)),
  clients: CLIENTS,
  orders: placed,
  reconnects: (counts.open ?? 0) - CLIENTS,
  resumed: resumes,
  comparedAtStops: stops,
  unnoticedGaps: unnoticed.length,
  checksumErrors: counts.checksum ?? 0,
  gapsNoticed: counts.gap ?? 0,
  resets: counts.reset ?? 0,
  residentMiB: { first: Math.round(warm[0]?.[1] ?? 0), last: Math.round(warm.at(-1)?.[1] ?? 0) },
  slopeMiBPerMinute: Number(slope.toFixed(2)),
  slopeMax: SLOPE_MAX,
}
process.stdout.write(`${JSON.stringify(result)}\n`)
const held = unnoticed.length === 0 && result.checksumErrors === 0 && !(slope > SLOPE_MAX)
process.exit(held ? 0 : 1)
