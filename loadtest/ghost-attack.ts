/**
 * `npm run soak -- ghosts`: wallets without funds buy everything that three honest makers offer, as fast as the rate
 * limits allow. Honest traders continue to trade meanwhile. Trades settle on a real chain that only this test uses.
 *
 *   --funds off|reserve   whether the exchange reserves funds before it matches; reserve is the default
 *   --wallets 2           number of wallets without funds, each with its own client address; 0 measures
 *                         honest orders without attackers
 *   --minutes 10
 *   --cooldown 0          the first pause of a trader at fault, in seconds
 *
 * The last line is the result: the orders and matches of the wallets, and how long the makers' offers were missing from
 * the book. It also contains the latencies and rejections of honest orders, and the gas of trades that failed on chain.
 * The run fails (exit code 1) if an honest order was rejected or a trade failed on chain. It also fails if a wallet was
 * matched although funds are reserved.
 */

import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { type Hex, parseAbiItem } from 'viem'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { openSettled } from '../test/support/settled.ts'
import type { GhostResult, GhostWork } from './ghost-wallets.ts'
import { Histogram } from './histogram.ts'
import { watchOffers } from './offers-away.ts'

function option(name: string, usual: string): string {
  const at = process.argv.indexOf(`--${name}`)
  return at > 0 ? (process.argv[at + 1] ?? usual) : usual
}

const FUNDS = option('funds', 'reserve')
const WALLETS = Number(option('wallets', '2'))
const MINUTES = Number(option('minutes', '10'))
const COOLDOWN = option('cooldown', '0')
const MAKERS = [10, 11, 12] as const
const TAKER = 13
const WATCHER = 14
/** Prices at which each maker offers. */
const OFFERS = ['0.51', '0.52', '0.53'] as const
const OFFER_SIZE = '5'
const OFFERED = MAKERS.length * OFFERS.length * 5_000_000
const TRADE_REJECTED = parseAbiItem(
  'event TradeRejected(bytes32 indexed tradeId, bytes32 indexed buyHash, bytes32 indexed sellHash, uint8 fault, uint8 reason)',
)

const s = await openSettled({
  environment: {
    SIBYL_RISK_FUNDS: FUNDS,
    SIBYL_RISK_COOLDOWN_SECONDS: COOLDOWN,
    SIBYL_LIMITS: 'true',
    SIBYL_TRUSTED_PROXIES: '127.0.0.1',
    SIBYL_ALLOW_OPEN_WRITES: 'true',
    SIBYL_SETTLEMENT_BATCH_WAIT_MS: '50',
    SIBYL_SETTLEMENT_POLL_MS: '200',
    SIBYL_INDEXER_POLL_MS: '200',
    SIBYL_LOG_LEVEL: 'error',
  },
})
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const clientFrom = (signer: string, address: string, retries = 0) =>
  createClient({
    ...{ url: s.exchange.url, signer: signer as Hex, retries },
    headers: () => ({ 'x-forwarded-for': address }),
  })
const order = (side: 'buy' | 'sell', price: string, size: string) => ({
  ...{ marketId: s.marketId, outcome: 'YES' as const, ttlSeconds: 7_200 },
  ...{ side, price, size },
})
const honest = { placed: 0, refused: new Map<string, number>(), placing: new Histogram() }
const NO_GHOSTS: GhostResult = { accepted: 0, matched: 0, refused: {} }
const count = (into: Map<string, number>, error: unknown): void => {
  const code = error instanceof SibylError ? error.code : String(error)
  into.set(code, (into.get(code) ?? 0) + 1)
}

