import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keepPages } from '#api/markets/kept-pages.ts'
import { listMarkets } from '#api/markets/list-markets.ts'
import { orderbook } from '#api/markets/orderbook.ts'
import { makeOrderService } from '#api/orders/order-service.ts'
import type { OrderSubmission } from '#api/orders/order-shapes.ts'
import type { OrderSigners } from '#api/orders/order-signers.ts'
import type { OrderVerifier } from '#api/orders/order-verifier.ts'
import { makeOwnOrders } from '#api/orders/own-orders.ts'
import { submissionShape } from '#api/orders/submission-reader.ts'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { CANCELLED_LISTED_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { joinAnswers } from '#http/joined-answers.ts'
import type { Principal } from '#http/route.ts'
import type { FundsGateway } from '#live/funds-gateway.ts'
import { type MarketBoard, makeBoard } from '#live/market-board.ts'
import { makeMarketEvents } from '#live/market-events.ts'
import { makeFiguresBook } from '#live/market-figures.ts'
import {
  type MarketGateway,
  type MarketRef,
  makeGateway,
  type OrderContext,
} from '#live/market-gateway.ts'
import { makeSeqWaiters } from '#live/seq-waiters.ts'
import type { MarketView, OpenOrder, OrderAccepted } from '#protocol/market.ts'
import { systemClock } from '#runtime/clock.ts'
import { marketNumbered } from '../support/seeded-markets.ts'
import { signedOrder } from '../support/signed-orders.ts'

const market = marketNumbered(0x51)
const trader = `0x${'1'.repeat(40)}` as Address
const hash = `0x${'2'.repeat(64)}` as OrderHash
const later = () => ({ deadlineAtMs: Date.now() + 120_000 })

const viewOf: MarketView = {
  market,
  seq: 1,
  closed: undefined,
  updatedAtMs: 0,
  bids: [[], []],
  asks: [[], []],
}

function boardOf({ whole = true, current = true, closed = false } = {}): MarketBoard {
  const board = makeBoard({ isWhole: () => whole, isCurrent: () => current })
  board.load({ ...viewOf, closed: closed ? 'resolved' : undefined })
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
  const gateway: Partial<MarketGateway> = {
    place: async () => answer,
    standing: async () => undefined,
  }
  return gateway as MarketGateway
}

async function submissionTo(marketId: MarketId): Promise<OrderSubmission> {
  return (await signedOrder(marketId)) as unknown as OrderSubmission
}

function codeOf(answer: unknown): string | undefined {
  return isRejection(answer) ? answer.rejected : undefined
}

test('a permit with a value of 2^256 or more is refused by the schema of the order', async () => {
  const fits = (value: unknown) =>
    submissionShape.fits({ ...signed, permitSignature: { ...permit, value } })
  const signed = await signedOrder(market.id)
  const permit = {
    nonce: 0,
    deadline: 1,
    v: 27,
    r: `0x${'1'.repeat(64)}`,
    s: `0x${'2'.repeat(64)}`,
  }
  assert.ok(fits(String(2n ** 256n - 1n)))
  for (const value of [String(2n ** 256n), '9'.repeat(78), 1, 2n ** 256n]) assert.ok(!fits(value))
})

test('an order that its trader withdrew on chain is refused, unless its market has already accepted the order', async () => {
  const submission = await submissionTo(market.id)
  const flaw = reject('ORDER_NONCE_TOO_LOW', 'order.nonce')
  const accepted = { orderHash: hash, status: 'accepted' } as OrderAccepted
  for (const isKnown of [false, true]) {
    const gateway = {
      ...gatewayOf(reject('INTERNAL')),
      recall: async () => (isKnown ? { ...accepted, left: 0 } : undefined),
      place: async () => accepted,
    } as unknown as MarketGateway
    const service = makeOrderService({
      ...{ board: boardOf(), gateway, verifier: verifierOf(), clock: systemClock },
      expirationDaysMax: 366,
      withdrawn: { flawOf: async () => flaw },
    })
    const answer = await service.place(submission, later())
    assert.deepEqual(answer, isKnown ? accepted : flaw)
    const check = await service.check(submission, later())
    assert.ok(!isRejection(check))
    assert.deepEqual(check.errors, [flaw])
  }
})

test('while a market thread is unavailable, an order for an unknown market gets OVERLOADED, not MARKET_NOT_FOUND', async () => {
  const unknown = await submissionTo(marketNumbered(0x52).id)
  for (const [current, code] of [
    [true, 'MARKET_NOT_FOUND'],
    [false, 'OVERLOADED'],
  ] as const) {
    const board = boardOf({ current })
    const gateway = gatewayOf(reject('INTERNAL'))
    const service = makeOrderService({
      board,
      gateway,
      verifier: verifierOf(),
      clock: systemClock,
      expirationDaysMax: 366,
    })
    assert.equal(codeOf(await service.place(unknown, later())), code)
    const check = await service.check(unknown, later())
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

test('an order for a market that a front has not loaded yet waits until the front has loaded it', async () => {
  const submission = await submissionTo(market.id)
  const told = boardOf()
  for (const isToldInTime of [true, false]) {
    const board = makeBoard({ isWhole: () => false, isCurrent: () => false })
    const service = makeOrderService({
      ...{ board, gateway: gatewayOf(reject('ORDER_CLOSED')), verifier: verifierOf() },
      ...{ clock: systemClock, expirationDaysMax: 366 },
      known(marketId) {
        assert.equal(marketId, market.id)
        const { market: shown, seq, updatedAtMs } = told.markets.get(market.id)!
        const view = { market: shown, seq, updatedAtMs, closed: undefined }
        if (!isToldInTime) return new Promise(() => undefined)
        return Promise.resolve().then(() => board.load({ ...view, bids: [[], []], asks: [[], []] }))
      },
    })
    const deadlineAtMs = isToldInTime ? later().deadlineAtMs : Date.now() + 10
    const answer = await service.place(structuredClone(submission), { deadlineAtMs })
    assert.equal(codeOf(answer), isToldInTime ? 'ORDER_CLOSED' : 'OVERLOADED')
  }
})

test('a request for the market list gets OVERLOADED until every market thread has sent its markets once', async () => {
  const listed = (board: MarketBoard) =>
    listMarkets({
      ...{ board, storedMarkets: async () => [], nowMs: systemClock.nowMs },
      figures: makeFiguresBook({ board: () => board, stored: async () => [], clock: systemClock }),
      marketEvents: makeMarketEvents(async () => []),
      waiters: makeSeqWaiters(() => board, systemClock),
      joined: joinAnswers({ listsMax: 1 }),
      pages: keepPages({ board, nowMs: systemClock.nowMs, keepMs: 0, pagesMax: 1 }),
    }).handle({ query: {}, headers: {} } as never)
  assert.equal(codeOf(await listed(boardOf({ whole: false, current: false }))), 'OVERLOADED')
  // A market thread restarts. The front still has the markets that this thread sent before, so it answers at once.
  assert.equal(codeOf(await listed(boardOf({ whole: true, current: false }))), undefined)
})

test('if signature verification is overloaded, placing and validating an order both return OVERLOADED', async () => {
  const verifier = verifierOf(reject('OVERLOADED'))
  const gateway = gatewayOf(reject('INTERNAL'))
  const service = makeOrderService({
    board: boardOf(),
    gateway,
    verifier,
    clock: systemClock,
    expirationDaysMax: 366,
  })
  const submission = await submissionTo(market.id)
  assert.equal(codeOf(await service.place(structuredClone(submission), later())), 'OVERLOADED')
  assert.equal(codeOf(await service.check(structuredClone(submission), later())), 'OVERLOADED')
})

test('an order for an ended and unloaded market is refused with MARKET_CLOSED, not MARKET_NOT_FOUND', async () => {
  const gateway = gatewayOf(reject('MARKET_NOT_FOUND'))
  const place = async (closed: boolean) => {
    const board = boardOf({ closed })
    const service = makeOrderService({
      board,
      gateway,
      verifier: verifierOf(),
      clock: systemClock,
      expirationDaysMax: 366,
    })
    return codeOf(await service.place(await submissionTo(market.id), later()))
  }
  assert.equal(await place(true), 'MARKET_CLOSED')
  assert.equal(await place(false), 'MARKET_NOT_FOUND')
  // Removes the ended market from the board before the order arrives.
  const board = boardOf({ closed: true })
  board.forget([market.id])
  const service = makeOrderService({
    board,
    gateway,
    verifier: verifierOf(),
    clock: systemClock,
    expirationDaysMax: 366,
  })
  assert.equal(codeOf(await service.place(await submissionTo(market.id), later())), 'MARKET_CLOSED')
})

/** Returns a market thread that answers every request with `answer`. */
function threadOf(answer: unknown): MarketRef {
  return { ask: async () => answer, tell: () => {}, isOpen: true } as unknown as MarketRef
}

test('listing open orders fails with OVERLOADED if a market thread is overloaded or does not answer', async () => {
  const order = { orderHash: hash } as OpenOrder
  const fine = threadOf({ orders: [order], count: 1 })
  const asked = { trader, limit: 10 }
  for (const trouble of [
    reject('OVERLOADED'),
    reject('OUTCOME_UNKNOWN'),
    { unanswered: 'closed' },
    { unanswered: 'late' },
  ]) {
    const gateway = makeGateway([fine, threadOf(trouble)], () => 0, systemClock)
    assert.equal(codeOf(await gateway.openOrdersPage(asked, later())), 'OVERLOADED')
  }
  const both = makeGateway([fine, fine], () => 0, systemClock)
  assert.deepEqual(await both.openOrdersPage(asked, later()), { orders: [order, order], count: 2 })
})

/** Makes a market thread with the orders of one trader. `orders` has the number of orders per market. */
function threadWith(
  orders: Map<MarketId, number>,
  stepMax: number,
  steps: string[],
  trading: readonly MarketId[] = [],
): MarketRef {
  const ask = async (type: string, message: { marketId: MarketId; limit: number }) => {
    if (type === 'PendingMarkets') return { marketIds: trading }
    if (type === 'MarketsOf') {
      const marketIds = [...orders.keys()].filter((marketId) => orders.get(marketId) !== 0)
      return { marketIds: marketIds.slice(0, message.limit) }
    }
    const left = orders.get(message.marketId)
    if (left === undefined) return reject('MARKET_NOT_FOUND')
    const step = Math.min(left, stepMax)
    steps.push(`${step} of ${left}`)
    orders.set(message.marketId, left - step)
    const pending = trading.includes(message.marketId) ? [{ orderHash: hash, pendingSize: 5 }] : []
    return { orderHashes: Array(step).fill(hash), pending, more: left > step }
  }
  return { ask, tell: () => {}, isOpen: true } as unknown as MarketRef
}

test('a trader’s request to cancel all orders is executed in limited steps, and finds none in ended markets', async () => {
  const steps: string[] = []
  const other = marketNumbered(0x53).id
  const threads = [
    threadWith(new Map([[market.id, 25_000]]), 1_000, steps),
    threadWith(new Map([[other, 3]]), 1_000, steps, [other]),
  ]
  const gateway = makeGateway(threads, (marketId) => (marketId === other ? 1 : 0), systemClock)
  const all = await gateway.cancelAll(trader, {}, later())
  assert(!isRejection(all))
  assert.equal(all.count, 25_003)
  assert.equal(all.orderHashes.length, CANCELLED_LISTED_MAX)
  assert.deepEqual(all.pending, [{ orderHash: hash, pendingSize: 5 }])
  assert.equal(steps.length, 26)
  const gone = await gateway.cancelAll(trader, { marketId: marketNumbered(0x54).id }, later())
  assert.deepEqual(
    gone,
    { orderHashes: [], pending: [], count: 0 },
    'a market that is over has none',
  )
  for (const [trouble, code] of [
    [{ unanswered: 'closed' }, 'OUTCOME_UNKNOWN'],
    [reject('OVERLOADED'), 'OVERLOADED'],
  ] as const) {
    const lost = makeGateway([threadOf(trouble)], () => 0, systemClock)
    assert.equal(codeOf(await lost.cancelAll(trader, { marketId: market.id }, later())), code)
    assert.equal(codeOf(await lost.cancelAll(trader, {}, later())), 'OVERLOADED')
  }
})

test('a delegate appointed on one chain can neither cancel nor replace orders on another chain', async () => {
  const elsewhere = { ...marketNumbered(0x55), chainId: market.chainId + 1 }
  const board = boardOf()
  board.load({ ...viewOf, market: elsewhere })
  const asked: unknown[] = []
  const thread = {
    async ask(type: string, message: object) {
      asked.push([type, message])
      if (type === 'CancelOrders') return { orderHashes: [hash], pending: [] }
      return { marketIds: [] }
    },
  } as unknown as MarketRef
  const gateway = makeGateway([thread], () => 0, systemClock)
  const actsOn = async () => [market.chainId]
  const own = makeOwnOrders({
    ...{ board, gateway, actsOn, nowMs: systemClock.nowMs },
    switches: { set: async () => undefined, clear: async () => undefined },
  })
  const bot = { keyId: 'bot', address: `0x${'b'.repeat(40)}` as Address } as Principal
  const where = (id: MarketId) => own.traderOf(bot, trader, id)
  assert.equal(await where(market.id), trader)
  assert.equal(codeOf(await where(elsewhere.id)), 'NOT_ORDER_OWNER')
  assert.equal(codeOf(await where(marketNumbered(0x56).id)), 'MARKET_NOT_FOUND')
  const { deadlineAtMs } = later()
  const inMarket = { market: elsewhere.id, trader }
  assert.equal(codeOf(await own.cancelAll(bot, inMarket, deadlineAtMs)), 'NOT_ORDER_OWNER')
  assert.deepEqual(asked, [])
  assert(!isRejection(await own.cancelAll(bot, { trader }, deadlineAtMs)))
  const onChain = { trader, chainId: market.chainId }
  assert.deepEqual(asked, [
    ['PendingMarkets', onChain],
    ['MarketsOf', { ...onChain, limit: 64 }],
  ])

  const accepted = { orderHash: hash, status: 'accepted' } as OrderAccepted
  const service = makeOrderService({
    ...{ board, gateway: { ...gatewayOf(reject('INTERNAL')), place: async () => accepted } },
    ...{ verifier: verifierOf(), clock: systemClock, expirationDaysMax: 366, actsOn },
  })
  for (const [marketId, code] of [
    [market.id, undefined],
    [elsewhere.id, 'NOT_ORDER_OWNER'],
  ] as const) {
    const replacing = { ...(await submissionTo(marketId)), replaces: hash }
    assert.equal(codeOf(await service.place(replacing, { ...later(), principal: bot })), code)
  }
})

test('the validation of an order reports if its trader is paused or its value is below the minimum', async () => {
  const submission = await submissionTo(market.id)
  const paused = { ...reject('TRADER_PAUSED', 'order.trader', 'later'), retryAfterSec: 7 }
  const check = async (refused: Rejection | undefined, minNotional: number) => {
    const gateway = { ...gatewayOf(reject('INTERNAL')), standing: async () => refused }
    const ports = { board: boardOf(), gateway, verifier: verifierOf(), clock: systemClock }
    const service = makeOrderService({ ...ports, expirationDaysMax: 366, minNotional })
    return service.check(structuredClone(submission), later())
  }
  const { price, size } = submission.order
  const worth = (price * size) / 1_000_000
  const errorsOf = async (...asked: Parameters<typeof check>) => {
    const answer = await check(...asked)
    return isRejection(answer)
      ? answer
      : answer.errors.map(({ rejected, field }) => [rejected, field])
  }
  assert.deepEqual(await errorsOf(undefined, worth), [])
  assert.deepEqual(await errorsOf(undefined, worth + 1), [['NOTIONAL_TOO_SMALL', 'order.size']])
  assert.deepEqual(await errorsOf(paused, 0), [['TRADER_PAUSED', 'order.trader']])
  assert.equal(codeOf(await check(reject('OVERLOADED'), 0)), 'OVERLOADED')
})

test('if a front missed events of a market, a reload replaces its book and discards its cached trades', () => {
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

test('the order service reserves the funds of an order before it places the order', async () => {
  const said: string[] = []
  let place: Rejection | OrderAccepted = {
    orderHash: hash,
    status: 'accepted',
    matches: 0,
    timestamp: 1,
  }
  let short: Rejection | undefined
  let before: OrderAccepted | undefined
  const gateway = {
    async place(_order, { isReserved }) {
      assert.equal(isReserved, true)
      said.push('placed')
      return place
    },
    recall: async () => before,
    standing: async () => undefined,
  } as Partial<MarketGateway> as MarketGateway
  const funds: FundsGateway = {
    async reserve({ orderHash }, chainId) {
      assert.deepEqual([orderHash, chainId], [hash, market.chainId])
      said.push('reserved')
      return short
    },
    release: () => void said.push('released'),
    check: async () => short,
    funds: async () => reject('OVERLOADED'),
  }
  const board = boardOf()
  const verifier = verifierOf()
  const service = makeOrderService({
    ...{ board, gateway, funds, verifier, clock: systemClock },
    expirationDaysMax: 366,
  })
  const submission = await submissionTo(market.id)
  const placed = async () => {
    said.length = 0
    return service.place(structuredClone(submission), later())
  }

  assert.equal(codeOf(await placed()), undefined)
  assert.deepEqual(said, ['reserved', 'placed'])

  // The service releases the reserved funds, unless the market may have accepted the order.
  for (const [code, released] of [
    ['MARKET_CLOSED', true],
    ['OVERLOADED', true],
    ['OUTCOME_UNKNOWN', false],
    ['INTERNAL', false],
  ] as const) {
    place = reject(code)
    assert.equal(codeOf(await placed()), code)
    assert.deepEqual(said, ['reserved', 'placed', ...(released ? ['released'] : [])])
  }
  place = { orderHash: hash, status: 'accepted', matches: 0, timestamp: 1, duplicate: true }
  await placed()
  assert.deepEqual(said, ['reserved', 'placed', 'released'])

  short = reject('INSUFFICIENT_FUNDS', 'order.size', '1 is missing')
  assert.deepEqual(await placed(), short)
  assert.deepEqual(said, ['reserved'])
  const check = await service.check(structuredClone(submission), later())
  assert.deepEqual(!isRejection(check) && check.errors, [short])
  // A resubmitted order gets the answer of its first submission, even if the trader no longer has the funds.
  before = place
  assert.deepEqual(await placed(), place)

  short = reject('CHAIN_UNAVAILABLE')
  assert.deepEqual(await service.check(structuredClone(submission), later()), short)
})

test('an order is sent to its market with its remaining time only if its funds are reserved', async () => {
  const sent: object[] = []
  const thread = {
    isOpen: true,
    async ask(_type: string, message: object) {
      sent.push(message)
      return reject('MARKET_CLOSED')
    },
  } as unknown as MarketRef
  const clock = { nowMs: () => 1_000 }
  const gateway = makeGateway([thread], () => 0, clock)
  const order = { marketId: market.id, orderHash: hash } as Parameters<MarketGateway['place']>[0]
  const context = { deadlineAtMs: 4_000 } as OrderContext
  const reserved = { ...context, isReserved: true }
  await gateway.place(order, context)
  await gateway.place(order, reserved)
  await gateway.placeAll(market.id, [{ order, context: reserved }], context)
  assert.deepEqual(sent, [
    { order },
    { order, reservedMs: 3_000 },
    { marketId: market.id, orders: [{ order, reservedMs: 3_000 }] },
  ])
})

test('the order service counts the unfunded orders of each client, and refuses further orders from frequent offenders', async () => {
  const counted: unknown[] = []
  let waitSec = 0
  let inspections = 0
  let answer: Rejection = reject('TRADER_PAUSED')
  let standing: Rejection | undefined
  const gateway: Partial<MarketGateway> = {
    place: async () => answer,
    standing: async () => standing,
  }
  const verifier = verifierOf()
  const service = makeOrderService({
    board: boardOf(),
    gateway: gateway as MarketGateway,
    verifier: {
      ...verifier,
      inspect(signed) {
        inspections++
        return verifier.inspect(signed)
      },
    },
    clock: systemClock,
    expirationDaysMax: 366,
    unfunded: {
      count: (ip, principal) => counted.push([ip, principal]),
      waitSec: (ip, principal) => (ip === '10.0.0.1' && principal?.keyId === 'k' ? waitSec : 0),
    },
  })
  const principal = { keyId: 'k', address: trader }
  const submission = await submissionTo(market.id)
  const from = () => ({ ...later(), ip: '10.0.0.1', principal })
  await service.place(structuredClone(submission), from())
  assert.deepEqual(counted.splice(0), [['10.0.0.1', principal]])
  // For an order with options, the service makes a new context. The context must keep the client's IP address and API
  // key, because an unfunded order is counted for both.
  await service.place({ ...structuredClone(submission), postOnly: true }, from())
  assert.deepEqual(counted.splice(0), [['10.0.0.1', principal]])
  for (const code of ['INSUFFICIENT_FUNDS', 'INSUFFICIENT_ALLOWANCE'] as const) {
    answer = reject(code)
    await service.place(structuredClone(submission), from())
    assert.equal(counted.splice(0).length, 1, code)
  }
  for (const code of ['MARKET_CLOSED', 'OVERLOADED', 'ORDER_CLOSED'] as const) {
    answer = reject(code)
    await service.place(structuredClone(submission), from())
    assert.deepEqual(counted, [], code)
  }
  await service.check(structuredClone(submission), from())
  assert.deepEqual(counted, [])
  standing = reject('TRADER_PAUSED')
  await service.check(structuredClone(submission), from())
  assert.equal(counted.splice(0).length, 1)
  await service.place(structuredClone(submission), later())
  assert.deepEqual(counted, [], 'nobody is known to ask')

  waitSec = 7
  const before = inspections
  const refused = await service.place(structuredClone(submission), from())
  assert(isRejection(refused) && refused.rejected === 'RATE_LIMITED' && refused.retryAfterSec === 7)
  assert.equal(codeOf(await service.check(structuredClone(submission), from())), 'RATE_LIMITED')
  assert.equal(inspections, before, 'nothing is spent on it')
  await service.place(structuredClone(submission), { ...from(), ip: '10.0.0.2' })
  assert.equal(inspections, before + 1, 'others go on')
})

test('an order that exceeds the limits of a delegate counts towards its client’s limit of unfunded orders', async () => {
  const counted: unknown[] = []
  const delegate = `0x${'b'.repeat(40)}` as Address
  const verifier = verifierOf()
  const service = makeOrderService({
    board: boardOf(),
    gateway: { ...gatewayOf(reject('INTERNAL')), recall: async () => undefined },
    verifier: {
      ...verifier,
      inspect: async (signed) => ({ ...(await verifier.inspect(signed)), flaw: 'another key' }),
    },
    signers: {
      signerOf: async () => ({
        kind: 'delegate',
        chainId: market.chainId,
        delegation: { delegate },
      }),
      limitFlaw: async () => reject('DELEGATE_LIMIT', 'signature'),
      release: () => undefined,
    } as unknown as OrderSigners,
    clock: systemClock,
    expirationDaysMax: 366,
    unfunded: { count: (ip) => counted.push(ip), waitSec: () => 0 },
  })
  const submission = await submissionTo(market.id)
  const from = { ...later(), ip: '10.0.0.1' }
  assert.equal(codeOf(await service.place(structuredClone(submission), from)), 'DELEGATE_LIMIT')
  assert.deepEqual(counted.splice(0), ['10.0.0.1'])
  assert(!isRejection(await service.check(structuredClone(submission), from)))
  assert.deepEqual(counted, ['10.0.0.1'])
})
