/** The exchange as users of ccxt have it, on a running devnet: every method, and its structures. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import {
  AuthenticationError,
  BadRequest,
  BadSymbol,
  ExchangeClosedByUser,
  InvalidOrder,
  OperationRejected,
  OrderImmediatelyFillable,
  OrderNotFillable,
  OrderNotFound,
  PredictionExchange,
  type PredictionMarket,
} from 'ccxt'
import { Sibyl } from '#ccxt/sibyl.ts'
import { registerApiKey } from '#client/api-keys.ts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import {
  checkBook,
  checkCandle,
  checkHas,
  checkMarket,
  checkOrder,
  checkPosition,
  checkTicker,
  checkTrade,
} from './structures.ts'

const [MAKER, TAKER] = [16, 19]

export async function tryCcxt(t: TestContext, { url }: Exchange): Promise<void> {
  const urls = { api: { rest: url } }
  const key = await registerApiKey({ url }, devnetKey(MAKER), { name: 'ccxt' })
  const ann = new Sibyl({
    ...{ urls, enableRateLimit: false, privateKey: devnetKey(MAKER) },
    ...{ apiKey: key.id, secret: key.privateKey },
  })
  const bob = new Sibyl({ urls, privateKey: devnetKey(TAKER), enableRateLimit: false })
  t.after(() => Promise.all([ann.close(), bob.close()]))
  const markets = Object.values(await ann.loadMarkets()) as unknown as PredictionMarket[]
  // The last market: the other stories use the first.
  const market = markets.at(-1)!
  const [yes, no] = market.outcomes.map(({ outcome }) => outcome) as [string, string]

  await t.test('ccxt: the exchange lists the methods that it has', () =>
    checkHas(ann, PredictionExchange.prototype),
  )

  await t.test('ccxt: markets are loaded, and outcomes are found by name and id', async () => {
    for (const one of markets) checkMarket(ann, one)
    assert.equal(new Set(markets.map((one) => one.market)).size, markets.length)
    assert.equal(await ann.fetchOutcome(`${market.id}:NO`), ann.outcome(no))
    await assert.rejects(ann.fetchTicker('NO_SUCH_MARKET:YES'), BadSymbol)
    await assert.rejects(ann.fetchTicker(`0x${'7e'.repeat(32)}:YES`), BadSymbol)
    const now = (await ann.fetchTime()) ?? 0
    assert.ok(Number.isSafeInteger(now))
    assert.equal((await ann.fetchStatus()).status, 'ok')
  })

  await t.test('ccxt: events are loaded with their markets', async () => {
    const events = await ann.fetchEvents({ status: 'all' })
    for (const { id, slug, markets: own } of events) {
      const whole = await ann.fetchEvent(id)
      assert.equal(whole.slug, slug)
      assert.ok(own.length > 0 && whole.markets.length >= own.length)
      for (const one of whole.markets) {
        checkMarket(ann, one)
        assert.equal(one.event, whole.event)
      }
      assert.equal(ann.getEvent(id), whole)
      assert.deepEqual(
        (await ann.fetchEvents({ slug: id })).map((each) => each.id),
        [id],
      )
    }
    assert.equal((await ann.fetchEvents({ limit: 1 })).length, Math.min(1, events.length))
    await assert.rejects(ann.fetchEvent('no-such-event'), BadRequest)
  })

  await t.test('ccxt: an order is placed, read, replaced and cancelled', async () => {
    const placed = await ann.createOrder(yes, 'limit', 'buy', 12.5, 0.31, {
      clientOrderId: 'first',
    })
    checkOrder(ann, placed)
    assert.deepEqual(
      [placed.status, placed.filled, placed.remaining, placed.clientOrderId],
      ['open', 0, 12.5, 'first'],
    )
    const [open] = await ann.fetchOpenOrders(yes)
    checkOrder(ann, open!)
    assert.deepEqual([open?.id, open?.clientOrderId, open?.price], [placed.id, 'first', 0.31])
    const edited = await ann.editOrder(placed.id!, yes, 'limit', 'buy', 10, 0.3)
    const ids = (await ann.fetchOpenOrders(yes)).map(({ id }) => id)
    assert.deepEqual(ids, [edited.id], 'the old order left when the new one entered')
    assert.equal((await ann.fetchOrder(placed.id!)).status, 'canceled')
    // The old order is gone, so nothing replaces it.
    await assert.rejects(ann.editOrder(placed.id!, yes, 'limit', 'buy', 10, 0.3), OrderNotFound)
    assert.equal((await ann.cancelOrder(edited.id!)).status, 'canceled')
    await assert.rejects(ann.cancelOrder(edited.id!), OrderNotFound)
    const ended = await ann.fetchOrder(edited.id!, yes)
    checkOrder(ann, ended)
    assert.deepEqual([ended.status, ended.remaining], ['canceled', 10])
  })

  await t.test('ccxt: books, tickers, trades, candles and fills are read', async () => {
    const live = ann.watchOrderBook(yes)
    checkBook(ann, await live)
    const trades = ann.watchTrades(yes)
    const orders = ann.watchOrders()
    const own = ann.watchMyTrades(yes)
    const ticker = await ann.watchTicker(yes)
    checkTicker(ann, ticker)
    // The three watches are ready when their first call has subscribed: the ticker's answer came after them.
    const bid = await ann.createOrder(yes, 'limit', 'buy', 8, 0.4, { clientOrderId: 'bid' })
    const [seen] = await orders
    checkOrder(ann, seen!)
    assert.deepEqual([seen?.id, seen?.status, seen?.clientOrderId], [bid.id, 'open', 'bid'])
    const book = await ann.watchOrderBook(yes, 1)
    checkBook(ann, book)
    assert.deepEqual(book.bids, [[0.4, 8]])
    const sold = await bob.createOrder(yes, 'limit', 'sell', 3, 0.35)
    checkOrder(bob, sold)
    assert.deepEqual([sold.status, sold.filled, sold.remaining], ['closed', 3, 0])
    const [trade] = await trades
    checkTrade(ann, trade!)
    assert.deepEqual([trade?.price, trade?.amount, trade?.side], [0.4, 3, 'sell'])
    const [mine] = await own
    assert.deepEqual([mine?.side, mine?.takerOrMaker], ['buy', 'maker'])
    const [filled] = await ann.watchOrders()
    assert.deepEqual([filled?.id, filled?.filled, filled?.remaining], [bid.id, 3, 5])
    const changed = await ann.watchTickers([yes])
    checkTicker(ann, changed[yes]!)
    checkBook(ann, await bob.fetchOrderBook(yes, 5))
    await eventually(async () => {
      const public_ = (await bob.fetchTrades(yes)).at(-1)
      checkTrade(bob, public_!)
      assert.equal(public_?.side, 'sell')
      const fill = (await ann.fetchMyTrades(yes)).at(-1)
      checkTrade(ann, fill!)
      const { order, side, takerOrMaker, amount, info } = fill!
      assert.deepEqual([order, side, takerOrMaker, amount], [bid.id, 'buy', 'maker', 3])
      assert.equal(info.label, 'bid')
      assert.equal((await ann.fetchOrderTrades(bid.id!))[0]?.id, fill?.id)
      const [candle] = await ann.fetchOHLCV(yes, '1m')
      checkCandle(candle!)
      const quote = await ann.fetchTicker(yes)
      checkTicker(ann, quote)
      assert.deepEqual([quote.bid, quote.last], [0.4, 0.4])
    })
    const tickers = await bob.fetchTickers()
    assert.equal(Object.keys(tickers).length, markets.length * 2)
    for (const one of Object.values(tickers)) checkTicker(bob, one)
    assert.ok(((await bob.fetchOpenInterest(yes)).openInterestValue ?? 0) > 0)
    assert.equal((await bob.fetchTradingFee(yes)).taker, 0)
  })

  await t.test('ccxt: balances and positions are read', async () => {
    const { USDC } = (await ann.fetchBalance()) as unknown as Record<string, Record<string, number>>
    assert.equal(USDC?.used, 2, 'five shares are bid for at 0.4')
    assert.equal(USDC?.free, USDC!.total! - 2)
    const positions = await ann.fetchPositions()
    assert.ok(positions.length >= markets.length * 2)
    for (const position of positions) checkPosition(ann, position)
    const position = await ann.fetchPosition(no)
    assert.equal(position.outcome, no)
    assert.ok((position.contracts ?? 0) > 0)
    const stranger = new Sibyl({ urls, walletAddress: `0x${'1e'.repeat(20)}` })
    assert.deepEqual(await stranger.fetchPositions(), [])
    assert.deepEqual(await stranger.fetchSettlements(), [])
    assert.equal((await stranger.fetchPosition(yes)).contracts, 0)
  })

  await t.test('ccxt: a refused order has the error class of its reason', async () => {
    const rejects = (order: Promise<unknown>, error: new (text: string) => Error) =>
      assert.rejects(order, (thrown: Error) => {
        assert.ok(thrown instanceof error, `${thrown.name}: ${thrown.message}`)
        return true
      })
    await rejects(ann.createOrder(no, 'limit', 'buy', 1, 1.5), InvalidOrder)
    await rejects(ann.createOrder(no, 'limit', 'buy', 0, 0.5), InvalidOrder)
    await rejects(ann.createOrder(no, 'market', 'buy', 1), OrderNotFillable)
    await rejects(
      ann.createOrder(yes, 'limit', 'sell', 1, 0.2, { postOnly: true }),
      OrderImmediatelyFillable,
    )
    await rejects(
      bob.createOrder(yes, 'limit', 'sell', 9, 0.4, { timeInForce: 'FOK' }),
      OrderNotFillable,
    )
    await rejects(ann.createOrder(no, 'limit', 'buy', 1, 0.2, { bookByMs: 1 }), OperationRejected)
    await rejects(new Sibyl({ urls }).fetchPositions(), AuthenticationError)
    await rejects(bob.cancelAllOrdersAfter(1_000), AuthenticationError)
    const market_ = await bob.createOrder(yes, 'market', 'sell', 1)
    assert.deepEqual([market_.status, market_.filled], ['closed', 1])
  })

  await t.test('ccxt: batches, groups and the dead-man switch work', async () => {
    const terms = { type: 'limit', side: 'buy', amount: 5 } as const
    const params = { group: 'quotes' }
    const placed = await ann.createOrders([
      { ...terms, outcome: no, price: 0.1, params },
      { ...terms, outcome: no, price: 0.11, params },
      { ...terms, outcome: no, price: 0.12, params: { bookByMs: 1 } },
      { ...terms, outcome: no, price: 0.13 },
    ])
    assert.deepEqual(
      placed.map(({ status }) => status),
      ['open', 'open', 'rejected', 'open'],
    )
    assert.equal(placed[2]?.info.code, 'TOO_LATE')
    // A batch of replacements: the old quotes leave before the new ones enter.
    const moved = await ann.createOrders(
      placed.slice(0, 2).map(({ id }, at) => ({
        ...{ ...terms, outcome: no, price: 0.2 + at / 100 },
        params: { ...params, replaces: id },
      })),
    )
    const cancelled = await ann.cancelAllOrders(no, params)
    assert.deepEqual(cancelled.map(({ id }) => id).sort(), moved.map(({ id }) => id).sort())
    assert.deepEqual(
      (await ann.fetchOpenOrders(no)).map(({ id }) => id),
      [placed[3]?.id],
    )
    assert.equal(((await ann.cancelAllOrdersAfter(60_000)) as { status: string }).status, 'on')
    assert.deepEqual(await ann.cancelAllOrdersAfter(0), { status: 'off' })
    const rest = await ann.cancelAllOrders()
    assert.ok(rest.some(({ id }) => id === placed[3]?.id))
    assert.deepEqual(await ann.fetchOpenOrders(), [])
    // Without a token one after the other.
    const other = await bob.createOrder(no, 'limit', 'buy', 2, 0.1)
    assert.deepEqual(
      (await bob.cancelAllOrders()).map(({ id }) => id),
      [other.id],
    )
  })

  await t.test('ccxt: a key cannot sign for an account that did not appoint it', async () => {
    const privateKey = devnetKey(TAKER)
    const walletAddress = devnetAccount(TAKER).address
    const own = new Sibyl({ urls, privateKey, walletAddress })
    const placed = await own.createOrder(no, 'limit', 'buy', 2, 0.1)
    assert.equal((await own.cancelOrder(placed.id!)).status, 'canceled')
    const other = new Sibyl({ urls, privateKey, walletAddress: devnetAccount(MAKER).address })
    await assert.rejects(other.createOrder(no, 'limit', 'buy', 2, 0.1), AuthenticationError)
  })

  await t.test('ccxt: watch calls fail when the watch or exchange is closed', async () => {
    const trades = assert.rejects(bob.watchTrades(no), ExchangeClosedByUser)
    await bob.watchTicker(no)
    await bob.unWatchTrades(no)
    await trades
    const orders = assert.rejects(bob.watchOrders(), ExchangeClosedByUser)
    await bob.watchOrderBook(no)
    await bob.close()
    await orders
  })
}
