/** Tests every method of the ccxt exchange and its structures, on a running devnet. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import {
  AuthenticationError,
  BadRequest,
  BadSymbol,
  ExchangeClosedByUser,
  InvalidOrder,
  NotSupported,
  OperationRejected,
  OrderImmediatelyFillable,
  OrderNotFillable,
  OrderNotFound,
  PermissionDenied,
  PredictionExchange,
  type PredictionMarket,
  type PredictionTrade,
} from 'ccxt'
import { CLASSES } from '#ccxt/errors.ts'
import { ownLeg } from '#ccxt/own-leg.ts'
import { Sibyl } from '#ccxt/sibyl.ts'
import { READ_WEIGHTS, unitsOf } from '#ccxt/weights.ts'
import { registerApiKey } from '#client/api-keys.ts'
import { createClient } from '#client/client.ts'
import { signerAddress } from '#client/sign-order.ts'
import type { SibylStream } from '#client/stream-types.ts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import { ERRORS } from '#http/errors.ts'
import { callSibyl } from '../cli/call-sibyl.ts'
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

const [MAKER, TAKER, OWNER] = [16, 19, 17]
/** A new key without funds, used as a delegate of OWNER. */
const BOT_KEY = `0x${'cc'.repeat(32)}` as const

/** True if the next change of a book is to be corrupted. */
let isCorrupting = false

/** A socket that changes a size in one message, as a faulty network or a malicious exchange would. */
class CorruptingSocket extends WebSocket {
  override addEventListener(type: string, listener: unknown): void {
    const pass = listener as (event: unknown) => void
    const isMessage = type === 'message'
    super.addEventListener(type, (event) =>
      pass(isMessage ? { data: corrupted(String((event as MessageEvent).data)) } : event),
    )
  }
}

function corrupted(text: string): string {
  if (!isCorrupting || !text.includes('"type":"book.delta"')) return text
  isCorrupting = false
  const message = JSON.parse(text) as { bids: [number, number][] }
  message.bids[0]![1] += 1
  return JSON.stringify(message)
}

/** The exchange over corrupting sockets. */
class Disturbed extends Sibyl {
  readonly stream: SibylStream = this.sdk().stream({ WebSocket: CorruptingSocket as never })

