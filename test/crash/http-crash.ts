/**
 * Kills a whole exchange under load over HTTP, again and again, and checks its answers. Every accepted order
 * must exist, and submitting it again must return the first answer. Every unanswered order must be placed
 * exactly once when it is sent again. No share may be created or lost.
 */

import assert from 'node:assert/strict'
import { createClient } from '#client/client.ts'
import type { OrderSubmission } from '#client/order-submission.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import { complementOf } from '#domain/money.ts'
import { BUY } from '#domain/order.ts'
import { type OrderDomain, orderHash } from '#domain/order-hash.ts'
import { buyerLeg, sellerLeg } from '#domain/trade-legs.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { type OrderRecord, ordersByHash } from '#store/reads/orders.ts'
import { recentTrades } from '#store/reads/trades.ts'
import { eventually } from '../support/eventually.ts'
import { type Environment, type Exchange, openExchange } from '../support/exchange.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { demoMarketIds } from '../support/seeded-markets.ts'
import { DEVNET, signedOrder, type TestTrader, traderNumbered } from '../support/signed-orders.ts'

export type CrashReport = {
  kills: number
  accepted: number
  /** Number of orders without an answer: the process died, or answered that the outcome is unknown. */
  unanswered: number
  /** Number of unanswered orders that turned out to be in the book when they were sent again. */
  unansweredButIn: number
  cancelled: number
  /** Cancels without an answer. */
  cancelsUnanswered: number
  trades: number
  /** Time from the start of each process until it was ready, in milliseconds. */
  recoveriesMs: number[]
}

/** The known state of one order. */
export type Life = {
  readonly submission: OrderSubmission
  readonly orderHash: OrderHash
  readonly marketId: MarketId
  answer: { matches: number; timestamp: number } | undefined
  cancel: 'none' | 'cancelled' | 'closed' | 'unanswered'
}

/** Traders, and the markets in which they trade. */
export type Pit = {
  readonly traders: readonly TestTrader[]
  readonly markets: readonly MarketId[]
  readonly domain: OrderDomain
}

/** Three traders, and two of the demo markets, which need no chain. */
const PIT: Pit = {
  traders: [51, 52, 53].map(traderNumbered),
  markets: demoMarketIds().slice(0, 2),
  domain: DEVNET,
}
/** Requests under way at once. */
const LANES = 12
/** Minimum and maximum number of answers before the kill. */
const ANSWERS_MIN = 10
const ANSWERS_MAX = 90

export async function crashOverHttp(options: {
  readonly kills: number
  readonly seed: number
  readonly environment?: Environment
  readonly onRound?: (round: number, report: CrashReport) => void
}): Promise<CrashReport> {
  const random = randomFrom(options.seed)
  const report = newReport()
  const environment = options.environment ?? {}
  const exchange = await openExchange({ environment })
  const lives: Life[] = []
  try {
    for (let round = 0; round < options.kills; round++) {
      const batch = await makeOrders(random, ANSWERS_MAX + LANES)
      const used = await loadUntilKilled(exchange, batch, random)
      report.kills++
      const beganMs = performance.now()
      await exchange.start()
      report.recoveriesMs.push(performance.now() - beganMs)
      lives.push(...used)
      await holdToAnswers(exchange, used, report)
      options.onRound?.(round + 1, report)
    }
    await settleAccounts(exchange, lives, report)
    await exchange.stop()
    return report
  } catch (error) {
    const message = `TEST_SEED=${options.seed}: ${error}\n${exchange.output()}`
    throw new Error(message, { cause: error })
  } finally {
    await exchange.dispose()
  }
}

export function newReport(): CrashReport {
  return {
    kills: 0,
    accepted: 0,
    unanswered: 0,
    unansweredButIn: 0,
    cancelled: 0,
    cancelsUnanswered: 0,
    trades: 0,
    recoveriesMs: [],
  }
}

export async function makeOrders(random: Random, count: number): Promise<Life[]> {
  const lives: Life[] = []
  for (let at = 0; at < count; at++) lives.push(await makeOrder(random, PIT))
  return lives
}

