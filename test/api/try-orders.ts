/** Tests orders over HTTP, on an exchange with `ORDER_MARKETS` and `ORDER_CHAINS`. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createClient } from '#client/client.ts'
import type { OrderSubmission } from '#client/order-submission.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { devnet } from '#config/devnet.ts'
import type { Address } from '#domain/ids.ts'
import type { PlacedOrder } from '#protocol/shapes/orders.ts'
import type { Trade } from '#protocol/shapes/trades.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { ordersByHash } from '#store/reads/orders.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { demoMarketIds, marketNumbered, type SeededMarket } from '../support/seeded-markets.ts'
import { DEVNET, signedOrder, traderNumbered } from '../support/signed-orders.ts'
import { signedPermit } from '../support/signed-permits.ts'

const ann = traderNumbered(21)
const bob = traderNumbered(22)

const OTHER_CHAIN = { chainId: 137, verifyingContract: `0x${'c7'.repeat(20)}` as Address }
const elsewhere = marketNumbered(0xb1, { chainId: OTHER_CHAIN.chainId })
const quick = marketNumbered(0xb2, { quick: true })
/** Each subtest has its own market, so that it sees no orders of other subtests. */
const markets = Array.from({ length: 16 }, (_, at) => marketNumbered(0x10 + at))
const expired = marketNumbered(0xb3, { expiration: Math.floor(Date.now() / 1_000) - 5 })
export const ORDER_MARKETS: readonly SeededMarket[] = [elsewhere, quick, expired, ...markets].map(
  (market) => ({ market }),
)

function errorOf(promise: Promise<unknown>): Promise<SibylError> {
  return promise.then(
    () => assert.fail('it was not refused'),
    (error: unknown) => {
      assert.ok(error instanceof SibylError, String(error))
      return error
    },
  )
}

async function assertRefused(
  promise: Promise<unknown>,
  status: number,
  code: string,
): Promise<void> {
  const error = await errorOf(promise)
  assert.deepEqual([error.status, error.code], [status, code], error.message)
  assert.ok(error.requestId, 'a refusal names its request')
}

/** Returns the settings of a chain for which the tests sign orders. Nothing is sent to this chain. */
function chainSettings(chainId: number, role: 'main' | 'test', settlement: string) {
  const [devnetChain] = devnet.chains ?? []
  assert.ok(devnetChain !== undefined)
  return { ...devnetChain, chainId, role, contracts: { ...devnetChain.contracts, settlement } }
}

export const ORDER_CHAINS = JSON.stringify([
  chainSettings(DEVNET.chainId, 'test', DEVNET.verifyingContract),
  chainSettings(OTHER_CHAIN.chainId, 'main', OTHER_CHAIN.verifyingContract),
])