  override liveStream(): SibylStream {
    return this.stream
  }
}

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
  // The last market, because the other tests use the first one.
  const market = markets.at(-1)!
  const [yes, no] = market.outcomes.map(({ outcome }) => outcome) as [string, string]

  await t.test('ccxt: the exchange class declares the methods that it implements', () =>
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

  await t.test('ccxt: an order can be placed, read, replaced and cancelled', async () => {
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
    // The old order is gone, so it cannot be replaced a second time.
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
    // The watches of trades, orders and own trades were requested before the ticker. The ticker has arrived, so these
    // three subscriptions are active, too.
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

  await t.test(
    'ccxt: orders can be placed in batches and cancelled by group, and a dead-man switch can be set',
    async () => {
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
      // In a batch of replacements, the old quotes are cancelled before the new ones are placed.
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
      // Bob has no API key, so his client cancels the orders one by one.
      const other = await bob.createOrder(no, 'limit', 'buy', 2, 0.1)
      assert.deepEqual(
        (await bob.cancelAllOrders()).map(({ id }) => id),
        [other.id],
      )
    },
  )

  await t.test(
    'ccxt: amounts and prices are exact to the millionth, and invalid values are refused',
    async () => {
      const priced = async (amount: number, price: number) => {
        const { id, ...order } = await ann.createOrder(no, 'limit', 'buy', amount, price)
        const [open] = await ann.sdk().orders.list({ market: market.id })
        await ann.cancelOrder(id!)
        return [order.amount, order.price, open?.size, open?.price]
      }
      assert.deepEqual(await priced(0.1 + 0.2, 0.1 + 0.2), [0.3, 0.3, 300_000, 300_000])
      assert.deepEqual(await priced(1.005, 0.29), [1.005, 0.29, 1_005_000, 290_000])
      // Amounts are truncated to six decimals, and prices are rounded to six decimals.
      assert.deepEqual(await priced(4.1234567, 0.1234567), [4.123456, 0.123457, 4_123_456, 123_457])
      assert.deepEqual(await priced(1, 0.000001), [1, 0.000001, 1_000_000, 1])
      const nonsense: [number, number, object][] = [
        ...[Number.NaN, -1, 1e-7, Number.POSITIVE_INFINITY].map((bad) => [bad, 0.5, {}] as never),
        ...[Number.NaN, -0.5, 0, 1, 0.9999999, 1e-7].map((bad) => [1, bad, {}] as never),
      ]
      for (const [amount, price] of nonsense) {
        await assert.rejects(ann.createOrder(no, 'limit', 'buy', amount, price), InvalidOrder)
      }
      await assert.rejects(ann.createOrder(no, 'stop', 'buy', 1, 0.5), InvalidOrder)
      for (const params of [{ reduceOnly: true }, { triggerPrice: 0.4 }, { stopLossPrice: 0.4 }]) {
        await assert.rejects(ann.createOrder(no, 'limit', 'buy', 1, 0.5, params), NotSupported)
      }
      assert.deepEqual(await ann.fetchOpenOrders(no), [])
    },
  )

  await t.test(
    'ccxt: every error code of the exchange has an error class, and every read has its rate-limit weight',
    () => {
      const general = ['INVALID_FIELD', 'MISSING_FIELD']
      for (const code of Object.keys(ERRORS)) {
        if (code.startsWith('UNAUTHORIZED_') || general.includes(code)) continue
        assert.ok(CLASSES[code] !== undefined, `${code} has no class`)
      }
      const { paths } = JSON.parse(
        readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'),
      ) as { paths: Record<string, { get?: { 'x-weight'?: number } }> }
      for (const [path, { get }] of Object.entries(paths)) {
        if (get === undefined) continue
        const pattern = path.replace(/\{[^}]*\}/g, '*')
        if (pattern in READ_WEIGHTS) assert.equal(READ_WEIGHTS[pattern], get['x-weight'], path)
        assert.equal(unitsOf(`${url}${pattern}?a=b`), READ_WEIGHTS[pattern] ?? 1)
      }
      assert.equal(unitsOf(`${url}/api/v1/users/0x1/activity`), 5)
      assert.equal(unitsOf(`${url}/api/v1/orders`, 'POST', '{}'), 5)
      assert.equal(unitsOf(`${url}/api/v1/orders/batch`, 'POST', '{"orders":[1,2,3]}'), 15)
    },
  )

  await t.test(
    'ccxt: after a mint, each of the two buyers sees the outcome and price of their own order',
    async () => {
      const question = 'Does ccxt know a mint?'
      const line = ['market', 'create', '--question', question, '--seconds', '86400']
      const { code, err } = await callSibyl([...line, '--matching', 'complementary', '--url', url])
      assert.equal(code, 0, err)
      const [raw] = await eventually(async () => {
        const found = await ann.sdk().markets({ status: 'open', search: question })
        assert.equal(found.length, 1)
        return found
      })
      const [yesId, noId] = [`${raw!.id}:YES`, `${raw!.id}:NO`]
      const bid = await ann.createOrder(noId, 'limit', 'buy', 10, 0.4)
      const [own, other] = [ann.watchMyTrades(noId), bob.watchMyTrades(yesId)]
      await Promise.all([ann.watchTicker(noId), bob.watchTicker(yesId)])
      await bob.createOrder(yesId, 'limit', 'buy', 10, 0.62)
      const leg = ({ outcomeId, side, price, takerOrMaker, info }: PredictionTrade) => [
        ...[outcomeId, side, price, takerOrMaker, info.kind],
      ]
      const made = [noId, 'buy', 0.4, 'maker', 'mint']
      const taken = [yesId, 'buy', 0.6, 'taker', 'mint']
      assert.deepEqual([leg((await own)[0]!), leg((await other)[0]!)], [made, taken])
      await eventually(async () => {
        const [mine] = await ann.fetchMyTrades(noId)
        const [theirs] = await bob.fetchMyTrades(yesId)
        assert.deepEqual([leg(mine!), leg(theirs!)], [made, taken])
        assert.equal(mine?.order, bid.id)
      })
      // In a merge the maker and the taker both sell, each a different outcome.
      const merge = { kind: 'merge', outcome: 1, price: 300_000, takerSide: 0 } as const
      const sold = { role: 'seller', outcome: 1, price: 300_000, takerSide: 0 }
      assert.deepEqual(ownLeg(merge, false), sold)
      assert.deepEqual(ownLeg(merge, true), { ...sold, outcome: 0, price: 700_000, takerSide: 1 })
    },
  )

  await t.test(
    'ccxt: a followed order book that does not match its checksum is loaded again',
    async (subtest) => {
      const carl = new Disturbed({ urls, enableRateLimit: false })
      subtest.after(() => Promise.all([carl.close(), carl.stream.close()]))
      const differences: number[] = []
      carl.stream.on('checksum', ({ expected, got }) => differences.push(expected, got))
      await carl.watchOrderBook(no)
      isCorrupting = true
      const { id } = await ann.createOrder(no, 'limit', 'buy', 7, 0.15)
      const seen = await carl.watchOrderBook(no)
      assert.equal(differences.length, 2)
      assert.notEqual(differences[0], differences[1])
      assert.deepEqual(seen.bids, (await ann.fetchOrderBook(no)).bids)
      await ann.cancelOrder(id!)
    },
  )

  await t.test(
    'ccxt: a program with the key of a delegate trades for its account, within the delegate’s limits',
    async () => {
      const owner = createClient({ url, signer: devnetKey(OWNER) })
      const walletAddress = devnetAccount(OWNER).address
      const delegate = await signerAddress(BOT_KEY)
      const { serverTime } = await owner.config({ fresh: true })
      const limits = { maxOrderSize: '20', maxOpenNotional: '5' }
      await owner.delegates.create({ delegate, until: serverTime + 7 * 86_400, ...limits })
      await eventually(async () => {
        assert.ok((await owner.delegates.list()).some((one) => one.delegate === delegate))
      })
      const own = await registerApiKey({ url }, BOT_KEY, { name: 'bot' })
      const bot = new Sibyl({
        ...{ urls, enableRateLimit: false, privateKey: BOT_KEY, walletAddress },
        ...{ apiKey: own.id, secret: own.privateKey },
      })
      const placed = await bot.createOrder(no, 'limit', 'buy', 20, 0.1)
      await assert.rejects(bot.createOrder(no, 'limit', 'buy', 20.1, 0.1), PermissionDenied)
      await assert.rejects(bot.createOrder(no, 'limit', 'buy', 20, 0.2), PermissionDenied)
      const moved = await bot.editOrder(placed.id!, no, 'limit', 'buy', 20, 0.11)
      assert.equal((await bot.cancelOrder(moved.id!)).status, 'canceled')
      // A delegate's `cancelAllOrders` and dead-man switch also cancel the orders that the account's owner signed.
      const terms = { marketId: market.id, side: 'buy', outcome: 'NO', size: '5' } as const
      const first = await owner.orders.place({ ...terms, price: '0.10', ttlSeconds: 600 })
      await bot.createOrder(no, 'limit', 'buy', 3, 0.1)
      const cancelled = await bot.cancelAllOrders(no)
      assert.equal(cancelled.length, 2)
      assert.ok(cancelled.some(({ id }) => id === first.orderHash))
      const second = await owner.orders.place({ ...terms, price: '0.11', ttlSeconds: 600 })
      await bot.cancelAllOrdersAfter(1_000)
      await eventually(async () => {
        assert.equal((await owner.orders.get(second.orderHash)).status, 'cancelled')
      })
      await owner.delegates.revoke(delegate)
      await eventually(() => assert.rejects(bot.cancelAllOrdersAfter(1_000), PermissionDenied))
      await assert.rejects(bot.createOrder(no, 'limit', 'buy', 3, 0.1), AuthenticationError)
    },
  )

  await t.test(
    'ccxt: a key that an account did not appoint as delegate cannot sign for the account',
    async () => {
      const privateKey = devnetKey(TAKER)
      const walletAddress = devnetAccount(TAKER).address
      const own = new Sibyl({ urls, privateKey, walletAddress })
      const placed = await own.createOrder(no, 'limit', 'buy', 2, 0.1)
      assert.equal((await own.cancelOrder(placed.id!)).status, 'canceled')
      const other = new Sibyl({ urls, privateKey, walletAddress: devnetAccount(MAKER).address })
      await assert.rejects(other.createOrder(no, 'limit', 'buy', 2, 0.1), AuthenticationError)
    },
  )

  await t.test(
    'ccxt: a pending watch call fails when the watch or the exchange object is closed',
    async () => {
      const trades = assert.rejects(bob.watchTrades(no), ExchangeClosedByUser)
      await bob.watchTicker(no)
      await bob.unWatchTrades(no)
      await trades
      const orders = assert.rejects(bob.watchOrders(), ExchangeClosedByUser)
      await bob.watchOrderBook(no)
      await bob.close()
      await orders
    },
  )
}
