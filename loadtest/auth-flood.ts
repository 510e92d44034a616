/**
 * `npm run bench -- auth-flood`: 220 WebSockets of one address send `auth` with well-formed tokens of keys that do not
 * exist, while another address places 140 valid orders with a bearer token each. Prints how many of the orders failed
 * and why, how long placing took, and how many lines of errors were logged. Exits with 1 if an order failed.
 * `--database mysql://…` names an empty database to use instead of SQLite.
 */

import { randomBytes } from 'node:crypto'
import { WebSocket } from 'ws'
import { registerApiKey } from '#client/api-keys.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { openExchange } from '../test/support/exchange.ts'
import { mintToken, tokenKeyOf } from './bearer-tokens.ts'
import { progress } from './bench.ts'
import { Histogram } from './histogram.ts'
import { openDriver, writeRequest } from './http-driver.ts'
import { makeTrader, signOrders } from './signed-orders.ts'

const SOCKETS = 220
/**
 * Number of frames that each socket sends in one burst. All sockets send at the same time, and pause for `PULSE_MS`
 * between two bursts. The exchange accepts no higher rate.
 */
const FRAMES_AT_ONCE = 200
const PULSE_MS = 4_000
const TOKENS = 60_000
const OPEN_MS_MAX = 20_000
const ORDERS = 140
const ORDERS_PER_SECOND = 14
const STRANGER = '127.0.0.2'
const WALLET = `0x${'0'.repeat(62)}0b` as const

const at = process.argv.indexOf('--database')
const databaseUrl = at < 0 ? undefined : process.argv[at + 1]

const exchange = await openExchange({
  outputCharsMax: 100_000_000,
  environment: {
    SIBYL_LOG_LEVEL: 'info',
    SIBYL_AUTH_BEARER: 'true',
    SIBYL_LIMITS: 'true',
    SIBYL_REQUEST_DEADLINE_MS: '10000',
    SIBYL_STREAM_CONNECTIONS_PER_IP: '1000',
    ...(databaseUrl === undefined ? {} : { SIBYL_DATABASE_URL: databaseUrl }),
  },
})

type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
type Markets = { markets: { id: MarketId }[] }

async function read<T>(path: string): Promise<T> {
  return (await fetch(exchange.url + path)).json() as Promise<T>
}

/** Tokens that are valid except that their keys do not exist. They are made in advance, so that sending is cheap. */
const { privateKey } = tokenKeyOf('', randomBytes(32).toString('hex'))
const tokens = Array.from({ length: TOKENS }, () =>
  mintToken({ id: randomBytes(16).toString('hex'), privateKey }),
)

let flooding = true
let frames = 0
const answers: Record<string, number> = {}

const sockets = new Set<WebSocket>()

/** Opens a socket that sends at the same time as the others, and reopens it when it closes. */
function stranger(): void {
  const socket = new WebSocket(`${exchange.url.replace('http', 'ws')}/api/v1/stream`, {
    localAddress: STRANGER,
  })
  socket.on('open', () => sockets.add(socket))
  socket.on('message', (data) => {
    const { code } = JSON.parse(String(data)) as { code?: string }
    if (code !== undefined) answers[code] = (answers[code] ?? 0) + 1
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    sockets.delete(socket)
    if (flooding) setTimeout(stranger, 1_000)
  })
}

function pulse(): void {
  if (!flooding) return
  for (const socket of sockets) {
    for (let frame = 0; frame < FRAMES_AT_ONCE; frame++) {
      frames++
      socket.send(JSON.stringify({ op: 'auth', id: frames, token: tokens[frames % TOKENS] }))
    }
  }
  setTimeout(pulse, PULSE_MS)
}

try {
  const [chain] = (await read<Config>('/api/v1/config')).chains
  if (chain === undefined) throw new Error('the exchange has no chain configured')
  const verifyingContract = chain.contracts.settlement.toLowerCase() as Address
  const markets = (await read<Markets>('/api/v1/markets')).markets.map(({ id }) => id)
  const key = await registerApiKey({ url: exchange.url }, WALLET)
  const tokenKey = tokenKeyOf(key.id, key.privateKey)
  const orders = signOrders({
    count: ORDERS,
    traders: [makeTrader()],
    markets,
    domain: { chainId: chain.chainId, verifyingContract },
  })
  const requests = orders.map((order) =>
    writeRequest('POST', '/api/v1/orders', JSON.stringify(order), {
      authorization: `Bearer ${mintToken(tokenKey)}`,
    }),
  )
  progress('strangers come')
  for (let socket = 0; socket < SOCKETS; socket++) stranger()
  const openBy = performance.now() + OPEN_MS_MAX
  while (sockets.size < SOCKETS && performance.now() < openBy) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const driver = await openDriver(exchange.url, 8)
  pulse()
  const latencies = new Histogram()
  const failures: Record<string, number> = {}
  let failed = 0
  await driver.openLoop(requests, ORDERS_PER_SECOND, ({ status, body, latencyMs }) => {
    if (status === 200) latencies.recordMs(latencyMs)
    else {
      const name = `${status} ${/"code":"(\w+)"/.exec(body)?.[1] ?? body}`
      failures[name] = (failures[name] ?? 0) + 1
      failed++
    }
  })
  flooding = false
  driver.close()
  const lines = exchange.output().split('\n')
  const errorLines = lines.filter((line) => /"level":(50|"error")/.test(line)).length
  const p50Ms = Math.round(latencies.quantileMs(0.5) * 10) / 10
  process.stdout.write(
    `${JSON.stringify({ orders: ORDERS, failed, failures, p50Ms, frames, answers, errorLines })}\n`,
  )
  if (failed > 0) process.exitCode = 1
} finally {
  await exchange.dispose()
  // Exits without waiting for sockets that are still closing.
  process.exit()
}
