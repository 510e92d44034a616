/** Unsettled trades of a market thread survive restarts, snapshots and failed appends. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type TradeId, tradeId } from '#domain/ids.ts'
import type { OrdersMatched } from '#domain/market-event.ts'
import { ONE } from '#domain/money.ts'
import { BUY, SELL, type VerifiedOrder } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { TraderPauses } from '#domain/trader-pauses.ts'
import type { TradeReport } from '#protocol/market.ts'
import { PendingCounts, PendingTrades } from '#services/market/pending.ts'
import { readMarketSnapshot } from '#services/market/snapshot.ts'
import { buy, hashNamed, type OrderBuilder, sell, traderNamed } from '../../support/orders.ts'
import { randomFrom } from '../../support/random.ts'
import { aMarket, signed } from './market-fixture.ts'
import { type Command, inFolder, marketId, open, startHost } from './thread-fixture.ts'

type Host = ReturnType<typeof startHost>

const place = (order: VerifiedOrder): Command => ({ type: 'PlaceOrder', message: { order } })
const order = (n: number, builder: OrderBuilder) => signed(builder, marketId(n))
const cancel = (n: number, name: string, side: 0 | 1): Command => ({
  type: 'CancelOrder',
  message: { marketId: marketId(n), orderHash: hashNamed(name), side },
})
const cancelAll = (n: number, name: string): Command => ({
  type: 'CancelOrders',
  message: { marketId: marketId(n), trader: traderNamed(name) },
})

const selling = order(1, sell('YES').at(0.4).size(2).by('bob').named('s'))
const buying = order(1, buy('YES').at(0.4).size(2).by('ann').named('b'))

function report(what: Partial<TradeReport>, seq = 3): Command {
  const id = tradeId(marketId(1), seq, 0)
  const head = { tradeId: id, status: 'failed', txHash: '0x1', reason: 'no' } as const
  const told = { ...head, fault: 'buyer' as const, size: buying.size, buy: buying, sell: selling }
  return { type: 'ReportTrade', message: { marketId: marketId(1), report: { ...told, ...what } } }
}

/** Takes a snapshot of every market with events. */
async function snapshot(host: Host): Promise<void> {
  for (const id of host.thread.markets.keys()) host.thread.due.add(id)
  await host.keepHouse()
}

/** Asserts that the thread's counts of pending trades equal those of the loaded markets. */
function assertCounted(host: Host): void {
  const counts = new PendingCounts()
  for (const { state } of host.thread.markets.values()) {
    new PendingTrades(counts, true).restore(state.pending.rows())
  }
  const [counted] = host.thread.counts.values()
  assert.deepEqual([...(counted?.all() ?? [])].toSorted(), [...counts.all()].toSorted())
  assert.equal(counted?.total ?? 0, counts.total)
}

for (const how of ['the log', 'a snapshot'] as const) {
  inFolder(
    `a cancel of unsettled fills is still in effect after a restart from ${how}`,
    async (dataDir) => {
      let host = startHost(dataDir)
      const restart = async () => {
        if (how === 'a snapshot') await snapshot(host)
        const hashes = host.hashes()
        await host.stop()
        host = startHost(dataDir)
        assert.deepEqual(host.hashes(), hashes)
        assertCounted(host)
      }
      await host.run(open(1), place(selling), place(buying))
      await restart()
      const orderHash = hashNamed('s')
      const [cancelled] = await host.run(cancel(1, 's', SELL))
      assert.deepEqual(cancelled, { status: 'cancelled', orderHash, pendingSize: 2 * ONE })
      await restart()
      assert.deepEqual(await host.run(cancel(1, 's', SELL)), [{ rejected: 'ORDER_CLOSED' }])
      assert.deepEqual(await host.run(report({ fault: 'buyer' })), [{ status: 'failed' }])
      assert.equal(host.resting(), 0, 'nothing comes back')
      await restart()
      assert.equal(host.resting(), 0)
      assert.deepEqual(await host.run(place(selling)), [{ rejected: 'ORDER_CLOSED' }])
      assert.equal(host.log.closedOrders(1, [orderHash]).at(0)?.reason, 'cancelled')
      await host.stop()
    },
  )
}

inFolder(
  'a cancel of all orders of a trader finds orders that were filled before a restart',
  async (dataDir) => {
    let host = startHost(dataDir)
    await host.run(open(1), open(2), place(selling), place(buying))
    await snapshot(host)
    await host.stop()
    host = startHost(dataDir)
    const markets = async (name: string, where = {}) => {
      const message = { trader: traderNamed(name), ...where }
      return (await host.run({ type: 'PendingMarkets', message }))[0]
    }
    assert.deepEqual(await markets('bob'), { marketIds: [marketId(1)] })
    const { chainId } = host.thread.markets.get(marketId(1))!.state.market
    assert.deepEqual(await markets('bob', { chainId }), { marketIds: [marketId(1)] })
    assert.deepEqual(await markets('bob', { chainId: chainId + 1 }), { marketIds: [] })
    assert.deepEqual(await markets('eve'), { marketIds: [] })
    const orderHash = hashNamed('s')
    const pending = [{ orderHash, pendingSize: 2 * ONE }]
    assert.deepEqual(await host.run(cancelAll(1, 'bob'), cancelAll(1, 'bob')), [
      { orderHashes: [orderHash], pending },
      { orderHashes: [], pending: [] },
    ])
    await host.run(report({ fault: 'buyer' }))
    assert.equal(host.resting(), 0)
    assert.deepEqual(await markets('bob'), { marketIds: [] })
    await host.stop()
  },
)

