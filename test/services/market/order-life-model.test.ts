/**
 * Tests options of orders with random operations on a real log: book-by times, labels, groups, replacements and
 * dead-man switches. The process is killed before an append, after an append, and between batches. A failed trade may
 * return its quantity to the book. The checks use the answers, the events and the books.
 */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { Fault } from '#domain/fault.ts'
import { type Address, type MarketId, type OrderHash, tradeId } from '#domain/ids.ts'
import type { MarketEvent, OrdersMatched } from '#domain/market-event.ts'
import { isTakerBuyer } from '#domain/match-trades.ts'
import type { Price, Shares } from '#domain/money.ts'
import { OUTCOMES } from '#domain/order.ts'
import type { Protection } from '#domain/order-tags.ts'
import { isRejection } from '#domain/rejection.ts'
import type { EventLog } from '#log/event-log.ts'
import type { OrderAccepted, PlacedOrder, TradeReport } from '#protocol/market.ts'
import { buy, sell, traderNamed } from '../../support/orders.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { sampleOf, seedsOf } from '../../support/sample.ts'
import { START_SEC, signed } from './market-fixture.ts'
import { type Command, marketId, open, startHost } from './thread-fixture.ts'

const OPERATIONS = 100_000
/** Each seed has its own log. A restart reads the whole log, so several short runs cost less than a long one. */
const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
/** Without `npm run test:whole`, the test performs only one in this many operations. */
const SAMPLE = 16
const TRADERS = ['ann', 'bob', 'cat', 'dan']
const GROUPS = ['a', 'b']
const MARKETS = [marketId(1), marketId(2)]
/**
 * The order to replace is chosen from this many of the newest accepted orders, because older orders have usually ended.
 */
const RECENT = 200
/** Above this number of unsettled trades, the test settles trades more often than it places orders. */
const UNSETTLED_MANY = 300

/**
 * When a kill interrupts the next append: before the append, or after its events are durable. If undefined, the append
 * succeeds, and a kill can happen only between batches.
 */
type Kill = 'before' | 'after' | undefined

type Known = {
  readonly placed: PlacedOrder
  first: OrderAccepted | undefined
  /** True once the order was replaced, or cancelled by protection or by its dead-man switch. */
  gone: boolean
}