try {
  for (const maker of MAKERS) {
    // Retries the first orders: the exchange has just started, so its first read of the chain may still be in progress.
    const client = clientFrom(devnetKey(maker), `10.1.0.${maker}`, 10)
    for (const price of OFFERS) await client.orders.place(order('sell', price, OFFER_SIZE))
  }
  const endMs = performance.now() + MINUTES * 60_000
  const isOver = () => performance.now() > endMs

  const offers = await watchOffers(clientFrom(devnetKey(WATCHER), '10.1.0.99'), {
    marketId: s.marketId,
    offered: OFFERED,
  })

  /** Places an order far from the market and cancels it, to measure how long an honest order takes. */
  const place = async (account: number, address: string, everyMs: number) => {
    const client = clientFrom(devnetKey(account), address)
    while (!isOver()) {
      const begunMs = performance.now()
      try {
        const placed = await client.orders.place(order('buy', '0.05', '1'))
        honest.placing.recordMs(performance.now() - begunMs)
        honest.placed++
        await client.orders.cancel({ ...placed, marketId: s.marketId })
      } catch (error) {
        count(honest.refused, error)
      }
      await pause(everyMs)
    }
  }
  /** Buys a little as an honest trader and sells it back: these trades have to settle. */
  const trade = async () => {
    const client = clientFrom(devnetKey(TAKER), '10.1.0.98')
    while (!isOver()) {
      try {
        await client.orders.place(order('sell', '0.50', '0.1'))
        await clientFrom(devnetKey(15), '10.1.0.97').orders.place(order('buy', '0.50', '0.1'))
        honest.placed += 2
      } catch (error) {
        count(honest.refused, error)
      }
      await pause(2_000)
    }
  }
  /** In another process. */
  const attack = async (): Promise<GhostResult> => {
    const child = fork(new URL('./ghost-wallets.ts', import.meta.url))
    const work: GhostWork = {
      ...{ url: s.exchange.url, wallets: WALLETS, minutes: MINUTES },
      marketId: s.marketId as MarketId,
      domain: {
        chainId: s.chain.settings.chainId,
        verifyingContract: toAddress(s.chain.contracts.settlement),
      },
    }
    child.send(work)
    const ended = once(child, 'exit')
    const [result] = await Promise.race([
      once(child, 'message'),
      ended.then(() => assert.fail('the attackers ended early')),
    ])
    await ended
    return result as GhostResult
  }
  const attacked = WALLETS > 0 ? attack() : NO_GHOSTS
  await Promise.all([place(16, '10.1.0.16', 250), place(17, '10.1.0.17', 250), trade()])
  const ghosts = await attacked
  // Also waits until the last matched trades have settled or failed.
  const pending = async () => (await s.get<{ count: number }>('/api/v1/pending-trades')).count
  for (let waits = 0; waits < 600 && (await pending()) > 0; waits++) await pause(100)
  const offersAway = offers.end()

  const logs = await s.chain.publicClient.getLogs({
    address: s.chain.contracts.settlement as Hex,
    event: TRADE_REJECTED,
    fromBlock: 0n,
  })
  let gas = 0n
  for (const hash of new Set(logs.map(({ transactionHash }) => transactionHash))) {
    gas += (await s.chain.publicClient.getTransactionReceipt({ hash })).gasUsed
  }
  const settled = [...(await s.settledTimes()).keys()].length
  const result = {
    ...{ soak: 'ghosts', funds: FUNDS, wallets: WALLETS, minutes: MINUTES, cooldown: COOLDOWN },
    ghosts,
    honest: {
      placed: honest.placed,
      refused: Object.fromEntries(honest.refused),
      p50Ms: Number(honest.placing.quantileMs(0.5).toFixed(1)),
      p99Ms: Number(honest.placing.quantileMs(0.99).toFixed(1)),
    },
    offersAway,
    trades: { settled, refusedOnChain: logs.length, gasOfTheirTransactions: Number(gas) },
    pending: await pending(),
  }
  process.stdout.write(`${JSON.stringify(result)}\n`)
  const isBad =
    honest.refused.size > 0 || logs.length > 0 || (FUNDS === 'reserve' && ghosts.matched > 0)
  if (isBad) process.exitCode = 1
} finally {
  await s.dispose()
}
