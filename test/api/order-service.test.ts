import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketView, OpenOrder } from '#actors/market/state.ts'
import { listMarkets } from '#api/markets/list-markets.ts'
import { orderbook } from '#api/markets/orderbook.ts'
import { makeOrderService, type OrderVerifier } from '#api/orders/order-service.ts'
import type { OrderSubmission } from '#api/orders/order-shapes.ts'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { type MarketBoard, makeBoard } from '#live/market-board.ts'
import { type MarketGateway, type MarketRef, makeGateway } from '#live/market-gateway.ts'
import { systemClock } from '#runtime/clock.ts'
import { marketNumbered } from '../support/seeded-markets.ts'
import { signedOrder } from '../support/signed-orders.ts'

const market = marketNumbered(0x51)
const trader = `0x${'1'.repeat(40)}` as Address
const hash = `0x${'2'.repeat(64)}` as OrderHash
const later = () => ({ deadlineAtMs: Date.now() + 120_000 })

function boardOf({ whole = true, current = true, closed = false } = {}): MarketBoard {
  const board = makeBoard({ isWhole: () => whole, isCurrent: () => current })
  const view: MarketView = {
    market,
    seq: 1,
    closed: closed ? 'resolved' : undefined,
    updatedAtMs: 0,
    bids: [[], []],
    asks: [[], []],
  }
  board.load(view)
  return board
}

function verifierOf(answer?: Rejection): OrderVerifier {
  return {
    inspect: async ({ order }) =>
      answer ?? { orderHash: hash, recovered: order.trader, flaw: null },
    verified: ({ order, signature }) => ({ ...order, orderHash: hash, signature }),
  }
}

function gatewayOf(answer: Rejection): MarketGateway {
  return { place: async () => answer } as Partial<MarketGateway> as MarketGateway
}

async function submissionTo(marketId: MarketId): Promise<OrderSubmission> {
  return (await signedOrder(marketId)) as unknown as OrderSubmission
}

function codeOf(answer: unknown): string | undefined {
  return isRejection(answer) ? answer.rejected : undefined
}

test('while a market thread is away, a market that is not here may exist', async () => {
  const unknown = await submissionTo(marketNumbered(0x52).id)
  for (const [current, code] of [
    [true, 'MARKET_NOT_FOUND'],
    [false, 'OVERLOADED'],
  ] as const) {
    const board = boardOf({ current })
    const gateway = gatewayOf(reject('INTERNAL'))
    const service = makeOrderService({ board, gateway, verifier: verifierOf(), clock: systemClock })
    assert.equal(codeOf(await service.place(unknown, later())), code)
    const check = await service.check(unknown)
    if (current) assert.ok(!isRejection(check) && check.errors[0]?.rejected === code)
    else assert.equal(codeOf(check), code)
    const path = { marketId: unknown.order.marketId }
    const answer = await orderbook({ board, waiters: { until: () => undefined } }).handle({
      path,
      query: {},
    } as never)
    assert.equal(codeOf(answer), current ? undefined : 'OVERLOADED')
  }
})

test('a list of markets waits until every thread has told its own', async () => {
  const listed = (board: MarketBoard) =>
    listMarkets({ board, storedMarkets: async () => [] }).handle({ query: {} } as never)
  assert.equal(codeOf(await listed(boardOf({ whole: false, current: false }))), 'OVERLOADED')
  // A thread that is being restarted has told them before.
  assert.equal(codeOf(await listed(boardOf({ whole: true, current: false }))), undefined)
})

test('a verify pool that is too busy says nothing about the order', async () => {
  const verifier = verifierOf(reject('OVERLOADED'))
  const gateway = gatewayOf(reject('INTERNAL'))
  const service = makeOrderService({ board: boardOf(), gateway, verifier, clock: systemClock })
  const submission = await submissionTo(market.id)
  assert.equal(codeOf(await service.place(structuredClone(submission), later())), 'OVERLOADED')
  assert.equal(codeOf(await service.check(structuredClone(submission))), 'OVERLOADED')
})

test('a market that is over and gone from its thread is closed, not unknown', async () => {
  const gateway = gatewayOf(reject('MARKET_NOT_FOUND'))
  const place = async (closed: boolean) => {
    const board = boardOf({ closed })
    const service = makeOrderService({ board, gateway, verifier: verifierOf(), clock: systemClock })
    return codeOf(await service.place(await submissionTo(market.id), later()))
  }
  assert.equal(await place(true), 'MARKET_CLOSED')
  assert.equal(await place(false), 'MARKET_NOT_FOUND')
})

/** A thread that answers everything with this. */
function threadOf(answer: unknown): MarketRef {
  return { ask: async () => answer, tell: () => {}, isOpen: true } as unknown as MarketRef
}

test('a thread that is full or away is no empty list, and no end of a cancel of all', async () => {
  const order = { orderHash: hash } as OpenOrder
  const fine = threadOf({ orders: [order] })
  for (const trouble of [
    reject('OVERLOADED'),
    reject('OUTCOME_UNKNOWN'),
    { unanswered: 'closed' },
    { unanswered: 'late' },
  ]) {
    const gateway = makeGateway([fine, threadOf(trouble)], () => 0, systemClock)
    assert.equal(codeOf(await gateway.openOrders(trader, undefined, later())), 'OVERLOADED')
  }
  const both = makeGateway([fine, fine], () => 0, systemClock)
  assert.deepEqual(await both.openOrders(trader, undefined, later()), [order, order])

  const gone = marketNumbered(0x53).id
  const threads = [threadOf({ orderHashes: [hash] }), threadOf(reject('MARKET_NOT_FOUND'))]
  const gateway = makeGateway(threads, (marketId) => (marketId === gone ? 1 : 0), systemClock)
  assert.deepEqual(await gateway.cancelAll(trader, [gone, market.id], later()), [hash])
  const lost = makeGateway([threadOf({ unanswered: 'closed' })], () => 0, systemClock)
  assert.equal(codeOf(await lost.cancelAll(trader, [market.id], later())), 'OUTCOME_UNKNOWN')
})

test('what was missed between two views is asked of the database', () => {
  const board = boardOf()
  const shown = board.markets.get(market.id)
  assert.ok(shown !== undefined)
  shown.trades.set('x' as never, {} as never)
  const view: MarketView = {
    market,
    seq: 1,
    closed: undefined,
    updatedAtMs: 5,
    bids: [[[400_000, 2n ** 60n]], []],
    asks: [[], []],
  }
  board.load(view)
  assert.equal(shown.trades.size, 1, 'nothing was missed')
  board.load({ ...view, seq: 9 })
  assert.equal(shown.trades.size, 0)
  assert.deepEqual(shown.books[0].levels(0), [[400_000, 2n ** 60n]])
})
