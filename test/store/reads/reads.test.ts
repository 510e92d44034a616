import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import { PERMIT_HIDDEN_SEC } from '#domain/limits.ts'
import { BUY, SELL } from '#domain/order.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { Database } from '#store/engine/database.ts'
import { project } from '#store/projection/project.ts'
import {
  listMarkets,
  type MarketFilter,
  marketsByContract,
  oldestMarketOf,
} from '#store/reads/markets.ts'
import { endedOrders, orderState } from '#store/reads/orders.ts'
import { pendingTradesWithOrders, permitsOf } from '#store/reads/settlements.ts'
import {
  failedTradesSince,
  newestPendingTrades,
  recentTrades,
  type TradePage,
  type TradePlace,
  type TradeRecord,
} from '#store/reads/trades.ts'
import { tradesOfUser } from '#store/reads/user-trades.ts'
import { onBothDatabases } from '../../support/databases.ts'
import {
  address,
  batch,
  id,
  market,
  order,
  orderRow,
  START_MS,
  trade,
  withStore,
} from '../batches.ts'

const named = (trades: readonly Pick<TradeRecord, 'marketId' | 'seq' | 'fillIndex'>[]) =>
  trades.map(({ marketId, seq, fillIndex }) => {
    const name = Buffer.from(marketId.slice(2), 'hex').toString('latin1').replaceAll('\0', '')
    return `${name}-${seq}-${fillIndex}`
  })

/** Reads the whole list page by page, and returns the names of its trades. */
async function pages(ask: (before?: TradePlace) => Promise<TradePage>): Promise<string[]> {
  const seen: string[] = []
  let before: TradePlace | undefined
  do {
    const page = await ask(before)
    seen.push(...named(page.trades))
    before = page.next
  } while (before !== undefined)
  return seen
}

const m = id<MarketId>('m')
const n = id<MarketId>('n')
const far = id<MarketId>('far')

/** Writes three markets on two chains, with trades of equal times. */
async function tell(database: Database): Promise<void> {
  const atMs = START_MS + 100
  await project(
    database,
    batch(1, 2, {
      markets: [
        { market: market('n'), seq: 1, atMs: START_MS },
        { market: market('far', { chainId: 137 }), seq: 1, atMs: START_MS },
      ],
      trades: [
        trade(2, 0, { matchedAtMs: START_MS }),
        trade(3, 0, { matchedAtMs: atMs }),
        trade(3, 1, { matchedAtMs: atMs }),
        trade(3, 10, { matchedAtMs: atMs }),
        trade(3, 2, { matchedAtMs: atMs }),
        trade(10, 0, { matchedAtMs: atMs }),
        trade(11, 0, { matchedAtMs: atMs + 1, buyer: address('eve'), seller: address('ann') }),
        trade(12, 0, { matchedAtMs: atMs + 1, buyer: address('ann'), seller: address('ann') }),
        trade(6, 0, { marketId: n, matchedAtMs: atMs }),
        trade(4, 0, { marketId: n, matchedAtMs: atMs, buyer: address('eve') }),
        trade(9, 0, { marketId: far, matchedAtMs: atMs + 5 }),
      ],
    }),
  )
}

