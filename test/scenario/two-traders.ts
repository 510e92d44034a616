/** Two traders build a book, match, fill in part, cancel, and read everything back. */

import assert from 'node:assert/strict'
import { createClient } from '#client/client.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { traderNumbered } from '../support/signed-orders.ts'

const ann = traderNumbered(41)
const bob = traderNumbered(42)

/** A price level in dollars and shares: [0.58, 5] is five shares at 58 cents. */
type Row = readonly [price: number, size: number]

/** Runs the trades. Returns a check that must also succeed after a restart. */
export async function twoTraders(
  exchange: Exchange,
  marketId: string,
): Promise<() => Promise<void>> {
  const clientOf = (key?: `0x${string}`) =>
    createClient({
      ...{ url: exchange.url, chainId: 31_337 },
      ...(key === undefined ? {} : { signer: key }),
    })

  async function place(
    who: typeof ann,
    side: 'buy' | 'sell',
    outcome: 'YES' | 'NO',
    price: string,
    size: string,
    matches: number,
  ): Promise<string> {
    const placed = await clientOf(who.key).orders.place({
      marketId,
      side,
      outcome,
      price,
      size,
      ttlSeconds: 3_600,
    })
    assert.equal(placed.matches, matches, `${side} ${size} ${outcome} at ${price}`)
    return placed.orderHash
  }

  async function assertBook(
    outcome: 'YES' | 'NO' | undefined,
    bids: readonly Row[],
    asks: readonly Row[],
  ): Promise<void> {
    const book = await clientOf().orderbook(marketId, outcome)
    const rows = (levels: typeof book.bids) =>
      levels.map(({ price, size }) => [price / 1e6, Number(size) / 1e6])
    assert.deepEqual({ bids: rows(book.bids), asks: rows(book.asks) }, { bids, asks })
  }

  async function bestAsk(): Promise<number | undefined> {
    const markets = await clientOf().markets({ chainId: 31_337 })
    return markets.find(({ id }) => id === marketId)?.bestAskPrice
  }

  // Builds the book of YES from orders that do not match.
  const ann60a = await place(ann, 'sell', 'YES', '0.60', '10', 0)
  const ann58 = await place(ann, 'sell', 'YES', '0.58', '5', 0)
  const ann60b = await place(ann, 'sell', 'YES', '0.60', '8', 0)
  const ann40 = await place(ann, 'buy', 'YES', '0.40', '4', 0)
  const bob45 = await place(bob, 'buy', 'YES', '0.45', '6', 0)
  await assertBook(
    'YES',
    [
      [0.45, 6],
      [0.4, 4],
    ],
    [
      [0.58, 5],
      [0.6, 18],
    ],
  )
  assert.equal(await bestAsk(), 580_000)

  // Bob takes 12 at up to 0.60: all 5 at 0.58, then 7 of the older order at 0.60.
  const bobTakes12 = await place(bob, 'buy', 'YES', '0.60', '12', 2)
  await assertBook(
    'YES',
    [
      [0.45, 6],
      [0.4, 4],
    ],
    [[0.6, 11]],
  )

  // Ann sells 7 at 0.45, and Bob's bid has only 6. So 6 are traded, and 1 rests as an ask at 0.45.
  const ann45 = await place(ann, 'sell', 'YES', '0.45', '7', 1)
  await assertBook(
    'YES',
    [[0.4, 4]],
    [
      [0.45, 1],
      [0.6, 11],
    ],
  )
  assert.equal(await bestAsk(), 450_000)

  // NO has a book of its own: a NO sale at 0.30 meets no YES bid at 0.40.
  const bobNo30 = await place(bob, 'sell', 'NO', '0.30', '2', 0)
  const annNo29 = await place(ann, 'buy', 'NO', '0.29', '1', 0)
  await assertBook('NO', [[0.29, 1]], [[0.3, 2]])
  await assertBook(
    undefined,
    [
      [0.4, 4],
      [0.29, 1],
    ],
    [
      [0.3, 2],
      [0.45, 1],
      [0.6, 11],
    ],
  )
  assert.equal(await bestAsk(), 450_000)

  // Ann cancels the remaining 3 of her partly filled order of 10. Her filled orders cannot be cancelled.
  const annOrders = clientOf(ann.key).orders
  await annOrders.cancel({ orderHash: ann60a, marketId, side: 'sell' })
  for (const [orderHash, side] of [
    [ann60a, 'sell'],
    [ann58, 'sell'],
    [bob45, 'buy'],
  ] as const) {
    await assert.rejects(annOrders.cancel({ orderHash, marketId, side }), {
      code: 'ORDER_CLOSED',
      status: 409,
    })
  }

  // Bob buys 20: 1 at 0.45 and 8 at 0.60 match, and 11 rest as the best bid.
  const bobSweeps = await place(bob, 'buy', 'YES', '0.60', '20', 2)

  const readBack = async () => {
    await assertBook(
      'YES',
      [
        [0.6, 11],
        [0.4, 4],
      ],
      [],
    )
    await assertBook('NO', [[0.29, 1]], [[0.3, 2]])
    assert.equal(await bestAsk(), 0)

    const open = async (who: typeof ann) =>
      (await clientOf(who.key).orders.list({ market: marketId })).map((order) => [
        order.orderHash,
        order.size / 1e6,
        order.filled / 1e6,
        order.remainingSize / 1e6,
      ])
    assert.deepEqual(await open(ann), [
      [ann40, 4, 0, 4],
      [annNo29, 1, 0, 1],
    ])
    assert.deepEqual(await open(bob), [
      [bobNo30, 2, 0, 2],
      [bobSweeps, 20, 9, 11],
    ])

    const trades = await clientOf().trades(marketId)
    assert.deepEqual(
      trades.map(({ price, size }) => [price / 1e6, size / 1e6]),
      [
        [0.6, 8],
        [0.45, 1],
        [0.45, 6],
        [0.6, 7],
        [0.58, 5],
      ],
    )
    for (const { buyer, seller, outcome } of trades) {
      assert.deepEqual([buyer, seller, outcome], [bob.address, ann.address, 0])
    }
    // 27 shares for 15.05: 8 × 0.60 + 1 × 0.45 + 6 × 0.45 + 7 × 0.60 + 5 × 0.58.
    const shares = trades.reduce((sum, { size }) => sum + size, 0)
    const paid = trades.reduce((sum, { price, size }) => sum + (price * size) / 1e6, 0)
    assert.deepEqual([shares, paid], [27_000_000, 15_050_000])

    // The list of markets and the market's own endpoint must both return the figures in `line`.
    const line = {
      ...{ status: 'open', quick: false, bestAskPrice: 0 },
      ...{ bestBidPrices: [600_000, 290_000], bestAskPrices: [0, 300_000] },
      ...{ lastPrice: 600_000, lastOutcome: 0, lastPrices: [600_000, 0] },
      ...{ priceChanges24h: [20_000, null], volume24h: 15_050_000 },
      ...{ trades24h: 5, totalVolume: 15_050_000 },
    }
    const answer = async (path: string) => {
      const got = await (await fetch(`${exchange.url}/api/v1/markets${path}`)).json()
      return got as Record<string, unknown> & { markets?: Record<string, unknown>[] }
    }
    const listed = (await answer('')).markets?.find(({ id }) => id === marketId)
    for (const told of [await answer(`/${marketId}`), listed]) {
      assert.deepEqual(
        Object.fromEntries(Object.keys(line).map((field) => [field, told?.[field]])),
        line,
      )
    }
  }
  await readBack()
  assert.equal(new Set([ann60b, ann45, bobTakes12]).size, 3)

  // Trades are read from the database, which may be behind for a moment, so the check is repeated.
  return () => eventually(readBack)
}