function makeModel(random: Random, dataDir: string) {
  let kill: Kill
  let nowMs = START_SEC * 1_000
  let count = 0
  const between = (log: EventLog<MarketEvent>): EventLog<MarketEvent> =>
    Object.assign(Object.create(log), {
      async append(...args: Parameters<typeof log.append>) {
        const how = kill
        kill = undefined
        if (how === 'before') throw new Fault('KILLED', 'before the append', { retryable: true })
        const done = await log.append(...args)
        if (how === 'after') throw new Fault('KILLED', 'after the append', { retryable: true })
        return done
      },
    }) as EventLog<MarketEvent>
  const begin = () =>
    startHost(dataDir, {
      between,
      partitions: 1,
      snapshotEvery: 500,
      synchronous: 'off',
      nowMs,
    } as never)
  let host = begin()

  const orders = new Map<OrderHash, Known>()
  const accepted: OrderHash[] = []
  /** Orders that rest, according to the events. */
  const resting = new Set<OrderHash>()
  /** Due time of each trader's dead-man switch. Like the database, it survives every kill. */
  const switches = new Map<Address, number>()
  /** By group: its protection, and the fills inside the time window of this protection. */
  const fills = new Map<string, { protection: Protection | undefined; fills: [number, number][] }>()
  /** Trades without an end, the oldest first. */
  const unsettled: { readonly marketId: MarketId; readonly report: TradeReport }[] = []
  const counts = {
    ...{ kills: 0, late: 0, replaced: 0, protected: 0, fired: 0, repeated: 0 },
    ...{ settled: 0, returned: 0 },
  }

  const isOpenAt = (id: MarketId, orderHash: OrderHash): boolean =>
    host.thread.markets.get(id)?.state.books.some((book) => {
      const slot = book.locate(orderHash)
      return slot >= 0 && book.read(slot, orderHash).expiresAtSec > Math.floor(nowMs / 1_000)
    }) === true

  const restsAt = (id: MarketId, orderHash: OrderHash): boolean =>
    host.thread.markets.get(id)?.state.books.some((book) => book.locate(orderHash) >= 0) === true

  /**
   * Applies the events of a step to the known state. Checks that no order marked `gone` rests again. If a group's
   * protection triggered, checks that no order of the group still rests. Orders whose answer is unknown are exempt.
   */
  function follow(events: readonly MarketEvent[]): void {
    const exceeded = new Set<string>()
    for (const event of events) {
      if (event.type === 'OrderRested') {
        const known = orders.get(event.orderHash)
        assert.ok(known !== undefined && !known.gone, 'no order that is gone for good rests again')
        resting.add(event.orderHash)
        if (event.returned) counts.returned++
        noteTags(known, event.marketId)
      } else if (event.type === 'OrderClosed') {
        const known = orders.get(event.orderHash)
        resting.delete(event.orderHash)
        if (event.cause !== undefined && known !== undefined) known.gone = true
      } else if (event.type === 'OrdersMatched') {
        const taker = orders.get(event.taker.orderHash)
        if (taker !== undefined) noteTags(taker, event.marketId)
        noteTrades(event)
        for (const fill of event.fills) {
          for (const hash of [fill.makerHash, event.taker.orderHash]) {
            const key = keyOf(orders.get(hash), event.marketId)
            if (key !== undefined && countFill(key, event.atMs, fill.size)) exceeded.add(key)
          }
        }
      }
    }
    for (const key of exceeded) {
      counts.protected++
      for (const hash of resting) {
        const known = orders.get(hash)!
        const isOfGroup = keyOf(known, known.placed.order.marketId) === key
        // An order whose answer is unknown may still rest. It may have been placed in the same batch, after the fill
        // that triggered the protection.
        assert.ok(!isOfGroup || known.first === undefined, 'nothing protected survives')
      }
    }
  }

  function noteTrades(event: OrdersMatched): void {
    const taker = orders.get(event.taker.orderHash)!.placed.order
    for (const [index, fill] of event.fills.entries()) {
      const maker = orders.get(fill.makerHash)!.placed.order
      const [bought, sold] = isTakerBuyer(taker, fill) ? [taker, maker] : [maker, taker]
      const report: TradeReport = {
        ...{ tradeId: tradeId(event.marketId, event.seq, index), size: fill.size as Shares },
        ...{ status: 'confirmed', txHash: '0xaa', reason: '', fault: 'none' },
        ...{ buy: bought, sell: sold },
      }
      unsettled.push({ marketId: event.marketId, report })
    }
  }

  /** Reports to the markets that the oldest trades settled or failed. */
  async function settleSome(): Promise<void> {
    const ended = unsettled.splice(0, random.int(1, 8))
    const batch: Command[] = ended.map(({ marketId: id, report }) => {
      const failed = {
        status: 'failed',
        reason: 'InsufficientShares',
        fault: random.pick(['buyer', 'seller', 'both', 'none'] as const),
      } as const
      const told = random.chance(0.3) ? { ...report, ...failed } : report
      return { type: 'ReportTrade', message: { marketId: id, report: told } }
    })
    if (batch.length === 0) return
    for (const answer of await run(batch)) assert.ok(!isRejection(answer), JSON.stringify(answer))
    counts.settled += batch.length
  }

  function keyOf(known: Known | undefined, id: MarketId): string | undefined {
    const group = known?.placed.tags?.group
    return group === undefined ? undefined : `${id} ${known?.placed.order.trader} ${group}`
  }

  function noteTags(known: Known, id: MarketId): void {
    const key = keyOf(known, id)
    if (key === undefined || known.first !== undefined) return
    const group = fills.get(key) ?? { protection: undefined, fills: [] }
    group.protection = known.placed.tags?.protection
    fills.set(key, group)
  }

  function countFill(key: string, atMs: number, size: number): boolean {
    const group = fills.get(key)
    if (group?.protection === undefined) return false
    const { windowMs, fillsMax = 1_000, sharesMax = Number.POSITIVE_INFINITY } = group.protection
    group.fills = group.fills.filter(([at]) => at > atMs - windowMs)
    group.fills.push([atMs, size])
    const shares = group.fills.reduce((sum, [, each]) => sum + each, 0)
    const isOver = group.fills.length > fillsMax || shares > sharesMax
    if (isOver) group.fills = []
    return isOver
  }

  function newOrder(): PlacedOrder {
    const trader = random.pick(TRADERS)
    const side = random.chance(0.5) ? buy : sell
    const builder = side(random.chance(0.7) ? 'YES' : 'NO')
      .exactly(random.int(1, 20) * 250_000)
      .by(trader)
      .until(Math.floor(nowMs / 1_000) + random.int(60, 5_000))
      .named(`m${count++}`)
    const price = (500_000 + random.int(-5, 5) * 1_000) as Price
    const placed: PlacedOrder = { order: { ...signed(builder, random.pick(MARKETS)), price } }
    if (random.chance(0.2)) placed.bookByMs = nowMs + random.int(-300, 300)
    if (random.chance(0.2)) placed.timeInForce = random.pick(['POST_ONLY', 'IOC', 'FOK'] as const)
    if (random.chance(0.6)) {
      const limits = random.chance(0.5)
        ? { fillsMax: random.int(1, 4) }
        : { sharesMax: (random.int(2, 20) * 250_000) as never }
      placed.tags = {
        label: `l${count}`,
        group: random.pick(GROUPS),
        ...(random.chance(0.8)
          ? { protection: { windowMs: random.int(1, 3_000), ...limits } }
          : {}),
      }
    }
    const recent = Math.max(0, accepted.length - RECENT)
    const from = random.chance(0.9) ? recent : 0
    const target =
      random.chance(0.3) && accepted.length > 0
        ? orders.get(accepted[random.int(from, accepted.length - 1)]!)
        : undefined
    if (target !== undefined) {
      placed.replaces = target.placed.order.orderHash
      placed.order = { ...placed.order, marketId: target.placed.order.marketId }
      if (random.chance(0.9)) {
        placed.order = { ...placed.order, trader: target.placed.order.trader }
      }
      if (random.chance(0.2)) placed.replaceMode = 'always'
    }
    orders.set(placed.order.orderHash, { placed, first: undefined, gone: false })
    return placed
  }

  /** Compares an answer with the known state. `wasOpen` is true if the order to be replaced was resting before. */
  function judge(placed: PlacedOrder, answer: unknown, wasOpen: boolean): void {
    const { orderHash, marketId: id } = placed.order
    const known = orders.get(orderHash)!
    if (isRejection(answer)) {
      if (answer.rejected === 'TOO_LATE') {
        assert.ok(placed.bookByMs !== undefined && nowMs > placed.bookByMs)
        counts.late++
      }
      if (answer.rejected === 'ORDER_CLOSED' && answer.field === 'replaces') {
        assert.ok(!wasOpen && placed.replaceMode !== 'always')
        assert.ok(!restsAt(id, orderHash), 'a refused replacement does not rest')
      }
      return
    }
    const { duplicate, ...first } = answer as OrderAccepted
    if (known.first === undefined) {
      // If a kill lost the first answer, the test knows only the answer to the repeated request, which is marked
      // `duplicate`.
      if (duplicate === undefined) {
        assert.ok((placed.bookByMs ?? nowMs) >= nowMs, 'nothing late is accepted')
      }
      known.first = first
      accepted.push(orderHash)
    } else {
      counts.repeated++
      assert.deepEqual(first, known.first, 'every answer is repeatable')
    }
    if (placed.replaces === undefined) return
    const replaced = orders.get(placed.replaces)
    assert.ok(!restsAt(id, placed.replaces), 'a replaced order has left')
    if (replaced !== undefined && duplicate === undefined) counts.replaced++
  }

  async function restart(): Promise<void> {
    counts.kills++
    const before = kill === undefined ? host.hashes() : undefined
    await host.stop()
    host = begin()
    assert.ok(
      before === undefined || isDeepStrictEqual(host.hashes(), before),
      'the log has it all',
    )
  }

  /** Runs a batch; if a kill interrupts it, sends it again, as clients do. */
  async function run(batch: Command[]): Promise<unknown[]> {
    const offset = host.log.lastOffset(0)
    try {
      const answers = await host.run(...batch)
      follow(host.said)
      return answers
    } catch (error) {
      assert.ok(error instanceof Fault && error.code === 'KILLED', String(error))
      counts.kills++
      await host.stop()
      host = begin()
      const written = host.log.read(0, offset + 1, 100_000).map(({ event }) => event)
      follow(written)
      return run(batch)
    }
  }

  async function placeSome(): Promise<void> {
    const again = random.chance(0.2) && accepted.length > 0
    const batch = Array.from({ length: random.chance(0.2) ? random.int(2, 4) : 1 }, () =>
      again ? orders.get(random.pick(accepted))!.placed : newOrder(),
    )
    const wasOpen = batch.map(({ order, replaces }) =>
      replaces === undefined ? false : isOpenAt(order.marketId, replaces),
    )
    const [first] = batch
    const isStep =
      first !== undefined &&
      random.chance(0.5) &&
      batch.every(({ order }) => order.marketId === first.order.marketId)
    const wasAt = nowMs
    if (isStep) {
      const message = { marketId: first.order.marketId, orders: batch }
      const [answer] = (await run([{ type: 'PlaceOrders', message }])) as [{ answers: unknown[] }]
      assert.equal(nowMs, wasAt)
      for (const [at, placed] of batch.entries()) judgeStep(placed, answer.answers[at])
      return
    }
    const answers = await run(batch.map((message) => ({ type: 'PlaceOrder', message })))
    if (batch.length > 1) for (const [at, placed] of batch.entries()) judgeStep(placed, answers[at])
    else judge(first!, answers[0], wasOpen[0]!)
  }

  /**
   * Checks one of several answers to a batch. Passes `wasOpen` as false, because an earlier order of the batch may have
   * replaced the same order.
   */
  function judgeStep(placed: PlacedOrder, answer: unknown): void {
    judge(placed, answer, false)
  }

  async function fire(): Promise<void> {
    for (const [trader, dueMs] of switches) {
      if (dueMs > nowMs) continue
      for (const id of MARKETS) {
        await run([{ type: 'CancelOrders', message: { marketId: id, trader, cause: 'deadman' } }])
      }
      switches.delete(trader)
      counts.fired++
      for (const hash of resting) {
        const isTheirs = orders.get(hash)?.placed.order.trader === trader
        assert.ok(!isTheirs, 'a dead-man switch leaves no order')
      }
    }
  }

  async function step(): Promise<void> {
    nowMs += random.int(0, 400)
    host.at((nowMs - START_SEC * 1_000) / 1_000)
    if (random.chance(0.02)) kill = random.pick(['before', 'after'] as const)
    const what = random.next()
    const placing = unsettled.length > UNSETTLED_MANY ? 0.3 : 0.6
    if (what < placing) await placeSome()
    else if (what < 0.8) await settleSome()
    else if (what < 0.86) {
      const trader = traderNamed(random.pick(TRADERS))
      const message = { marketId: random.pick(MARKETS), trader, group: random.pick(GROUPS) }
      await run([{ type: 'CancelOrders', message }])
      const { tagged, books } = host.thread.markets.get(message.marketId)!.state
      for (const hash of tagged.ordersOf(trader, message.group)) {
        assert.ok(OUTCOMES.every((outcome) => books[outcome].locate(hash) < 0))
      }
    } else if (what < 0.93) {
      switches.set(traderNamed(random.pick(TRADERS)), nowMs + random.int(100, 20_000))
    } else if (what < 0.97) {
      const message = { marketId: random.pick(MARKETS) }
      await run([{ type: 'Expire', message }])
    } else if (what < 0.98) {
      kill = undefined
      await host.keepHouse()
    } else {
      kill = undefined
      await restart()
      host.at((nowMs - START_SEC * 1_000) / 1_000)
    }
    await fire()
  }

  return {
    counts,
    step,
    begin: () => run([open(1), open(2)]),
    end: () => host.stop(),
  }
}

test('despite repeated kills, no order is placed after its deadline, and no group exceeds its fill limit', async () => {
  for (const seed of seedsOf(...SEEDS)) {
    const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-life-'))
    const model = makeModel(randomFrom(seed), dataDir)
    try {
      await model.begin()
      for (let step = 0; step < sampleOf(OPERATIONS / SEEDS.length, SAMPLE); step++)
        await model.step()
      for (const [what, times] of Object.entries(model.counts)) {
        assert.ok(times > 0, `the flow has no ${what}`)
      }
    } catch (error) {
      if (error instanceof Error) error.message = `TEST_SEED=${seed}: ${error.message}`
      throw error
    } finally {
      await model.end()
      rmSync(dataDir, { recursive: true, force: true })
    }
  }
})
