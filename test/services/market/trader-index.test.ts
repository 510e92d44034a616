import assert from 'node:assert/strict'
import type { Address, TradeId } from '#domain/ids.ts'
import type { Shares } from '#domain/money.ts'
import { OUTCOMES, type VerifiedOrder } from '#domain/order.ts'
import type { OpenOrder, TradeReport } from '#protocol/market.ts'
import { pageOfOrders } from '#services/market/host/open-orders.ts'
import { buy, hashNamed, sell, traderNamed } from '../../support/orders.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { seedsOf } from '../../support/sample.ts'
import { openOrdersIn, START_SEC, signed } from './market-fixture.ts'
import { type Command, inFolder, marketId, open, startHost } from './thread-fixture.ts'

const MARKETS = 6
const TRADERS = Array.from({ length: 9 }, (_, n) => traderNamed(`t${n + 1}`))

type Host = ReturnType<typeof startHost>

/** Asserts that the index has exactly the orders that a scan of every book finds. */
async function assertIndexed(host: Host, nowSec: number): Promise<void> {
  const states = [...host.thread.markets.values()].map(({ state }) => state)
  for (const trader of TRADERS) {
    const walked = openOrdersIn(states, trader, Number.POSITIVE_INFINITY, nowSec)
    const message = { trader, limit: 1_000 }
    const [answer] = await host.run({ type: 'OpenOrdersPage', message })
    assert.deepEqual(answer, walked)
    assert.deepEqual(await allPages(host, trader), walked.orders)
    const [found] = await host.run({ type: 'MarketsOf', message })
    const { marketIds } = found as { marketIds: string[] }
    const elsewhere = { ...message, chainId: states[0]!.market.chainId + 1 }
    assert.deepEqual(await host.run({ type: 'MarketsOf', message: elsewhere }), [{ marketIds: [] }])
    const resting = openOrdersIn(states, trader, Number.POSITIVE_INFINITY, 0).orders
    assert.deepEqual(marketIds.toSorted(), [...new Set(resting.map((one) => one.marketId))].sort())
  }
  while (host.thread.traders.isLeaving) host.thread.traders.step(1)
  for (const trader of TRADERS) {
    const indexed = [...host.thread.traders.of(trader)].map(({ home }) => {
      return `${home.hosted.state.market.id} ${home.outcome}`
    })
    const walked = openOrdersIn(states, trader, Number.POSITIVE_INFINITY, 0).orders
    const places = new Set(walked.map((order) => `${order.marketId} ${order.outcome}`))
    assert.deepEqual(indexed.sort(), [...places].sort())
  }
  const busy = states.flatMap(({ books }) => books.filter(({ count }) => count > 0))
  assert.equal(host.thread.traders.busy.size, busy.length)
}

async function allPages(host: Host, trader: Address): Promise<OpenOrder[]> {
  const orders: OpenOrder[] = []
  for (;;) {
    const after = orders.at(-1)
    const message = { trader, limit: 3, ...(after === undefined ? {} : { after }) }
    const [answer] = await host.run({ type: 'OpenOrdersPage', message })
    const page = (answer as { orders: OpenOrder[] }).orders
    orders.push(...page)
    if (page.length < 3) return orders
  }
}

/** Random activity: orders match, end and expire, trades fail, and markets close. */
function flow(random: Random, trades: Map<TradeId, TradeReport>, index: number): Command[] {
  return Array.from({ length: random.int(1, 6) }, (_, at): Command => {
    const n = random.int(1, MARKETS)
    const what = random.int(1, 100)
    if (what <= 10) {
      const orderHash = hashNamed(`o${random.int(0, index)}-0`)
      const side = random.chance(0.5) ? 0 : 1
      return { type: 'CancelOrder', message: { marketId: marketId(n), orderHash, side } }
    }
    if (what <= 13) {
      const message = { marketId: marketId(n), trader: random.pick(TRADERS), limit: 2 }
      return { type: 'CancelOrders', message }
    }
    if (what <= 18) return { type: 'Expire', message: { marketId: marketId(n) } }
    if (what === 19 && index > 60) {
      return { type: 'CloseMarket', message: { marketId: marketId(n), reason: 'resolved' } }
    }
    const report = random.pick([...trades.values(), undefined])
    if (what <= 30 && report !== undefined) {
      trades.delete(report.tradeId)
      return { type: 'ReportTrade', message: { marketId: report.buy.marketId, report } }
    }
    const order = (random.chance(0.5) ? buy : sell)(random.chance(0.5) ? 'YES' : 'NO')
      .at(0.5 + random.int(-3, 3) / 100)
      .size(random.int(1, 20))
      .by(`t${random.int(1, TRADERS.length)}`)
      .until(START_SEC + random.int(100, 900))
      .named(`o${index}-${at}`)
    return { type: 'PlaceOrder', message: { order: signed(order, marketId(n)) } }
  })
}

