import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { MarketId, TradeId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { ONE, type Shares } from '#domain/money.ts'
import { byAge, type OpenOrderPlace, type Side, type VerifiedOrder } from '#domain/order.ts'
import type { EventLog } from '#log/event-log.ts'
import { partitionPaths } from '#log/log-folder.ts'
import type { TradeReport } from '#protocol/market.ts'
import { takeGone, takeTrouble } from '#services/market/host/housekeeping.ts'
import { byMarket } from '#services/market/host/market-batch.ts'
import { Retention } from '#services/market/host/retention.ts'
import { buy, hashNamed, type OrderBuilder, sell, traderNamed } from '../../support/orders.ts'
import { randomFrom } from '../../support/random.ts'
import { START_SEC, signed } from './market-fixture.ts'
import { type Command, inFolder, marketId, open, startHost } from './thread-fixture.ts'

const place = (n: number, builder: OrderBuilder): Command => ({
  type: 'PlaceOrder',
  message: { order: signed(builder, marketId(n)) },
})
const cancel = (n: number, name: string, side: 0 | 1): Command => ({
  type: 'CancelOrder',
  message: { marketId: marketId(n), orderHash: hashNamed(name), side },
})
const report = (n: number, told: TradeReport): Command => ({
  type: 'ReportTrade',
  message: { marketId: marketId(n), report: told },
})
const projectedTo = (partition: number, offset: number): Command => ({
  type: 'Projected',
  message: { partition, offset },
})
function failed(n: number, seq: number, buying: VerifiedOrder, selling: VerifiedOrder) {
  const outcome = { status: 'failed', txHash: '0x1', reason: 'no', fault: 'buyer' } as const
  const size = Math.min(buying.size, selling.size) as Shares
  const tradeId = `${marketId(n)}-${seq}-0` as TradeId
  return report(n, { tradeId, ...outcome, size, buy: buying, sell: selling })
}

/** Makes batches of orders in several markets; some orders match, some are cancelled, and some expire. */
function batches(seed: number, count: number, from = 0): Command[][] {
  const random = randomFrom(seed)
  return Array.from({ length: count }, (_, index) =>
    Array.from({ length: random.int(1, 8) }, (_, place_) => {
      const name = `o${from + index}-${place_}`
      const n = random.int(1, 4)
      if (random.chance(0.2)) {
        return cancel(n, `o${from + random.int(0, index)}-0`, random.chance(0.5) ? 0 : 1)
      }
      if (random.chance(0.03)) return { type: 'Expire', message: { marketId: marketId(n) } }
      const side = random.chance(0.5) ? buy : sell
      const placed = place(
        n,
        side(random.chance(0.5) ? 'YES' : 'NO')
          .at(0.5 + random.int(-5, 5) / 100)
          .size(random.int(1, 20))
          .by(`t${random.int(1, 9)}`)
          .until(START_SEC + random.int(100, 5_000))
          .named(name),
      )
      // Every third order belongs to a session. This has no effect, because no session ends.
      if (place_ % 3 > 0 || placed.type !== 'PlaceOrder') return placed
      return { ...placed, message: { ...placed.message, session: 's' } }
    }),
  )
}

const openAll = [open(1), open(2), open(3), open(4)]

inFolder(
  'a command for an unknown market is refused, and a list of its open orders is empty',
  async (dataDir) => {
    const host = startHost(dataDir, { own: [0] })
    const notFound = { rejected: 'MARKET_NOT_FOUND' }
    const trade = failed(2, 1, signed(buy('YES')), signed(sell('YES')))
    const answers = await host.run(
      place(2, buy('YES')),
      cancel(2, 'a', 0),
      { type: 'CancelOrders', message: { marketId: marketId(2), trader: traderNamed('ann') } },
      { type: 'CloseMarket', message: { marketId: marketId(2), reason: 'resolved' } },
      { type: 'Snapshot', message: { marketId: marketId(2) } },
      trade,
      open(1),
      { type: 'Expire', message: { marketId: marketId(2) } },
      {
        type: 'OpenOrdersPage',
        message: { trader: traderNamed('ann'), marketId: marketId(2), limit: 10 },
      },
      { type: 'Markets', message: {} },
      projectedTo(77, 5),
    )
    assert.deepEqual(answers.slice(0, 6), Array(6).fill(notFound))
    assert.deepEqual(answers[6], notFound, 'a market of a partition that another thread owns')
    assert.deepEqual(answers.slice(7), [
      undefined,
      { orders: [], count: 0 },
      { views: [], more: false, away: false, dozes: true },
      undefined,
    ])
    assert.deepEqual(await host.run(open(2, { expiration: START_SEC })), [
      { rejected: 'MARKET_CLOSED' },
    ])
    await host.stop()
  },
)

inFolder('open orders of a trader are listed for one market or for all', async (dataDir) => {
  const host = startHost(dataDir)
  await host.run(...openAll, place(1, buy('YES').by('ann').named('a')))
  await host.run(place(2, sell('NO').by('ann').named('b')), place(2, buy('NO').at(0.1).named('c')))
  const ask = async (n?: number) => {
    const which = n === undefined ? {} : { marketId: marketId(n) }
    const message = { trader: traderNamed('ann'), limit: 10, ...which }
    const [answer] = await host.run({ type: 'OpenOrdersPage', message })
    return (answer as { orders: { orderHash: string }[] }).orders.map(({ orderHash }) => orderHash)
  }
  assert.deepEqual(await ask(), [hashNamed('a'), hashNamed('b')])
  assert.deepEqual(await ask(2), [hashNamed('b')])
  await host.stop()
})

inFolder(
  'open orders are listed page by page, oldest first, whatever changes between the pages',
  async (dataDir) => {
    const host = startHost(dataDir)
    await host.run(...openAll)
    const names = ['a', 'b', 'c', 'd', 'e']
    for (const [index, name] of names.entries()) {
      // Several orders are placed within the same millisecond.
      host.at(Math.ceil(index / 2))
      await host.run(place(1 + (index % 2), buy('YES').at(0.1).by('ann').named(name)))
    }
    await host.run(place(1, buy('YES').at(0.1).by('bob').named('other')))
    type Page = { orders: OpenOrderPlace[]; count: number }
    const ask = async (limit: number, after?: OpenOrderPlace): Promise<Page> => {
      const message = {
        trader: traderNamed('ann'),
        limit,
        ...(after === undefined ? {} : { after }),
      }
      return (await host.run({ type: 'OpenOrdersPage', message }))[0] as Page
    }
    const whole = await ask(100)
    assert.equal(whole.count, 5)
    assert.deepEqual(whole.orders, whole.orders.toSorted(byAge))
    assert.deepEqual(whole.orders.map((one) => one.orderHash).sort(), names.map(hashNamed).sort())
    const first = await ask(2)
    assert.deepEqual([first.orders, first.count], [whole.orders.slice(0, 2), 5])
    const last = first.orders.at(-1)!
    // The last order of the page is cancelled, and another order is placed. The next page must stay the same.
    const { marketId: where, side } = last as OpenOrderPlace & { marketId: MarketId; side: Side }
    await host.run(
      { type: 'CancelOrder', message: { marketId: where, orderHash: last.orderHash, side } },
      place(2, buy('NO').at(0.1).by('ann').named('f')),
    )
    const second = await ask(2, last)
    assert.deepEqual([second.orders, second.count], [whole.orders.slice(2, 4), 5])
    const third = await ask(2, second.orders.at(-1))
    assert.deepEqual(
      third.orders.map(({ orderHash }) => orderHash),
      [whole.orders[4]!.orderHash, hashNamed('f')],
    )
    assert.deepEqual(await ask(2, third.orders.at(-1)), { orders: [], count: 5 })
    await host.stop()
  },
)

inFolder('after a restart every market has the same state', async (dataDir) => {
  let host = startHost(dataDir)
  await host.run(...openAll)
  let hashes = host.hashes()
  for (let round = 0; round < 3; round++) {
    for (const batch of batches(round + 1, 60, round * 1_000)) await host.run(...batch)
    host.at(200 * (round + 1))
    hashes = host.hashes()
    await host.stop()
    host = startHost(dataDir, { nowMs: (START_SEC + 200 * (round + 1)) * 1_000 })
    assert.deepEqual(host.hashes(), hashes)
  }
  assert(host.resting() > 100)
  await host.stop()
})

inFolder(
  'snapshots and the removal of old log events do not change the state of any market',
  async (dataDir) => {
    const options = { snapshotEvery: 100 }
    let host = startHost(dataDir, options)
    const untouched = startHost(`${dataDir}/other`)
    await host.run(...openAll)
    await untouched.run(...openAll)
    for (let round = 0; round < 4; round++) {
      for (const [index, batch] of batches(round + 50, 60, round * 1_000).entries()) {
        await untouched.run(...batch)
        // As in a market thread, one step of a snapshot runs between two batches.
        const answers = await host.run(...batch)
        assert.equal(answers.length, batch.length)
        if (index % 10 === 0) {
          for (const partition of [0, 1]) {
            await host.run(projectedTo(partition, host.log.lastOffset(partition)))
          }
          host.tidy()
        }
        await host.keepHouse()
      }
      assert.deepEqual(host.hashes(), untouched.hashes())
      await host.stop()
      host = startHost(dataDir, options)
      assert.deepEqual(host.hashes(), untouched.hashes())
    }
    for (const partition of [0, 1]) {
      const { firstOffset, lastOffset } = host.log.state(partition)
      assert(lastOffset - firstOffset < 800, `${lastOffset - firstOffset} records are left`)
      assert(firstOffset > 200)
    }
    await host.stop()
    await untouched.stop()
  },
)

inFolder(
  'events that the database does not have yet are not removed from the log',
  async (dataDir) => {
    const host = startHost(dataDir, { snapshotEvery: 100 })
    await host.run(...openAll)
    for (const batch of batches(9, 100)) await host.run(...batch)
    await host.run(projectedTo(0, 40), projectedTo(1, 0))
    host.tidy()
    await host.keepHouse()
    host.tidy()
    await host.keepHouse()
    const first = host.log.state(0).firstOffset
    assert(first > 1 && first <= 41, `${first}`)
    assert.equal(host.log.state(1).firstOffset, 1)
    await host.stop()
  },
)

for (const [step, code] of [
  ['truncate', 'LOG_ARCHIVE_FAILED'],
  ['forgetClosed', 'LOG_MERGE_FAILED'],
  ['beginSnapshot', 'LOG_SNAPSHOT_FAILED'],
] as const) {
  inFolder(
    `old events of other partitions are removed even if one partition’s log fails to ${step}`,
    async (dataDir) => {
      const failing = (log: EventLog<MarketEvent>) => {
        const work = log[step].bind(log) as (partition: number, ...args: unknown[]) => unknown
        log[step] = ((partition: number, ...args: unknown[]) => {
          if (partition === 0) throw new Fault(code, 'no room', { retryable: true })
          return work(partition, ...args)
        }) as never
        return log
      }
      const host = startHost(dataDir, { snapshotEvery: 100, between: failing })
      await host.run(...openAll)
      for (const batch of batches(9, 100)) await host.run(...batch)
      for (let turn = 0; turn < 4; turn++) {
        await host.run(
          projectedTo(0, host.log.lastOffset(0)),
          projectedTo(1, host.log.lastOffset(1)),
        )
        host.tidy()
        await host.keepHouse()
      }
      assert.match(takeTrouble(host.thread), /no room/)
      assert.ok(host.log.state(1).firstOffset > 40, `${host.log.state(1).firstOffset}`)
      await host.stop()
    },
  )
}

inFolder(
  'events stay in the log for the retention time after the database has them',
  async (dataDir) => {
    const options = { partitions: 1, snapshotEvery: 100, retention: new Retention(3_600_000) }
    const host = startHost(dataDir, options)
    const trade = async (from: number, to: number) => {
      for (let n = from; n < to; n++) await host.run(place(1, buy('YES').at(0.1).named(`n${n}`)))
      await host.run(projectedTo(0, host.log.lastOffset(0)))
      host.tidy()
      await host.keepHouse()
      host.tidy()
      await host.keepHouse()
      return host.log.state(0).firstOffset
    }
    await host.run(open(1))
    assert.equal(await trade(0, 200), 1)
    host.at(3_599)
    assert.equal(await trade(200, 300), 1)
    host.at(3_601)
    // Events can be removed an hour after they were written, and only the age of the newest removable one is checked.
    // It was written at 3,599 s, so nothing is removed before 7,199 s.
    assert.equal(await trade(300, 301), 1)
    host.at(7_300)
    assert((await trade(301, 302)) > 200)
    await host.stop()
  },
)

inFolder(
  'a market without activity does not prevent old events from being removed from the log',
  async (dataDir) => {
    let host = startHost(dataDir, { partitions: 1, snapshotEvery: 100 })
    await host.run(open(1), open(2), place(1, buy('YES').at(0.1).named('quiet')))
    for (let n = 0; n < 500; n++) await host.run(place(2, buy('YES').at(0.1).named(`n${n}`)))
    for (let turn = 0; turn < 3; turn++) {
      await host.run(projectedTo(0, host.log.lastOffset(0)))
      host.tidy()
      await host.keepHouse()
    }
    assert(host.log.state(0).firstOffset > 400)
    const hashes = host.hashes()
    await host.stop()
    host = startHost(dataDir, { partitions: 1 })
    assert.deepEqual(host.hashes(), hashes)
    await host.stop()
  },
)

inFolder(
  'an order from before a restart that is resubmitted gets its first answer',
  async (dataDir) => {
    let host = startHost(dataDir)
    const filled = place(1, buy('YES').at(0.5).size(2).named('filled'))
    const cancelled = place(1, buy('NO').named('cancelled'))
    const resting = place(1, buy('YES').at(0.1).named('resting'))
    await host.run(open(1), place(1, sell('YES').at(0.4).size(2).named('m')), resting)
    const [first] = await host.run(filled, cancelled)
    await host.run(cancel(1, 'cancelled', 0))
    await host.stop()
    host = startHost(dataDir)
    host.at(10)
    const answers = await host.run(filled, cancelled, resting, cancel(1, 'm', 1))
    assert.deepEqual(answers, [
      { ...(first as object), duplicate: true },
      { rejected: 'ORDER_CLOSED' },
      {
        orderHash: hashNamed('resting'),
        status: 'accepted',
        matches: 0,
        timestamp: START_SEC,
        duplicate: true,
      },
      { status: 'cancelled', orderHash: hashNamed('m'), pendingSize: 2 * ONE },
    ])
    await host.stop()
  },
)

inFolder(
  'an order that occurs twice in one batch gets its first answer the second time',
  async (dataDir) => {
    const host = startHost(dataDir)
    const order = place(1, buy('YES').named('a'))
    const taker = place(1, sell('YES').at(0.5).size(1).named('t'))
    const answers = await host.run(open(1), order, order, taker, order, taker, cancel(1, 'a', 0))
    const duplicates = answers.map((answer) => (answer as { duplicate?: true }).duplicate ?? false)
    assert.deepEqual(duplicates, [false, false, true, false, true, true, false])
    const pendingSize = ONE
    assert.deepEqual(answers.at(-1), {
      status: 'cancelled',
      orderHash: hashNamed('a'),
      pendingSize,
    })
    await host.stop()
  },
)

inFolder('a settlement report from an earlier holder of the lease is rejected', async (dataDir) => {
  const host = startHost(dataDir)
  const buying = signed(buy('YES').at(0.5).size(1).by('ann').named('b'), marketId(1))
  const selling = signed(sell('YES').at(0.5).size(1).by('bob').named('s'), marketId(1))
  await host.run(open(1))
  await host.run({ type: 'PlaceOrder', message: { order: selling } })
  await host.run({ type: 'PlaceOrder', message: { order: buying } })
  const { report: told } = failed(1, 3, buying, selling).message as { report: TradeReport }
  const lag = (behind: boolean, epoch: number): Command => ({
    type: 'SettlementLag',
    message: { chainId: 31_337, behind, epoch },
  })
  const under = (epoch: number): Command => ({
    type: 'ReportTrade',
    message: { marketId: marketId(1), report: told, epoch },
  })
  await host.run(lag(false, 7), lag(true, 6))
  const [placed] = await host.run(place(1, buy('NO').named('o')))
  assert.equal((placed as { status?: string }).status, 'accepted', 'settlement is not behind')
  assert.deepEqual(await host.run(under(6)), [{ rejected: 'OVERLOADED' }])
  assert.deepEqual(await host.run(under(7)), [{ status: 'failed' }])
  await host.stop()
})

inFolder('an order that a failed trade reopened is still open after a restart', async (dataDir) => {
  let host = startHost(dataDir)
  const selling = signed(sell('YES').at(0.4).size(2).by('bob').named('s'), marketId(1))
  const buying = signed(buy('YES').at(0.4).size(2).by('ann').named('b'), marketId(1))
  const order = (signedOrder: VerifiedOrder): Command => ({
    type: 'PlaceOrder',
    message: { order: signedOrder },
  })
  await host.run(open(1), order(selling), order(buying))
  await host.stop()
  host = startHost(dataDir)
  const failure = failed(1, 3, buying, selling)
  assert.deepEqual(await host.run(failure, failure), [{ status: 'failed' }, { status: 'failed' }])
  const hashes = host.hashes()
  await host.stop()
  host = startHost(dataDir)
  assert.deepEqual(host.hashes(), hashes)
  assert.deepEqual(await host.run(failure), [{ status: 'failed' }])
  assert.equal(host.resting(), 1)
  const [again] = await host.run(order(selling))
  assert.equal((again as { duplicate?: true }).duplicate, true)
  const [cancelled] = await host.run(cancel(1, 's', 1))
  assert.deepEqual(cancelled, { status: 'cancelled', orderHash: hashNamed('s') })
  assert.deepEqual(await host.run(order(selling)), [{ rejected: 'ORDER_CLOSED' }])
  await host.stop()
})

inFolder(
  'an order that is closed, reopened and closed again in one batch is recorded as closed',
  async (dataDir) => {
    const host = startHost(dataDir)
    const selling = signed(sell('YES').at(0.4).size(2).by('bob').named('s'), marketId(1))
    const buying = signed(buy('YES').at(0.4).size(2).by('ann').named('b'), marketId(1))
    await host.run(
      open(1),
      { type: 'PlaceOrder', message: { order: selling } },
      { type: 'PlaceOrder', message: { order: buying } },
      failed(1, 3, buying, selling),
      cancel(1, 's', 1),
    )
    const [s, b] = host.log.closedOrders(1, [selling.orderHash, buying.orderHash])
    assert.deepEqual([s?.reason, b?.reason], ['cancelled', 'filled'])
    await host.stop()
  },
)

inFolder(
  'after a failed append, the log decides whether an order was accepted, and resubmitting the order is safe',
  async (dataDir) => {
    const partitionBytesMax = 400_000
    const host = startHost(dataDir, { partitions: 1, partitionBytesMax })
    await host.run(open(1))
    const accepted: Command[] = []
    let lost: Command | undefined
    for (let n = 0; lost === undefined; n++) {
      const command = place(1, buy('YES').at(0.1).named(`n${n}`))
      try {
        await host.run(command)
        accepted.push(command)
      } catch (error) {
        assert(error instanceof Fault && error.code === 'LOG_APPEND_FAILED')
        lost = command
        // The other host runs only the accepted commands. After recovery, both hosts must have the same state.
        const other = startHost(`${dataDir}/other`, { partitions: 1 })
        await other.run(open(1))
        for (const each of accepted) await other.run(each)
        const before = other.hashes()
        await other.stop()
        assert.notDeepEqual(host.hashes(), before, 'the handler has changed the state')
        assert.equal(host.recover(), true)
        assert.deepEqual(host.hashes(), before, 'the append left nothing')
      }
    }
    const answers = await host.run(...accepted)
    assert(answers.every((answer) => (answer as { duplicate?: true }).duplicate))
    await host.stop()
    // After a restart with the default size limit, the lost order is accepted once.
    const roomier = startHost(dataDir, { partitions: 1 })
    const [first, second] = await roomier.run(lost, lost)
    assert.deepEqual(second, { ...(first as object), duplicate: true })
    assert.equal(roomier.resting(), accepted.length + 1)
    await roomier.stop()
  },
)

inFolder('a partition at its limit of remembered orders accepts no new orders', async (dataDir) => {
  const host = startHost(dataDir, { partitions: 1, closedOrdersMax: 2 })
  await host.run(open(1))
  await host.run(place(1, sell('YES').named('a')), place(1, buy('YES').named('b')))
  const [answer] = await host.run(place(1, buy('YES').named('c')))
  assert.deepEqual(answer, {
    rejected: 'OVERLOADED',
    detail: 'too many open orders on this exchange: retry later',
  })
  await host.stop()
})

inFolder('expired orders are forgotten, and still cannot be placed again', async (dataDir) => {
  let host = startHost(dataDir, { partitions: 1 })
  const order = place(
    1,
    buy('YES')
      .until(START_SEC + 100)
      .named('a'),
  )
  await host.run(open(1), order)
  await host.run(cancel(1, 'a', 0))
  host.at(500)
  host.tidy()
  await host.keepHouse()
  assert.equal(host.log.closedOrders(0, [hashNamed('a')]).at(0)?.reason, 'cancelled')
  // The log still keeps the record of this ended order, because the log's newest event is older than the order's
  // expiration. If the clock is behind after a restart, the order could otherwise be placed again.
  await host.stop()
  host = startHost(dataDir, { partitions: 1 })
  assert.deepEqual(await host.run(order), [{ rejected: 'ORDER_CLOSED' }])
  host.at(500)
  await host.run(place(1, buy('YES').named('b')))
  host.tidy()
  await host.keepHouse()
  assert.equal(host.log.closedOrders(0, [hashNamed('a')]).at(0), undefined)
  const [refused] = await host.run(order)
  assert.equal((refused as { rejected: string }).rejected, 'EXPIRATION_TOO_SOON')
  assert(host.log.state(0).lastMs >= (START_SEC + 500) * 1_000)
  await host.stop()
})

inFolder(
  'only the times in the log, not the clock, decide when a market is unloaded, also after a restart',
  async (dataDir) => {
    const options = { partitions: 1, snapshotEvery: 2 }
    let host = startHost(dataDir, options)
    const old = place(1, buy('YES').at(0.3).named('old'))
    await host.run(open(1), open(2, { expiration: START_SEC + 2_000_000 }), old)
    await host.run({ type: 'CloseMarket', message: { marketId: marketId(1), reason: 'resolved' } })
    for (let n = 0; n < 10; n++) {
      await host.run(place(2, buy('YES').at(0.2).named(`n${n}`)))
      await host.run(projectedTo(0, host.log.lastOffset(0)))
      host.tidy()
      await host.keepHouse()
    }
    host.at(1_000_001)
    host.tidy()
    await host.keepHouse()
    assert(host.thread.markets.has(marketId(1)), 'nothing durable has happened so late')
    await host.stop()
    host = startHost(dataDir, options)
    assert.deepEqual(await host.run(old), [{ rejected: 'MARKET_CLOSED' }])
    host.at(1_000_001)
    for (let n = 0; n < 5; n++) {
      await host.run(place(2, buy('YES').at(0.2).named(`late${n}`)))
      await host.run(projectedTo(0, host.log.lastOffset(0)))
      host.tidy()
      await host.keepHouse()
    }
    assert(!host.thread.markets.has(marketId(1)))
    await host.stop()
  },
)

inFolder(
  'a partition at its limit of remembered orders still gives resubmitted orders their first answer',
  async (dataDir) => {
    const host = startHost(dataDir, { partitions: 1, closedOrdersMax: 2 })
    const resting = place(1, buy('YES').at(0.1).named('resting'))
    const filled = place(1, sell('YES').named('filled'))
    const first = await host.run(open(1), resting, filled, place(1, buy('YES').named('other')))
    const again = await host.run(resting, filled, place(1, buy('YES').named('new')))
    assert.deepEqual(again.slice(0, 2), [
      { ...(first[1] as object), duplicate: true },
      { ...(first[2] as object), matches: 0, duplicate: true },
    ])
    assert.equal((again[2] as { rejected: string }).rejected, 'OVERLOADED')
    await host.stop()
  },
)

inFolder(
  'a market thread refuses to start if a market’s history is in the wrong partition',
  async (dataDir) => {
    const host = startHost(dataDir, { partitions: 2, own: [0, 1] })
    await host.run(open(1))
    await host.stop()
    const pinned = { partitions: 2, own: [0, 1], pins: { [marketId(1)]: 0 } }
    assert.throws(() => startHost(dataDir, pinned), /history in partition 1, .* partition 0/)
  },
)

inFolder(
  'a resolved market whose trades are settled is unloaded, and stays unloaded',
  async (dataDir) => {
    const options = { partitions: 1, snapshotEvery: 2 }
    let host = startHost(dataDir, options)
    const selling = signed(sell('YES').named('a'), marketId(1))
    const buying = signed(buy('YES').named('b'), marketId(1))
    const later = { expiration: START_SEC + 2_000_000 }
    await host.run(open(1), open(2, later))
    await host.run({ type: 'PlaceOrder', message: { order: selling } })
    await host.run({ type: 'PlaceOrder', message: { order: buying } })
    host.at(1_000_000)
    await host.run({ type: 'CloseMarket', message: { marketId: marketId(1), reason: 'expired' } })
    await host.run({ type: 'CloseMarket', message: { marketId: marketId(1), reason: 'resolved' } })
    let others = 10
    const goOn = async () => {
      for (let turn = 0; turn < 30; turn++) {
        await host.run(open(others++, later))
        await host.run(projectedTo(0, host.log.lastOffset(0)))
        host.tidy()
        await host.keepHouse()
      }
    }
    await goOn()
    assert(host.thread.markets.has(marketId(1)), 'a trade is unsettled')
    const { report: told } = failed(1, 3, buying, selling).message as { report: TradeReport }
    await host.run(report(1, { ...told, status: 'confirmed' }))
    await goOn()
    assert(!host.thread.markets.has(marketId(1)))
    assert.deepEqual([...takeGone(host.thread), ...takeGone(host.thread)], [marketId(1)])
    assert(host.thread.markets.has(marketId(2)))
    const hashes = host.hashes()
    await host.stop()
    host = startHost(dataDir, { ...options, nowMs: (START_SEC + 1_000_000) * 1_000 })
    assert.deepEqual(host.hashes(), hashes)
    assert.deepEqual(await host.run(open(1)), [{ rejected: 'MARKET_CLOSED' }])
    await host.stop()
  },
)

inFolder(
  'a market thread retries opening its log after a transient fault, but fails if the log is damaged',
  async (dataDir) => {
    let fault: Fault | undefined
    const host = startHost(dataDir, {
      partitions: 1,
      between: (log) => ({
        ...log,
        append: (partition, batch) =>
          fault === undefined ? log.append(partition, batch) : Promise.reject(fault),
        reopen(partition) {
          if (fault !== undefined) throw fault
          return log.reopen(partition)
        },
      }),
    })
    await host.run(open(1), place(1, buy('YES').named('a')))
    const before = host.hashes()
    fault = new Fault('LOG_OPEN_FAILED', 'the disk is full', { retryable: true })
    await assert.rejects(host.run(place(1, buy('YES').named('b'))), /the disk is full/)
    assert.equal(host.recover(), false)
    assert.deepEqual([...host.thread.away], [[0, 'the disk is full']])
    assert.deepEqual(await host.run(place(1, buy('YES').named('b'))), [
      { rejected: 'MARKET_NOT_FOUND' },
    ])
    host.tidy()
    assert.equal(await host.keepHouse(), 1)
    fault = new Fault('LOG_CORRUPT', 'a page is damaged', { retryable: false })
    assert.throws(() => host.recover(), /a page is damaged/)
    fault = undefined
    assert.equal(host.recover(), true)
    assert.equal(host.thread.away.size, 0)
    assert.deepEqual(host.hashes(), before)
    await host.stop()
  },
)

inFolder('a snapshot that cannot be written does not affect its market', async (dataDir) => {
  const { snapshots } = partitionPaths(dataDir, 0)
  const host = startHost(dataDir, { partitions: 1, snapshotEvery: 5 })
  // A file in place of the folder makes every snapshot fail.
  rmSync(snapshots, { recursive: true })
  writeFileSync(snapshots, '')
  await host.run(open(1))
  const fill = async (from: number) => {
    for (let n = from; n < from + 10; n++) {
      await host.run(place(1, buy('YES').at(0.1).named(`n${n}`)))
    }
    await host.keepHouse()
  }
  await fill(0)
  // The thread reports the failed snapshot only when `takeTrouble` is called. Until then, successful maintenance must
  // not hide the failure.
  host.tidy()
  await host.keepHouse()
  assert.match(takeTrouble(host.thread), /cannot write .*ENOTDIR/)
  assert.equal(takeTrouble(host.thread), '')
  assert.equal(host.resting(), 10)
  rmSync(snapshots)
  mkdirSync(snapshots)
  await fill(10)
  assert.equal(takeTrouble(host.thread), '')
  assert.equal(host.log.snapshots(0).length, 1)
  assert.equal(host.resting(), 20)
  // This snapshot fails at its last step, the rename, because a folder already has the target name.
  for (let n = 20; n < 30; n++) await host.run(place(1, buy('YES').at(0.1).named(`n${n}`)))
  const taken = join(snapshots, `${marketId(1)}-${host.log.lastOffset(0)}`)
  mkdirSync(taken)
  await host.keepHouse()
  assert.match(takeTrouble(host.thread), /cannot write/)
  rmSync(taken, { recursive: true })
  await fill(30)
  assert.equal(host.log.snapshots(0)[0]?.atOffset, host.log.lastOffset(0))
  await host.stop()
})

test('a market thread groups a large batch of commands by market, keeping each market’s order of arrival', () => {
  const batch = batches(77, 20).flat()
  const of = ({ message }: Command): string => {
    const { marketId: id, order } = message as { marketId?: string; order?: VerifiedOrder }
    return id ?? order?.marketId ?? ''
  }
  const grouped = byMarket(batch)
  assert.equal(grouped.length, batch.length)
  const changes = grouped.filter((command, index) => {
    const before = grouped[index - 1]
    return before === undefined || of(before) !== of(command)
  })
  assert.equal(changes.length, 4, 'each market once')
  for (const id of new Set(batch.map(of))) {
    const own = (command: Command) => of(command) === id
    assert.deepEqual(grouped.filter(own), batch.filter(own))
  }
  const few = batch.slice(0, 5)
  assert.equal(byMarket(few), few, 'a small one is left as it is')
})