await onBothDatabases('reads', (databases) => {
  it('a market’s trades are listed newest first, and trades with equal times by descending sequence and fill number', async () => {
    await withStore(databases, async (database) => {
      await tell(database)
      assert.deepEqual(named(await recentTrades(database, { marketId: m, limit: 100 })), [
        'm-12-0',
        'm-11-0',
        'm-10-0',
        'm-3-10',
        'm-3-2',
        'm-3-1',
        'm-3-0',
        'm-2-0',
      ])
      assert.deepEqual(named(await recentTrades(database, { marketId: m, limit: 2 })), [
        'm-12-0',
        'm-11-0',
      ])
      assert.deepEqual(await recentTrades(database, { marketId: id('none'), limit: 9 }), [])
      const before = async (seq: number, fillIndex: number, limit = 100) =>
        named(await recentTrades(database, { marketId: m, limit, before: { seq, fillIndex } }))
      assert.deepEqual(await before(10, 0, 3), ['m-3-10', 'm-3-2', 'm-3-1'])
      assert.deepEqual(await before(3, 2), ['m-3-1', 'm-3-0', 'm-2-0'])
      assert.deepEqual(await before(3, 3, 1), ['m-3-2'])
      assert.deepEqual(await before(2, 0), [])
    })
  })

  it('the trade list of a user contains purchases, sales and trades of the user with themselves', async () => {
    await withStore(databases, async (database) => {
      await tell(database)
      const of = async (user: string, chainId: number, limit: number) => {
        const { trades } = await tradesOfUser(database, { user: address(user), chainId, limit })
        return named(trades)
      }
      const ann = [
        'm-12-0',
        'm-11-0',
        'm-10-0',
        'n-6-0',
        'm-3-10',
        'm-3-2',
        'm-3-1',
        'm-3-0',
        'm-2-0',
      ]
      assert.deepEqual(await of('ann', 31337, 100), ann)
      for (let limit = 1; limit < ann.length; limit++) {
        assert.deepEqual(await of('ann', 31337, limit), ann.slice(0, limit))
        // The list is the same when it is read page by page, although some trades share a millisecond.
        const paged: string[] = []
        let before: TradePlace | undefined
        do {
          const filter = { user: address('ann'), chainId: 31337, limit, before }
          const page = await tradesOfUser(database, filter)
          paged.push(...named(page.trades))
          before = page.next
        } while (before !== undefined)
        assert.deepEqual(paged, ann)
      }
      assert.deepEqual(await of('ann', 137, 100), ['far-9-0'])
      assert.deepEqual(await of('eve', 31337, 100), ['m-11-0', 'n-4-0'])
      assert.deepEqual(await of('nobody', 31337, 100), [])
    })
  })

  it('an order is returned with its labels, and each trade in a trader’s list names the trader’s order', async () => {
    await withStore(databases, async (database) => {
      const tags = { label: 'quote "1"', group: 'g' }
      const own = order('tagged', { marketId: m })
      const placed = [orderRow(own, { tags }), orderRow(order('plain', { marketId: m }))]
      const hashes = { buyOrderHash: own.orderHash, sellOrderHash: id<OrderHash>('plain') }
      await project(database, batch(1, 2, { orders: placed, trades: [trade(2, 0, hashes)] }))
      const found = await orderState(database, own)
      assert.deepEqual([found?.status, found?.tags, found?.marketId], ['open', tags, m])
      assert.deepEqual((await orderState(database, placed[1]!.order))?.tags, {})
      assert.equal(await orderState(database, { orderHash: id<OrderHash>('none') }), undefined)
      const of = (user: string) =>
        tradesOfUser(database, { user: address(user), chainId: 31337, limit: 1 })
      const [bought] = (await of('ann')).trades
      assert.deepEqual(
        [bought?.orderHash, bought?.tags, bought?.takerSide],
        [own.orderHash, tags, BUY],
      )
      const [sold] = (await of('bob')).trades
      assert.deepEqual([sold?.orderHash, sold?.tags], [hashes.sellOrderHash, {}])
      const closed = { marketId: m, closed: 'resolved' as const, seq: 9, atMs: START_MS + 9 }
      await project(database, batch(2, 3, { marketChanges: [closed] }))
      assert.equal((await orderState(database, own))?.status, 'market-closed')
    })
  })

  it('pending trades are listed oldest first for settlement, and newest first for display', async () => {
    await withStore(databases, async (database) => {
      await tell(database)
      const becomes = (seq: number, status: TradeStatus) => ({
        tradeId: trade(seq, 0).tradeId,
        status,
        txHash: id('tx'),
        reason: '',
        atMs: START_MS + 500,
      })
      await project(
        database,
        batch(2, 3, {
          tradeChanges: [
            becomes(2, 'submitted'),
            becomes(3, 'confirmed'),
            becomes(10, 'failed'),
            becomes(11, 'reverted'),
          ],
        }),
      )
      const oldest = [
        'm-2-0',
        'm-3-1',
        'm-3-2',
        'm-3-10',
        'n-4-0',
        'n-6-0',
        'm-11-0',
        'm-12-0',
        'far-9-0',
      ]
      const all = await newestPendingTrades(database, { limit: 100 })
      assert.deepEqual(named(all.trades).reverse(), oldest)
      const newest = await newestPendingTrades(database, { limit: 4 })
      assert.deepEqual(named(newest.trades), oldest.toReversed().slice(0, 4))
      assert.equal(newest.count, oldest.length)
      for (const limit of [1, 2, 3]) {
        const ask = (before?: TradePlace) => newestPendingTrades(database, { limit, before })
        assert.deepEqual(await pages(ask), oldest.toReversed())
      }
    })
  })

  it('all permits of open orders and the latest permits of ended orders are returned for each trader', async () => {
    await withStore(databases, async (database) => {
      const { chainId } = market('m')
      const permitOf = (nonce: number) =>
        ({ nonce: String(nonce), value: '1', deadline: '1', v: 27, r: '0x1', s: '0x2' }) as const
      const rows = Array.from({ length: 70 }, (_, nonce) =>
        orderRow(order(`p${nonce}`, { permit: permitOf(nonce) as never }), {
          status: nonce % 2 === 0 ? 'open' : 'cancelled',
          placedAtMs: START_MS + nonce,
        }),
      )
      rows.push(orderRow(order('plain'), { placedAtMs: START_MS + 100 }))
      await project(database, batch(1, 2, { orders: rows }))
      const owner = order('plain').trader
      const found = await permitsOf(database, { chainId, owners: [owner, address('nobody')] })
      const nonces = found.map(({ permit }) => Number(permit.nonce))
      const open = Array.from({ length: 35 }, (_, half) => 2 * half)
      const ended = Array.from({ length: 32 }, (_, half) => 69 - 2 * half)
      assert.deepEqual(
        nonces.slice(0, 35).sort((a, b) => a - b),
        open,
      )
      assert.deepEqual(nonces.slice(35), ended)
      assert.ok(found.every((each) => each.owner === owner))
      assert.deepEqual(await permitsOf(database, { chainId: 999, owners: [owner] }), [])
    })
  })

  it('the permit of an ended order is hidden as long as another account could submit it', async () => {
    await withStore(databases, async (database) => {
      const nowSec = Math.floor(START_MS / 1_000)
      const placed = (name: string, deadline: bigint, status: 'open' | 'cancelled') => {
        const permit = { nonce: '0', value: '1', deadline: String(deadline), v: 27 } as const
        const parts = { r: `0x${'1'.repeat(64)}`, s: `0x${'2'.repeat(64)}` }
        return orderRow(order(name, { permit: { ...permit, ...parts } as never }), { status })
      }
      const past = BigInt(nowSec - PERMIT_HIDDEN_SEC) - 1n
      const rows = [
        placed('open', past, 'open'),
        placed('past', past, 'cancelled'),
        placed('now', past + 1n, 'cancelled'),
        placed('ever', 2n ** 256n - 1n, 'cancelled'),
        orderRow(order('none'), { status: 'cancelled' }),
      ]
      await project(database, batch(1, 2, { orders: rows }))
      const orderHashes = rows.map((row) => row.order.orderHash)
      const found = await endedOrders(database, { orderHashes, nowSec })
      const shown = new Map(found.map((each) => [each.orderHash, each.permit?.deadline]))
      assert.deepEqual(
        orderHashes.map((hash) => [shown.has(hash), shown.get(hash)]),
        [
          [false, undefined],
          [true, String(past)],
          [true, undefined],
          [true, undefined],
          [true, undefined],
        ],
      )
    })
  })

  it('permits of open orders are listed before permits of ended orders, however many orders ended later', async () => {
    await withStore(databases, async (database) => {
      const { chainId } = market('m')
      const permitOf = (nonce: number, value: number) =>
        ({
          nonce: String(nonce),
          value: `${value}`,
          deadline: '1',
          v: 27,
          r: '0x1',
          s: '0x2',
        }) as const
      const quote = (name: string, nonce: number, value: number) =>
        order(name, { permit: permitOf(nonce, value) as never })
      const rows = Array.from({ length: 70 }, (_, at) =>
        orderRow(quote(`q${at}`, 6, at), { status: 'cancelled', placedAtMs: START_MS + 1 + at }),
      )
      rows.push(orderRow(quote('resting', 5, 1), { status: 'open', placedAtMs: START_MS }))
      await project(database, batch(1, 2, { orders: rows }))
      const owner = order('resting').trader
      const found = await permitsOf(database, { chainId, owners: [owner] })
      assert.deepEqual(found[0], { owner, permit: permitOf(5, 1) })
      assert.equal(found.length, 65)
    })
  })

  it('pending trades are returned with their orders, except trades that the caller already has', async () => {
    await withStore(databases, async (database) => {
      await tell(database)
      const [bought, sold] = [order('buy'), order('sell', { side: SELL, trader: address('bob') })]
      await project(database, batch(2, 3, { orders: [orderRow(bought), orderRow(sold)] }))
      const chainId = market('m').chainId
      const ask = (filter: Partial<Parameters<typeof pendingTradesWithOrders>[1]>) =>
        pendingTradesWithOrders(database, { chainId, limit: 100, ...filter })
      const listed = async (filter: Parameters<typeof ask>[0]) => {
        const { trades, full } = await ask(filter)
        return [trades.map(({ marketId, seq, fillIndex }) => [marketId, seq, fillIndex]), full]
      }
      const { trades } = await ask({})
      assert.equal(trades.length, 10)
      assert.deepEqual([trades[0]?.buy, trades[0]?.sell], [bought, sold])
      assert.deepEqual([trades[0]?.status, trades[0]?.attempts], ['matched', 0])
      assert.deepEqual(
        trades.map(({ tradeId }) => tradeId),
        (await newestPendingTrades(database, { limit: 100 })).trades
          .filter((each) => each.chainId === chainId)
          .map(({ tradeId }) => tradeId)
          .reverse(),
      )
      // Trades that the caller has do not count towards the limit.
      const known = [trade(2, 0).tradeId, trade(3, 1).tradeId]
      const next = [
        [m, 3, 0],
        [m, 3, 2],
      ]
      assert.deepEqual(await listed({ limit: 2, exceptTrades: known }), [next, true])
      assert.deepEqual(await listed({ exceptMarkets: [m], limit: 3 }), [
        [
          [n, 4, 0],
          [n, 6, 0],
        ],
        false,
      ])
      assert.deepEqual(await listed({ chainId: 137, exceptTrades: [id('none') as never] }), [
        [[far, 9, 0]],
        false,
      ])
    })
  })

  it('the trades that failed since a given time are listed, newest failure first', async () => {
    await withStore(databases, async (database) => {
      await tell(database)
      const fails = (seq: number, fillIndex: number, atMs: number) => ({
        tradeId: trade(seq, fillIndex).tradeId,
        status: 'failed' as const,
        txHash: '',
        reason: 'no funds',
        atMs,
      })
      await project(
        database,
        batch(2, 3, {
          tradeChanges: [
            fails(2, 0, START_MS + 900),
            fails(3, 0, START_MS + 900),
            fails(3, 1, START_MS + 900),
            fails(10, 0, START_MS + 901),
            fails(11, 0, START_MS + 899),
          ],
        }),
      )
      const since = (sinceMs: number, limit: number) =>
        failedTradesSince(database, { sinceMs, limit })
      const all = await since(START_MS + 900, 100)
      assert.deepEqual(named(all.trades), ['m-10-0', 'm-3-1', 'm-3-0', 'm-2-0'])
      assert.equal(all.count, 4)
      assert.equal(all.trades[0]?.reason, 'no funds')
      assert.equal(all.trades[0]?.txHash, '')
      const one = await since(START_MS, 1)
      assert.deepEqual(named(one.trades), ['m-10-0'])
      assert.equal(one.count, 5)
      const none = { trades: [], count: 0, next: undefined }
      assert.deepEqual(await since(START_MS + 902, 9), none)
      for (const limit of [1, 2, 3]) {
        const ask = (before?: TradePlace) =>
          failedTradesSince(database, { sinceMs: START_MS + 900, limit, before })
        assert.deepEqual(await pages(ask), named(all.trades))
      }
    })
  })

  it('markets are listed by chain, category, kind and expiration, newest first', async () => {
    await withStore(databases, async (database) => {
      const markets = [
        market('a', { createdAt: 1_700_000_001, category: 'defi' }),
        market('b', { createdAt: 1_700_000_002, chainId: 137, expiration: 1_800_000_000 }),
        market('c', { createdAt: 1_700_000_003, quick: true, contractAddress: address('here') }),
        market('d', { createdAt: 1_700_000_003, category: 'defi', chainId: 137 }),
      ]
      await project(
        database,
        batch(1, 2, { markets: markets.map((each) => ({ market: each, seq: 1, atMs: START_MS })) }),
      )
      const list = async (filter: Omit<MarketFilter, 'limit'>, limit = 100) =>
        (await listMarkets(database, { ...filter, limit })).map(({ question }) =>
          question.replace(/^Will (.*) happen\?$/, '$1'),
        )
      assert.deepEqual(await list({}), ['d', 'c', 'b', 'a', 'm'])
      assert.deepEqual(await list({}, 2), ['d', 'c'])
      assert.deepEqual(await list({ quick: false }), ['d', 'b', 'a', 'm'])
      assert.deepEqual(await list({ quick: true }), ['c'])
      assert.deepEqual(await list({ chainId: 137 }), ['d', 'b'])
      assert.deepEqual(await list({ category: 'defi' }), ['d', 'a'])
      assert.deepEqual(await list({ category: 'defi', chainId: 137, quick: false }), ['d'])
      const here = await marketsByContract(database, address('here'))
      assert.deepEqual(
        here.map((each) => each.id),
        [id('c')],
      )
    })
  })

  it('the lookup by the first digits of a market id returns the oldest matching market', async () => {
    await withStore(databases, async (database) => {
      const start = '0f'.repeat(6)
      const named = (end: string, createdAt: number) =>
        market('a', { id: `0x${start}${end.repeat(52)}` as MarketId, createdAt })
      const markets = [named('f', 1_700_000_009), named('0', 1_700_000_010)]
      await project(
        database,
        batch(1, 2, { markets: markets.map((each) => ({ market: each, seq: 1, atMs: START_MS })) }),
      )
      assert.equal((await oldestMarketOf(database, start))?.id, markets[0]?.id)
      assert.equal(await oldestMarketOf(database, '0e'.repeat(6)), undefined)
    })
  })
})