for (const seed of seedsOf(1, 2)) {
  inFolder(`the index of traders equals a full scan, seed ${seed}`, async (dataDir) => {
    const random = randomFrom(seed)
    const trades = new Map<TradeId, TradeReport>()
    const orders = new Map<string, VerifiedOrder>()
    let host = startHost(dataDir, { snapshotEvery: 40 })
    await host.run(...Array.from({ length: MARKETS }, (_, n) => open(n + 1)))
    let seconds = 0
    for (let index = 0; index < 100; index++) {
      seconds += random.int(0, 12)
      host.at(seconds)
      const batch = flow(random, trades, index)
      for (const { type, message } of batch) {
        if (type === 'PlaceOrder') orders.set(message.order.orderHash, message.order)
      }
      await host.run(...batch)
      for (const event of host.said) {
        if (event.type !== 'OrdersMatched') continue
        const { taker, fills } = event
        for (const [fill, { makerHash, size }] of fills.entries()) {
          const maker = orders.get(makerHash)
          assert(maker !== undefined)
          const [buying, selling] = taker.side === 0 ? [taker, maker] : [maker, taker]
          const tradeId = `${event.marketId}-${event.seq}-${fill}` as TradeId
          const fault = random.pick(['buyer', 'seller', 'none', 'none'] as const)
          const outcome = { status: 'failed', txHash: '0x1', reason: 'no', fault } as const
          const report = { tradeId, ...outcome, size: size as Shares, buy: buying, sell: selling }
          trades.set(tradeId, report)
        }
      }
      if (random.chance(0.1)) await host.keepHouse()
      if (random.chance(0.1)) host.tidy()
      if (random.chance(0.05)) host.recover(random.int(0, 1))
      if (random.chance(0.05)) {
        await host.stop()
        host = startHost(dataDir, { snapshotEvery: 40 })
        host.at(seconds)
      }
      if (index % 8 === 0) await assertIndexed(host, START_SEC + seconds)
    }
    await assertIndexed(host, START_SEC + seconds)
    await host.stop()
  })
}

inFolder(
  'if a trader has very many open orders, a query for one page reads only some of the orders',
  async (dataDir) => {
    const host = startHost(dataDir)
    await host.run(open(1), open(2))
    for (let index = 0; index < 3_000; index += 500) {
      host.at(index)
      const batch = Array.from({ length: 500 }, (_, at): Command => {
        const order = buy('YES')
          .by('t1')
          .at(0.1)
          .named(`o${index + at}`)
        return { type: 'PlaceOrder', message: { order: signed(order, marketId(1 + (at % 2))) } }
      })
      await host.run(...batch)
    }
    let reads = 0
    const books = [...host.thread.markets.values()].flatMap(({ state }) =>
      OUTCOMES.map((outcome) => {
        const book = state.books[outcome]
        const read = book.read.bind(book)
        book.read = (slot, orderHash) => {
          reads++
          return read(slot, orderHash)
        }
        return { marketId: state.market.id, outcome, book }
      }),
    )
    const page = pageOfOrders(books, traderNamed('t1'), { limit: 10 }, START_SEC)
    assert.equal(page.count, 3_000)
    assert.equal(page.orders.length, 10)
    assert.equal(
      reads,
      500,
      'those of the first millisecond, which are in the order of their hashes',
    )
    await host.stop()
  },
)