/** Runs the tests. Returns a check that must also succeed after the exchange was restarted, and after it was killed. */
export async function tryOrders(t: TestContext, exchange: Exchange): Promise<() => Promise<void>> {
  const client = createClient({ url: exchange.url, chainId: DEVNET.chainId })
  const { orders } = client
  let used = 0
  let traded: { market: string; trades: Trade[] } | undefined
  const freshMarket = () => markets[used++]!.id
  const buy = { side: 0 }
  const sell = { side: 1 }
  const by = (trader: typeof ann) => ({ trader })

  await t.test(
    'an accepted order is in the trader’s list, the book and the market when its answer arrives',
    async () => {
      const market = freshMarket()
      const signer = createClient({ url: exchange.url, chainId: 31_337, signer: ann.key })
      const beforeMs = Date.now()
      const placed = await signer.orders.place({
        marketId: market,
        side: 'sell',
        outcome: 'YES',
        price: '0.61',
        size: '2.5',
        ttlSeconds: 600,
      })
      assert.deepEqual(
        [placed.status, placed.matches, placed.duplicate],
        ['accepted', 0, undefined],
      )
      assert.ok(placed.timestamp >= Math.floor(beforeMs / 1_000))
      assert.ok(placed.timestamp <= Date.now() / 1_000)
      const [open, ...others] = await signer.orders.list({ market })
      assert.deepEqual(others, [])
      assert.deepEqual(
        { ...open, timestamp: 0, expiration: 0 },
        {
          orderHash: placed.orderHash,
          marketId: market,
          side: 1,
          outcome: 0,
          price: 610_000,
          size: 2_500_000,
          remainingSize: 2_500_000,
          filled: 0,
          timestamp: 0,
          expiration: 0,
          chainId: 31_337,
          trader: ann.address,
        },
      )
      assert.equal(open?.timestamp, placed.timestamp)
      const book = await client.orderbook(market, 'YES')
      assert.deepEqual(book.asks, [{ price: 610_000, size: 2_500_000n }])
      assert.deepEqual(book.bids, [])
      assert.equal(book.lastUpdate, placed.timestamp)
      const shown = (await client.markets()).find(({ id }) => id === market)
      assert.equal(shown?.bestAskPrice, 610_000)

      await signer.orders.cancel({ ...placed, marketId: market, side: 'sell' })
      assert.deepEqual(await signer.orders.list({ market }), [])
      assert.deepEqual((await client.orderbook(market, 'YES')).asks, [])
      const after = (await client.markets()).find(({ id }) => id === market)
      assert.equal(after?.bestAskPrice, 0)
    },
  )

  await t.test('open orders are listed page by page', async () => {
    const market = freshMarket()
    const carol = traderNumbered(23)
    const placed: string[] = []
    for (let each = 0; each < 5; each++) {
      const { orderHash } = await orders.submit(await signedOrder(market, buy, by(carol)))
      placed.push(orderHash)
    }
    type Page = { orders: { orderHash: string }[]; count: number; nextCursor: string | null }
    for (const list of [
      `/api/v1/orders?trader=${carol.address}&market=${market}`,
      `/api/v1/users/${carol.address}/orders?chain_id=31337`,
    ]) {
      const read = async (more: string): Promise<Page> => {
        const response = await fetch(`${exchange.url}${list}${more}`)
        assert.equal(response.status, 200)
        return (await response.json()) as Page
      }
      const whole = await read('')
      assert.deepEqual([whole.count, whole.nextCursor], [5, null])
      assert.deepEqual(whole.orders.map(({ orderHash }) => orderHash).sort(), placed.toSorted())
      const pages: Page[] = []
      for (let cursor = ''; pages.length < 4; ) {
        const page = await read(`&limit=2${cursor}`)
        pages.push(page)
        if (page.nextCursor === null) break
        cursor = `&cursor=${page.nextCursor}`
      }
      assert.deepEqual(
        pages.map((page) => [page.orders.length, page.count]),
        [
          [2, 5],
          [2, 5],
          [1, 5],
        ],
      )
      assert.deepEqual(
        pages.flatMap((page) => page.orders),
        whole.orders,
      )
    }
  })

  await t.test(
    'a resubmitted order gets the original answer, and is not added to the book again',
    async () => {
      const market = freshMarket()
      const resting = await signedOrder(market, buy, by(ann))
      const first = await orders.submit(resting)
      /** Asserts that a duplicate gets the answer of the first submission, except for a higher `seq` of the market. */
      const assertSame = (again: PlacedOrder, before: PlacedOrder): void => {
        assert.deepEqual({ ...again, seq: before.seq }, { ...before, duplicate: true })
        assert((again.seq ?? 0) >= (before.seq ?? 0))
      }
      assertSame(await orders.submit(resting), first)
      // The same signature in another notation belongs to the same order.
      const upper = `0x${resting.signature.slice(2, -2).toUpperCase()}`
      const v = resting.signature.endsWith('1b') ? '00' : '01'
      const respelt = { ...resting, signature: upper + v }
      assertSame(await orders.submit(respelt), first)
      assert.deepEqual((await client.orderbook(market, 'YES')).bids, [
        { price: 500_000, size: 1_000_000n },
      ])

      const taker = await signedOrder(market, sell, by(bob))
      const met = await orders.submit(taker)
      assert.equal(met.matches, 1)
      assertSame(await orders.submit(resting), first)
      assertSame(await orders.submit(taker), met)
      assert.equal((await client.trades(market)).length, 1)

      const cancelled = await signedOrder(market, buy, by(ann))
      const { orderHash } = await orders.submit(cancelled)
      await orders.cancel({ orderHash, marketId: market })
      await assertRefused(orders.submit(cancelled), 409, 'ORDER_CLOSED')
      assert.deepEqual(await orders.list({ trader: ann.address, market }), [])
    },
  )

  await t.test(
    'a resubmitted order is accepted even if its expiration is now too soon for a new order',
    async () => {
      const market = freshMarket()
      const endingIn = async (seconds: number) => {
        const expiration = String(Math.floor(Date.now() / 1_000) + seconds)
        const short = await signedOrder(market, { ...buy, expiration }, by(ann))
        return { expiration, short, first: await orders.submit(short) }
      }
      // The exchange refuses an order that expires within a minute of its arrival. On a busy machine the order with 62
      // seconds may arrive too late, so the second attempt uses 90 seconds.
      const { expiration, short, first } = await endingIn(62).catch(() => endingIn(90))
      // Waits until a new order with this expiration would be refused.
      await eventually(() => assert.ok(Date.now() / 1_000 > Number(expiration) - 59))
      assert.deepEqual(await orders.submit(short), { ...first, duplicate: true })
      const alike = await signedOrder(market, { ...buy, expiration }, by(ann))
      await assertRefused(orders.submit(alike), 400, 'EXPIRATION_TOO_SOON')
      // Later tests compare the open orders before and after a restart, so this order must not expire in between.
      await orders.cancel({ orderHash: first.orderHash, marketId: market })
    },
  )

  await t.test(
    'a cancel with the wrong side is refused, and a second cancel of an order fails with ORDER_CLOSED',
    async () => {
      const market = freshMarket()
      const [bid, ask, met] = await Promise.all([
        signedOrder(market, buy, by(ann)),
        signedOrder(market, { ...sell, price: 700_000 }, by(ann)),
        signedOrder(market, { ...sell, price: 500_000 }, by(bob)),
      ])
      const { orderHash } = await orders.submit(bid)
      await assertRefused(
        orders.cancel({ orderHash, marketId: market, side: 'sell' }),
        404,
        'ORDER_NOT_FOUND',
      )
      const { seq, ...ended } = await orders.cancel({ orderHash, marketId: market })
      assert.deepEqual(ended, { status: 'cancelled', orderHash, marketId: market })
      assert(seq !== undefined)
      await assertRefused(orders.cancel({ orderHash, marketId: market }), 409, 'ORDER_CLOSED')
      const sold = await orders.submit(ask)
      // Upper case is the same hash.
      const shouted = `0x${sold.orderHash.slice(2).toUpperCase()}`
      await assertRefused(
        orders.cancel({ orderHash: shouted, marketId: market }),
        404,
        'ORDER_NOT_FOUND',
      )
      await orders.cancel({ orderHash: shouted, marketId: market, side: 'sell' })

      const again = await orders.submit(await signedOrder(market, buy, by(ann)))
      assert.equal((await orders.submit(met)).matches, 1)
      await assertRefused(
        orders.cancel({ orderHash: again.orderHash, marketId: market, side: 'buy' }),
        409,
        'ORDER_CLOSED',
      )
      const nobody = `0x${'7'.repeat(64)}`
      await assertRefused(
        orders.cancel({ orderHash: nobody, marketId: market }),
        404,
        'ORDER_NOT_FOUND',
      )
      await assertRefused(
        orders.cancel({ orderHash: nobody, marketId: nobody }),
        404,
        'MARKET_NOT_FOUND',
      )
      await assertRefused(
        orders.cancel({ orderHash: nobody, marketId: expired.id }),
        409,
        'MARKET_CLOSED',
      )
    },
  )

  await t.test(
    'a book request without an outcome returns the books of YES and NO merged by price',
    async () => {
      const market = freshMarket()
      const rows: [side: number, outcome: number, price: number, size: number][] = [
        [0, 0, 400_000, 1_000_000],
        [0, 1, 400_000, 2_000_000],
        [0, 1, 410_000, 3_000_000],
        [1, 0, 900_000, 4_000_000],
        [1, 1, 450_000, 5_000_000],
        [1, 0, 450_000, 6_000_000],
      ]
      for (const [side, outcome, price, size] of rows) {
        await orders.submit(await signedOrder(market, { side, outcome, price, size }, by(ann)))
      }
      const merged = await client.orderbook(market)
      assert.deepEqual(merged.bids, [
        { price: 410_000, size: 3_000_000n },
        { price: 400_000, size: 3_000_000n },
      ])
      assert.deepEqual(merged.asks, [
        { price: 450_000, size: 11_000_000n },
        { price: 900_000, size: 4_000_000n },
      ])
      const no = await client.orderbook(market, 'NO')
      assert.deepEqual(no.bids, [
        { price: 410_000, size: 3_000_000n },
        { price: 400_000, size: 2_000_000n },
      ])
      const byCode = await fetch(`${exchange.url}/api/v1/orderbook/${market}?outcome=1`)
      assert.deepEqual(((await byCode.json()) as { asks: unknown }).asks, [
        { price: 450_000, size: 5_000_000 },
      ])
      // The `bestAskPrice` of a market is the best ask for YES. Asks for NO do not count.
      assert.equal((await client.markets()).find(({ id }) => id === market)?.bestAskPrice, 450_000)
    },
  )

  await t.test('price level totals above 2^53 are exact', async () => {
    const market = freshMarket()
    const size = Number.MAX_SAFE_INTEGER
    for (let nonce = 0; nonce < 3; nonce++) {
      await orders.submit(await signedOrder(market, { ...buy, size, price: 1 }, by(ann)))
    }
    await orders.submit(await signedOrder(market, { ...buy, size: 1, price: 1 }, by(ann)))
    const total = 3n * BigInt(size) + 1n
    assert.deepEqual((await client.orderbook(market, 'YES')).bids, [{ price: 1, size: total }])
    const response = await fetch(`${exchange.url}/api/v1/orderbook/${market}`)
    assert.match(await response.text(), new RegExp(`"size":${total}}`))
    const [open] = await orders.list({ trader: ann.address, market })
    assert.equal(open?.remainingSize, size)
  })

  await t.test(
    'post-only orders that would match are refused, and IOC and FOK orders never stay in the book',
    async () => {
      const market = freshMarket()
      await orders.submit(await signedOrder(market, { ...sell, price: 450_000, size: 4 }, by(ann)))
      const bid = (size: number) => signedOrder(market, { ...buy, price: 460_000, size }, by(bob))
      const quiet = { ...(await bid(1)), postOnly: true }
      await assertRefused(orders.submit(quiet), 422, 'POST_ONLY_WOULD_MATCH')
      const [flaw] = (await orders.validate(quiet)).errors
      assert.deepEqual(
        [flaw?.code, flaw?.error, flaw?.field],
        [
          'POST_ONLY_WOULD_MATCH',
          'the post-only order would match on arrival at the price 450000, so it was not placed',
          'postOnly',
        ],
      )
      const whole = { ...(await bid(5)), timeInForce: 'FOK' } as const
      await assertRefused(orders.submit(whole), 422, 'ORDER_NOT_FILLED')
      assert.equal((await orders.validate(whole)).errors[0]?.code, 'ORDER_NOT_FILLED')
      const contrary = { ...(await bid(5)), postOnly: true, timeInForce: 'IOC' } as const
      await assertRefused(orders.submit(contrary), 400, 'INVALID_FIELD')

      const [fok, ioc, none] = await orders.submitBatch([
        { ...(await bid(3)), timeInForce: 'FOK' },
        { ...(await bid(6)), timeInForce: 'IOC' },
        { ...(await bid(2)), timeInForce: 'IOC' },
      ])
      assert(fok?.ok && ioc?.ok && none !== undefined && !none.ok)
      assert.deepEqual([fok.placed.filled, ioc.placed.filled], [3, 1])
      assert.equal(none.error.code, 'ORDER_NOT_FILLED')
      assert.deepEqual(await orders.list({ trader: bob.address, market }), [])
      // A resubmitted order gets the first answer, even with different options.
      const again = await orders.submit({ ...fok.submission, postOnly: true, timeInForce: 'GTC' })
      assert.deepEqual([again.duplicate, again.filled], [true, 3])
      assert.equal((await orders.submit({ ...quiet, postOnly: true })).matches, 0)
      const line = await client.market(market)
      assert.deepEqual(
        [line.bestBidPrices, line.lastPrices],
        [
          [460_000, 0],
          [450_000, 0],
        ],
      )
      const { candles } = await client.candles(market, { interval: '1m' })
      assert.ok(Array.isArray(candles))
    },
  )

  await t.test('nonces of 64 bits are parsed exactly, as JSON numbers and as text', async () => {
    const market = freshMarket()
    for (const nonce of ['9007199254740993', '18446744073709551615']) {
      const signed = await signedOrder(market, { ...buy, nonce }, by(ann))
      const text = JSON.stringify(signed)
      const asNumber = text.replace(`"nonce":"${nonce}"`, `"nonce":${nonce}`)
      assert.notEqual(asNumber, text)
      const hashes = new Set<string>()
      for (const body of [asNumber, text]) {
        const headers = { 'content-type': 'application/json' }
        const response = await fetch(`${exchange.url}/api/v1/orders`, {
          method: 'POST',
          headers,
          body,
        })
        assert.equal(response.status, 200, await response.clone().text())
        hashes.add(((await response.json()) as { orderHash: string }).orderHash)
      }
      assert.equal(hashes.size, 1)
    }
    // The order is listed, so the exchange parsed the nonce exactly. With an inexact nonce it would have computed
    // another order hash and refused the signature.
    const [known] = await orders.list({ trader: ann.address, market })
    assert.ok(known)
  })

  await t.test(
    'the answer to a batch of orders has one result per order, in the order sent',
    async () => {
      const market = freshMarket()
      const [bid, ask, forged, late] = await Promise.all([
        signedOrder(market, buy, by(ann)),
        signedOrder(market, sell, by(bob)),
        signedOrder(market, buy, { ...by(ann), claims: bob.address }),
        signedOrder(market, { ...buy, expiration: '1' }, by(ann)),
      ])
      const broken = { ...bid, order: { ...bid.order, price: 0 } } as OrderSubmission
      const results = await orders.submitBatch([broken, bid, forged, ask, bid, late])
      assert.deepEqual(
        results.map((result) => (result.ok ? result.placed.status : result.error.code)),
        [
          'PRICE_OUT_OF_RANGE',
          'accepted',
          'INVALID_SIGNATURE',
          'accepted',
          'accepted',
          'EXPIRATION_TOO_SOON',
        ],
      )
      const [first, , , , twin] = results
      assert.ok(first?.ok === false && first.error.field === 'order.price')
      assert.ok(twin?.ok === true && twin.placed.duplicate === true)
      assert.equal((await client.trades(market)).length, 1)
    },
  )

  await t.test('a client splits a batch of orders that is too large for one request', async () => {
    const market = freshMarket()
    const permitSignature = await signedPermit(bob, { value: BigInt('1'.repeat(77)) })
    const intents = Array.from({ length: 130 }, (_, at) => ({
      marketId: market,
      side: 'buy' as const,
      outcome: 'NO' as const,
      price: 1_000 + at,
      size: '1',
      ttlSeconds: 900,
      permitSignature,
    }))
    const signer = createClient({ url: exchange.url, chainId: 31_337, signer: bob.key })
    const results = await signer.orders.placeBatch(intents)
    assert.equal(results.filter(({ ok }) => ok).length, 130)
    const { bids } = await client.orderbook(market, 'NO')
    assert.deepEqual(
      bids.map(({ price }) => price),
      intents.map(({ price }) => price).reverse(),
    )
  })

  await t.test(
    'validation of an order returns all flaws of the order, its digest and its recovered signer',
    async () => {
      const market = freshMarket()
      const good = await signedOrder(market, buy, by(ann))
      const fine = await orders.validate(good)
      assert.deepEqual([fine.valid, fine.errors], [true, []])
      assert.equal(fine.recovered, ann.address)

      const bad = await signedOrder(
        expired.id,
        { ...buy, price: 1_000_000, size: 0, expiration: '5' },
        { ...by(ann), claims: bob.address },
      )
      const told = await orders.validate(bad)
      assert.equal(told.valid, false)
      assert.deepEqual(
        told.errors.map(({ code, field }) => [code, field]),
        [
          ['PRICE_OUT_OF_RANGE', 'order.price'],
          ['SIZE_NOT_POSITIVE', 'order.size'],
          ['EXPIRATION_TOO_SOON', 'order.expiration'],
          ['MARKET_CLOSED', 'order.marketId'],
          ['INVALID_SIGNATURE', 'signature'],
        ],
      )
      assert.match(told.orderHash ?? '', /^0x[0-9a-f]{64}$/)
      assert.match(told.recovered ?? '', /^0x[0-9a-fA-F]{40}$/)
      assert.notEqual(told.recovered, bob.address)

      const shapeless = await orders.validate({
        order: { ...good.order, price: 'abc', side: 2, extra: 1, trader: undefined },
        signature: 5,
      } as never)
      assert.deepEqual(shapeless.errors.map(({ code, field }) => `${code} ${field}`).sort(), [
        'INVALID_FIELD order.extra',
        'INVALID_FIELD order.price',
        'INVALID_FIELD order.side',
        'INVALID_FIELD signature',
        'MISSING_FIELD order.trader',
      ])
      assert.deepEqual([shapeless.orderHash, shapeless.recovered], [null, null])

      const negative = await orders.validate({
        ...good,
        order: { ...good.order, price: -1 },
      } as never)
      assert.deepEqual([negative.orderHash, negative.errors[0]?.code], [null, 'PRICE_OUT_OF_RANGE'])

      assert.deepEqual((await client.orderbook(market)).bids, [], 'nothing was placed')
      assert.equal((await orders.submit(good)).orderHash, fine.orderHash)
    },
  )

  await t.test(
    'the trades of a market, and the trades of a single order, are listed newest first',
    async () => {
      const market = freshMarket()
      const asks: [price: number, size: number][] = [
        [300_000, 1_000_000],
        [310_000, 2_000_000],
        [320_000, 3_000_000],
      ]
      for (const [price, size] of asks) {
        await orders.submit(await signedOrder(market, { ...sell, price, size }, by(ann)))
      }
      const taker = { ...buy, price: 400_000, size: 3_500_000 }
      assert.equal((await orders.submit(await signedOrder(market, taker, by(bob)))).matches, 3)
      await orders.submit(await signedOrder(market, { ...buy, price: 320_000 }, by(bob)))
      const trades = await client.trades(market)
      assert.deepEqual(
        trades.map(({ price, size }) => [price, size]),
        [
          [320_000, 1_000_000],
          [320_000, 500_000],
          [310_000, 2_000_000],
          [300_000, 1_000_000],
        ],
      )
      for (const trade of trades) {
        assert.deepEqual([trade.buyer, trade.seller], [bob.address, ann.address])
        assert.deepEqual([trade.outcome, trade.txHash, trade.status], [0, '', 'matched'])
      }
      assert.equal(trades[0]!.seq > trades[1]!.seq && trades[1]!.seq === trades[3]!.seq, true)
      traded = { market, trades }
    },
  )

  await t.test('unknown markets have empty books and no trades', async () => {
    const nobody = `0x${'9'.repeat(64)}`
    const here = createClient({ url: exchange.url })
    const book = await here.orderbook(nobody)
    assert.deepEqual(book, { marketId: nobody, bids: [], asks: [], lastUpdate: 0, seq: 0 })
    assert.deepEqual(await here.trades(nobody), [])
    assert.deepEqual(await here.orders.list({ trader: ann.address, market: nobody }), [])
    assert.deepEqual((await here.orderbook(expired.id)).bids, [])
  })

  await t.test(
    'the market list can be filtered by chain, and includes quick markets only on request',
    async () => {
      const here = createClient({ url: exchange.url, chainId: 137, signer: ann.key })
      const placed = await here.orders.place({
        marketId: elsewhere.id,
        side: 'buy',
        outcome: 'YES',
        price: '0.2',
        size: '1',
        ttlSeconds: 900,
      })
      const there = await here.orders.listOfUser({})
      assert.deepEqual(
        there.map(({ orderHash, chainId }) => [orderHash, chainId]),
        [[placed.orderHash, 137]],
      )
      const home = await here.orders.listOfUser({ address: ann.address, chainId: 31_337 })
      assert.ok(home.length > 0 && home.every(({ chainId }) => chainId === 31_337))
      const everywhere = await here.orders.list()
      assert.equal(everywhere.length, home.length + there.length)
      const times = everywhere.map(({ timestamp }) => timestamp)
      assert.deepEqual(times, times.toSorted())
      assert.deepEqual(await here.orders.listOfUser({ chainId: 5 }), [])

      const ids = async (filter: object) => (await here.markets(filter)).map(({ id }) => id)
      assert.deepEqual(await ids({ chainId: 137 }), [elsewhere.id])
      assert.deepEqual(await ids({ chainId: 5 }), [])
      const devnet = await ids({ chainId: 31_337 })
      for (const id of demoMarketIds()) assert.ok(devnet.includes(id))
      assert.ok(!devnet.includes(quick.id) && !devnet.includes(elsewhere.id))
      assert.ok((await ids({ quick: true })).includes(quick.id))

      // An order that was signed for one chain is invalid on another.
      const wrong = await signedOrder(elsewhere.id, buy, by(ann))
      await assertRefused(here.orders.submit(wrong), 400, 'INVALID_SIGNATURE')
      const undecided = createClient({ url: exchange.url, signer: ann.key })
      const intent = { marketId: elsewhere.id, side: 'buy', outcome: 'YES' } as const
      const error = await errorOf(
        undecided.orders.place({ ...intent, price: '0.2', size: '1', ttlSeconds: 900 }),
      )
      assert.deepEqual([error.code, error.field], ['INVALID_FIELD', 'chainId'])
    },
  )

  await t.test('the configuration names the contract for which orders are signed', async () => {
    const here = createClient({ url: exchange.url })
    const config = await here.config()
    assert.equal(await here.config(), config, 'it is asked for once')
    assert.deepEqual(
      config.chains.map(({ chainId, role }) => [chainId, role]),
      [
        [31_337, 'test'],
        [137, 'main'],
      ],
    )
    const order = config.chains[0]?.signatures.order
    assert.equal(order?.domain.verifyingContract, DEVNET.verifyingContract)
    assert.equal(order?.types.Order?.length, 9)
    assert.equal(config.limits.sizeMax, Number.MAX_SAFE_INTEGER)
  })

  await t.test('the permit of an order is stored in the database', async () => {
    const market = freshMarket()
    const here = createClient({ url: exchange.url })
    const signed = await signedOrder(market, buy, by(ann))
    const permit = await signedPermit(ann, { nonce: 2n ** 64n - 1n })
    const capitals = `0x${permit.r.slice(2).toUpperCase()}`
    const permitSignature = { ...permit, v: permit.v - 27, r: capitals }
    const { orderHash } = await here.orders.submit({ ...signed, permitSignature })
    const database = await openDatabase(`sqlite:${exchange.dataDir}/sibyl.db`)
    try {
      const row = await eventually(async () => {
        const [found] = await ordersByHash(database, [orderHash as never])
        assert.ok(found !== undefined)
        return found
      })
      assert.deepEqual(row.permit, {
        nonce: '18446744073709551615',
        value: String(2n ** 256n - 1n),
        deadline: '2000000000',
        v: permit.v,
        r: permit.r,
        s: permit.s,
      })
      assert.equal(row.signature, signed.signature)
    } finally {
      await closeDatabase(database)
    }
  })

  const known = await orders.list({ trader: ann.address })
  const market = known.at(-1)!.marketId
  const book = await client.orderbook(market)
  assert.ok(known.length >= 10)
  return async () => {
    const after = createClient({ url: exchange.url })
    assert.deepEqual(await after.orders.list({ trader: ann.address }), known)
    assert.deepEqual(await after.orderbook(market), book)
    // After a restart, a front has received no trade events, so it reads the trades from the database.
    assert.ok(traded !== undefined)
    const { market: busy, trades } = traded
    await eventually(async () => assert.deepEqual(await after.trades(busy), trades))
  }
}