export async function makeOrder(random: Random, pit: Pit): Promise<Life> {
  const { domain } = pit
  const marketId = random.pick(pit.markets)
  const side = random.int(0, 1)
  // Sell prices are on average a little above buy prices, and the two ranges overlap, so that about half of the orders
  // match.
  const price = 500_000 + random.int(-6, 4) * 1_000 + side * 2_000
  const fields = {
    side,
    outcome: random.int(0, 1),
    price,
    size: random.int(1, 5_000_000),
    nonce: String(BigInt(random.hex(8))),
  }
  const trader = random.pick(pit.traders)
  const submission = await signedOrder(marketId, fields, { trader, domain })
  return {
    submission,
    orderHash: orderHash(submission.order, domain),
    marketId,
    answer: undefined,
    cancel: 'none',
  }
}

/** Sends orders, several at the same time, and kills the process as soon as enough of them are answered. */
async function loadUntilKilled(
  exchange: Exchange,
  batch: readonly Life[],
  random: Random,
): Promise<Life[]> {
  const client = createClient({ url: exchange.url, retries: 0, timeoutMs: 120_000 })
  const killAfter = random.int(ANSWERS_MIN, ANSWERS_MAX)
  const used: Life[] = []
  const cancellable: Life[] = []
  let answers = 0
  let killed: Promise<void> | undefined

  async function lane(): Promise<void> {
    while (killed === undefined) {
      const life = batch[used.length]
      if (life === undefined) return
      used.push(life)
      await place(life)
      const victim = random.chance(0.2) ? cancellable.pop() : undefined
      if (victim !== undefined && killed === undefined) await cancel(victim)
    }
  }

  async function place(life: Life): Promise<void> {
    try {
      const placed = await client.orders.submit(life.submission)
      assert.equal(placed.orderHash, life.orderHash)
      assert.equal(placed.duplicate, undefined, 'it was sent once')
      life.answer = { matches: placed.matches, timestamp: placed.timestamp }
      cancellable.push(life)
      answers++
      if (answers === killAfter) killed = exchange.kill('SIGKILL')
    } catch (error) {
      assertLost(error, killed !== undefined)
    }
  }

  async function cancel(life: Life): Promise<void> {
    const side = life.submission.order.side === 0 ? 'buy' : 'sell'
    try {
      await client.orders.cancel({ orderHash: life.orderHash, marketId: life.marketId, side })
      life.cancel = 'cancelled'
    } catch (error) {
      if (error instanceof SibylError && error.code === 'ORDER_CLOSED') life.cancel = 'closed'
      else {
        assertLost(error, killed !== undefined)
        life.cancel = 'unanswered'
      }
    }
  }

  await Promise.all(Array.from({ length: LANES }, lane))
  assert.ok(killed !== undefined, 'there were orders enough to be killed among')
  await killed
  return used
}

/** Asserts that an order failed without an answer, which only a kill may cause. */
function assertLost(error: unknown, isKilled: boolean): void {
  assert.ok(error instanceof SibylError, String(error))
  const lost = error.code === 'NETWORK' || error.code === 'UNEXPECTED_ANSWER'
  assert.ok(isKilled && lost && error.outcomeUnknown, `${error.code}: ${error.message}`)
}

/** Checks all answers of the last round against the restarted exchange. */
export async function holdToAnswers(
  exchange: Pick<Exchange, 'url'>,
  lives: readonly Life[],
  report: CrashReport,
): Promise<void> {
  const client = createClient({ url: exchange.url, timeoutMs: 120_000 })
  await inLanes(lives, async (life) => {
    const { submission, answer } = life
    if (life.cancel === 'unanswered') report.cancelsUnanswered++
    const again = await client.orders.submit(submission).catch((error: unknown) => {
      const gone = error instanceof SibylError && error.code === 'ORDER_CLOSED'
      const mayBeGone = life.cancel === 'cancelled' || life.cancel === 'unanswered'
      assert.ok(gone && mayBeGone, `${life.orderHash} (${life.cancel}): ${error}`)
      if (life.cancel === 'unanswered') life.cancel = 'cancelled'
      return undefined
    })
    if (life.cancel === 'cancelled') {
      assert.equal(again, undefined, `${life.orderHash} was cancelled and came back`)
      report.cancelled++
    } else if (life.cancel === 'unanswered') life.cancel = 'none'
    if (answer !== undefined) {
      report.accepted++
      if (again === undefined) return
      assert.equal(again.duplicate, true, `${life.orderHash} was accepted and is lost`)
      assert.deepEqual([again.matches, again.timestamp], [answer.matches, answer.timestamp])
    } else {
      report.unanswered++
      assert.ok(again !== undefined)
      if (again.duplicate === true) report.unansweredButIn++
      life.answer = { matches: again.matches, timestamp: again.timestamp }
      const third = await client.orders.submit(submission)
      // The second answer equals the first; only the market's `seq` may have changed.
      assert.deepEqual({ ...third, seq: 0 }, { ...again, duplicate: true, seq: 0 })
    }
  })
}

