/**
 * `npm run soak -- honest`: the funded demo traders place and cancel orders and trade with each other at an exchange
 * that reserves funds. Trades settle on a real chain that only this test uses. Every trade must settle exactly once.
 * Half of the orders are in a complementary market, where trades may also mint and merge shares.
 *
 *   --minutes 10
 *   --every 200     milliseconds between two orders of one trader
 *
 * The last line is the result. The run fails (exit code 1) if a trade failed, was left pending or settled twice. It
 * fails if funds stay reserved after all orders have ended. It also fails if an order was rejected, unless all funds of
 * its trader were reserved.
 */

import assert from 'node:assert/strict'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { BUY } from '#domain/order.ts'
import { eventually } from '../test/support/eventually.ts'
import { openSettled } from '../test/support/settled.ts'
import { Histogram } from './histogram.ts'

function option(name: string, usual: string): number {
  const at = process.argv.indexOf(`--${name}`)
  return Number(at > 0 ? (process.argv[at + 1] ?? usual) : usual)
}

const MINUTES = option('minutes', '10')
const EVERY_MS = option('every', '200')
const TRADERS = [10, 11, 12, 13, 14, 15, 16, 17] as const
/** Error codes that a trader may receive when all their funds are reserved. */
const SHORT: ReadonlySet<string> = new Set(['INSUFFICIENT_FUNDS', 'INSUFFICIENT_ALLOWANCE'])
const DRAIN_LOOKS = 600

const s = await openSettled({
  environment: {
    SIBYL_RISK_FUNDS: 'reserve',
    SIBYL_SETTLEMENT_BATCH_WAIT_MS: '50',
    SIBYL_SETTLEMENT_POLL_MS: '200',
    SIBYL_INDEXER_POLL_MS: '200',
    SIBYL_LIMITS: 'false',
    SIBYL_LOG_LEVEL: 'error',
  },
})
const complementaryId = (await s.chain.createMarket({ complementary: true })).id as string
const MARKETS = [s.marketId, complementaryId]
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const anyOf = <Value>(values: readonly Value[]): Value =>
  values[Math.floor(Math.random() * values.length)]!
const placing = new Histogram()
const refused = new Map<string, number>()
let placed = 0
let cancelled = 0

async function trade(account: number, endMs: number): Promise<void> {
  const client = createClient({ url: s.exchange.url, signer: devnetKey(account), retries: 3 })
  while (performance.now() < endMs) {
    const begunMs = performance.now()
    const side = Math.random() < 0.5 ? 'buy' : 'sell'
    const [marketId, outcome] = [anyOf(MARKETS), anyOf(['YES', 'NO'] as const)]
    try {
      const order = await client.orders.place({
        ...{ marketId, outcome, ttlSeconds: 7_200 },
        side,
        price: (0.45 + Math.floor(Math.random() * 11) / 100).toFixed(2),
        size: (0.1 + Math.random()).toFixed(2),
      })
      placing.recordMs(performance.now() - begunMs)
      placed++
      if (Math.random() < 0.2) {
        await client.orders.cancel({ ...order, side, marketId })
        cancelled++
      }
    } catch (error) {
      const code = error instanceof SibylError ? error.code : String(error)
      // `ORDER_CLOSED` is expected: the order may have been filled before its cancel arrived.
      if (code !== 'ORDER_CLOSED') refused.set(code, (refused.get(code) ?? 0) + 1)
    }
    await pause(EVERY_MS)
  }
  for (let open = await client.orders.list(); open.length > 0; open = await client.orders.list()) {
    for (const { orderHash, marketId, side } of open) {
      const order = { orderHash, marketId, side: side === BUY ? 'buy' : 'sell' } as const
      // The order may have been filled before its cancel arrives.
      await client.orders.cancel(order).catch((error: unknown) => {
        if (!(error instanceof SibylError && error.code === 'ORDER_CLOSED')) throw error
      })
    }
  }
}

try {
  await eventually(async () => {
    const { status } = await s.get<{ status: string }>(`/api/v1/markets/${complementaryId}`)
    assert.equal(status, 'open')
  })
  const endMs = performance.now() + MINUTES * 60_000
  await Promise.all(TRADERS.map((account) => trade(account, endMs)))
  const pending = async () => (await s.get<{ count: number }>('/api/v1/pending-trades')).count
  for (let looks = 0; looks < DRAIN_LOOKS && (await pending()) > 0; looks++) await pause(200)
  const failed = (await s.get<{ count: number }>('/api/v1/failed-trades')).count
  const times = [...(await s.settledTimes()).values()]
  const { trades: newest } = await s.get<{ trades: { kind?: string }[] }>(
    `/api/v1/trades/${complementaryId}`,
  )
  const kinds = Object.groupBy(newest, ({ kind = 'trade' }) => kind)
  let reserved = 0n
  for (const account of TRADERS) {
    const { tokens } = await s.clientOf(account).funds()
    for (const { reservedForOrders, reservedForTrades } of tokens) {
      reserved += BigInt(reservedForOrders) + BigInt(reservedForTrades)
    }
  }
  const result = {
    ...{ soak: 'honest', funds: 'reserve', traders: TRADERS.length, minutes: MINUTES },
    orders: {
      ...{ placed, cancelled, refused: Object.fromEntries(refused) },
      p50Ms: Number(placing.quantileMs(0.5).toFixed(1)),
      p99Ms: Number(placing.quantileMs(0.99).toFixed(1)),
    },
    trades: {
      settled: times.length,
      settledTwice: times.filter((each) => each > 1).length,
      failed,
      pending: await pending(),
      newestKinds: Object.fromEntries(
        Object.entries(kinds).map(([kind, trades = []]) => [kind, trades.length]),
      ),
    },
    reservedAtTheEnd: String(reserved),
  }
  process.stdout.write(`${JSON.stringify(result)}\n`)
  const isBad =
    failed > 0 ||
    result.trades.pending > 0 ||
    result.trades.settledTwice > 0 ||
    times.length === 0 ||
    kinds.mint === undefined ||
    reserved > 0n ||
    [...refused.keys()].some((code) => !SHORT.has(code))
  if (isBad) process.exitCode = 1
} finally {
  await s.dispose()
}