inFolder(
  'after a replay, a snapshot or a failed append, the counts of open orders and unsettled trades are correct',
  async (dataDir) => {
    const random = randomFrom(11)
    let host = startHost(dataDir, { partitions: 2 })
    const orders = new Map<string, VerifiedOrder>()
    const trades: TradeReport[] = []
    await host.run(open(1), open(2), open(3))
    for (let step = 0; step < 250; step++) {
      const n = random.int(1, 3)
      const side = random.chance(0.5) ? buy : sell
      const next = order(
        n,
        side('YES')
          .at(0.5)
          .size(random.int(1, 5))
          .by(`t${random.int(1, 5)}`)
          .named(`o${step}`),
      )
      orders.set(next.orderHash, next)
      const trade = trades.length > 0 && random.chance(0.5) ? random.pick(trades) : undefined
      await host.run(
        place(next),
        ...(trade === undefined
          ? []
          : [
              {
                type: 'ReportTrade',
                message: {
                  marketId: trade.buy.marketId,
                  report: {
                    ...trade,
                    status: random.pick(['confirmed', 'failed', 'reverted'] as const),
                    fault: random.pick(['buyer', 'seller', 'none'] as const),
                  },
                },
              } as const,
            ]),
      )
      for (const event of host.said) {
        if (event.type !== 'OrdersMatched') continue
        trades.push(...reportsOf(event, orders))
      }
      assertCounted(host)
      if (step % 50 === 49) {
        host.recover(random.int(0, 1))
        assertCounted(host)
      }
      if (step % 80 === 79) {
        await snapshot(host)
        await host.stop()
        host = startHost(dataDir, { partitions: 2 })
        assertCounted(host)
      }
    }
    const [counted] = host.thread.counts.values()
    assert((counted?.total ?? 0) > 5)
    await host.stop()
  },
)

function reportsOf(event: OrdersMatched, orders: Map<string, VerifiedOrder>): TradeReport[] {
  return event.fills.map(({ makerHash, size }, index) => {
    const maker = orders.get(makerHash)!
    const { taker } = event
    const [bought, sold] = taker.side === BUY ? [taker, maker] : [maker, taker]
    const id: TradeId = tradeId(event.marketId, event.seq, index)
    const told = { status: 'confirmed', txHash: '0x1', reason: '', fault: 'none' } as const
    return { tradeId: id, ...told, size, buy: bought, sell: sold }
  })
}

inFolder(
  'pauses of traders at fault are restored from the log, and exchanged with the other threads',
  async (dataDir) => {
    const terms = { firstMs: 10_000, maxMs: 60_000 }
    const risk = () => ({
      minNotional: 0,
      pendingTradesMax: 1_000,
      pauses: new TraderPauses(terms),
    })
    let host = startHost(dataDir, { risk: risk() })
    const standing = async (name: string) => {
      const message = { marketId: marketId(1), trader: traderNamed(name) }
      const [answer] = await host.run({ type: 'Standing', message })
      if (isRejection(answer)) return answer.rejected
      return (answer as { refused?: { rejected: string } }).refused?.rejected
    }
    const pauses = async () =>
      ((await host.run({ type: 'PausedTraders', message: {} }))[0] as { pauses: unknown[] }).pauses
    await host.run(open(1), place(selling), place(buying))
    assert.equal(await standing('ann'), undefined)
    await host.run(report({ fault: 'buyer' }))
    assert.equal(await standing('ann'), 'TRADER_PAUSED')
    const before = await pauses()
    assert.equal(before.length, 1)
    await host.stop()
    host = startHost(dataDir, { risk: risk() })
    assert.deepEqual(await pauses(), before)
    assert.equal(await standing('ann'), 'TRADER_PAUSED')
    assert.equal(await standing('eve'), undefined)
    const told = { ...(before[0] as object), trader: traderNamed('eve') } as never
    await host.run({ type: 'TradersPaused', message: { pauses: [told] } })
    assert.equal(await standing('eve'), 'TRADER_PAUSED')
    host.at(10)
    assert.equal(await standing('eve'), undefined)
    await host.stop()
  },
)

test('a snapshot that an older version wrote without pending trades and session orders can still be read', () => {
  const market = aMarket()
  const head = { version: 1, market, seq: 7, closed: null, updatedAtMs: 5, unsettled: 2 }
  const chunks = [Buffer.from(JSON.stringify(head))]
  const meta = { marketId: market.id, atOffset: 7, seq: 7, chunks: 1 }
  const read = readMarketSnapshot({ meta, chunks })
  assert.deepEqual(read, { head, books: [[], []], pending: [], held: [], tags: [] })
})