async function inLanes<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const queue = [...items]
  const lane = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

/** Checks at the end that the lists, the books and the database agree, and that no share is lost. */
export async function settleAccounts(
  exchange: Pick<Exchange, 'url' | 'dataDir'>,
  lives: readonly Life[],
  report: CrashReport,
  {
    pit = PIT,
    databaseUrl = `sqlite:${exchange.dataDir}/sibyl.db`,
  }: { pit?: Pit; databaseUrl?: string } = {},
): Promise<void> {
  const client = createClient({ url: exchange.url, timeoutMs: 120_000 })
  const open = new Map<string, number>()
  const levels = new Map<string, bigint>()
  for (const { address } of pit.traders) {
    for (const order of await client.orders.list({ trader: address })) {
      assert.ok(!open.has(order.orderHash), `${order.orderHash} is listed twice`)
      open.set(order.orderHash, order.remainingSize)
      const level = [order.marketId, order.outcome, order.side, order.price].join()
      levels.set(level, (levels.get(level) ?? 0n) + BigInt(order.remainingSize))
    }
  }
  const shown = new Map<string, bigint>()
  for (const marketId of pit.markets) {
    for (const [outcome, name] of (['YES', 'NO'] as const).entries()) {
      const { bids, asks } = await client.orderbook(marketId, name)
      for (const [side, list] of [bids, asks].entries()) {
        for (const { price, size } of list) shown.set([marketId, outcome, side, price].join(), size)
      }
    }
  }
  assert.deepEqual([...shown].sort(), [...levels].sort(), 'the books are the sum of the orders')

  const database = await openDatabase(databaseUrl)
  try {
    await eventually(() => auditDatabase(database, lives, { open, pit }, report), 60_000)
  } finally {
    await closeDatabase(database)
  }
}

async function auditDatabase(
  database: Database,
  lives: readonly Life[],
  { open, pit }: { readonly open: ReadonlyMap<string, number>; readonly pit: Pit },
  report: CrashReport,
): Promise<void> {
  const rows = new Map<string, OrderRecord>()
  for (let at = 0; at < lives.length; at += 500) {
    const hashes = lives.slice(at, at + 500).map((life) => life.orderHash)
    for (const row of await ordersByHash(database, hashes)) rows.set(row.orderHash, row)
  }
  assert.equal(rows.size, lives.length, 'every order has its row')
  const traded = new Map<string, number>()
  report.trades = 0
  for (const marketId of pit.markets) {
    for (const trade of await recentTrades(database, { marketId, limit: 1_000_000 })) {
      report.trades++
      const [buy, sell] = [rows.get(trade.buyOrderHash), rows.get(trade.sellOrderHash)]
      assert.ok(buy !== undefined && sell !== undefined, `${trade.tradeId} is of known orders`)
      for (const [{ side, outcome, price }, leg] of [
        [buy, buyerLeg(trade)],
        [sell, sellerLeg(trade)],
      ] as const) {
        assert.deepEqual({ side, outcome }, leg, `${trade.tradeId} has the sides of its orders`)
        const paid = outcome === trade.outcome ? trade.price : complementOf(trade.price)
        assert.ok(side === BUY ? paid <= price : paid >= price, `${trade.tradeId} is within limits`)
      }
      for (const { orderHash: hash } of [buy, sell]) {
        traded.set(hash, (traded.get(hash) ?? 0) + trade.size)
      }
    }
  }
  for (const life of lives) {
    const row = rows.get(life.orderHash)
    const filled = traded.get(life.orderHash) ?? 0
    assert.ok(row !== undefined && filled <= row.size, `${life.orderHash} is overfilled`)
    const rests = open.get(life.orderHash)
    if (rests !== undefined) assert.equal(rests, row.size - filled, `${life.orderHash} rests`)
    else if (life.cancel !== 'cancelled')
      assert.equal(filled, row.size, `${life.orderHash} is gone`)
  }
}
