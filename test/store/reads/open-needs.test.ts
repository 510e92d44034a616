/** Tests the initial data of the accounts service: all open orders and pending trades of one snapshot, in pages. */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { NeedsMarket, NeedsOrder, NeedsTrade } from '#domain/funds.ts'
import { type MarketId, type OrderHash, tradeId } from '#domain/ids.ts'
import { ONE, type Shares } from '#domain/money.ts'
import { NO, type PermitSignature, SELL } from '#domain/order.ts'
import type { TradeStatus } from '#domain/trade.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { project } from '#store/projection/project.ts'
import { type NeedsPage, openNeeds, tradeNeeds } from '#store/reads/open-needs.ts'
import { makeReads } from '#store/reads/reads.ts'
import { onBothDatabases } from '../../support/databases.ts'
import {
  address,
  batch,
  CHAIN,
  id,
  market,
  order,
  orderRow,
  START_MS,
  trade,
  withStore,
} from '../batches.ts'

const PERMIT = {
  value: '10000000',
  deadline: '2000000000',
  v: 27,
  r: `0x${'1'.repeat(64)}`,
  s: `0x${'2'.repeat(64)}`,
} as PermitSignature
const CLOSED_MS = START_MS + 1_000
const [m, n, gone, old, late] = (['m', 'n', 'gone', 'old', 'late'] as const).map((name) =>
  id<MarketId>(name),
) as [MarketId, MarketId, MarketId, MarketId, MarketId]

/** Writes open and closed markets, open and ended orders, and trades with every status. */
async function tell(database: Database): Promise<void> {
  const closing = (marketId: MarketId, atMs: number) =>
    ({ marketId, closed: 'resolved', seq: 90, atMs }) as const
  const statuses: readonly TradeStatus[] = ['submitted', 'confirmed', 'failed', 'reverted']
  await project(
    database,
    batch(1, 7, {
      markets: [
        { market: market('n', { chainId: 5 }), seq: 1, atMs: START_MS },
        ...['gone', 'old', 'late'].map((name) => ({
          market: market(name),
          seq: 1,
          atMs: START_MS,
        })),
      ],
      orders: [
        ...[1, 2, 3].map((number) =>
          orderRow(order(`m${number}`, { size: (number * ONE) as Shares }), {
            remaining: number * ONE - 7,
            placedAtMs: START_MS + number,
          }),
        ),
        orderRow(order('with', { permit: PERMIT })),
        orderRow(order('sell', { side: SELL, outcome: NO, trader: address('bob') })),
        orderRow(order('ended'), { status: 'cancelled' }),
        orderRow(order('filled', { permit: PERMIT }), { status: 'filled', remaining: 0 }),
        orderRow(order('far', { marketId: n })),
        orderRow(order('closed', { marketId: old })),
      ],
      trades: [
        trade(10, 0, { buyOrderHash: id<OrderHash>('filled') }),
        trade(10, 1, { buyOrderHash: id<OrderHash>('m1') }),
        // This trade of another market has the same time, `seq` and fill index as the previous trade. Pages are ordered
        // by these values, so neither trade may be skipped.
        trade(10, 1, { marketId: n, matchedAtMs: START_MS + 10, outcome: NO }),
        ...statuses.map((_, index) => trade(11 + index, 0)),
        trade(20, 0, { marketId: old }),
      ],
      tradeChanges: statuses.map((status, index) => ({
        tradeId: tradeId(m, 11 + index, 0),
        status,
        txHash: id(`tx${index}`),
        reason: '',
        atMs: START_MS + 50,
      })),
      marketChanges: [
        closing(gone, CLOSED_MS - 1),
        closing(old, CLOSED_MS - 1),
        closing(late, CLOSED_MS),
      ],
    }),
  )
}

type Gathered = {
  checkpoints: NonNullable<Extract<NeedsPage, { checkpoints: unknown }>['checkpoints']>
  markets: NeedsMarket[]
  orders: NeedsOrder[]
  trades: NeedsTrade[]
  pages: number
}

function gatherer(): [Gathered, (page: NeedsPage) => void] {
  const all: Gathered = { checkpoints: [], markets: [], orders: [], trades: [], pages: 0 }
  return [
    all,
    (page) => {
      all.pages += 1
      if ('checkpoints' in page) all.checkpoints = page.checkpoints
      else if ('markets' in page) all.markets.push(...page.markets)
      else if ('orders' in page) all.orders.push(...page.orders)
      else all.trades.push(...page.trades)
    },
  ]
}

const nameOf = (hex: string): string =>
  Buffer.from(hex.slice(2), 'hex').toString('latin1').replaceAll('\0', '')

await onBothDatabases('the funds that orders and trades need can be read', (databases) => {
  it('the read of all open orders and pending trades is complete, whatever its page size', async () => {
    await withStore(databases, async (database) => {
      await tell(database)
      for (const pageMax of [1, 2, 3, 5_000]) {
        const [found, take] = gatherer()
        await openNeeds(database, { closedSinceMs: CLOSED_MS, pageMax }, take)
        assert.deepEqual(found.checkpoints, [
          { partition: 0, offset: 7 },
          { partition: 1, offset: 0 },
        ])
        assert.deepEqual(
          found.markets.map(({ marketId, chainId, closed }) => [nameOf(marketId), chainId, closed]),
          [
            ['late', CHAIN, true],
            ['m', CHAIN, false],
            ['n', 5, false],
            ['old', CHAIN, true],
          ],
          'what is open, what closed lately, and what has a trade under way',
        )
        assert.deepEqual(
          found.orders.map((one) => nameOf(one.orderHash)),
          ['m1', 'm2', 'm3', 'with', 'sell', 'far'],
        )
        assert.deepEqual(found.orders[1], {
          orderHash: id('m2'),
          marketId: m,
          trader: address('ann'),
          side: 0,
          outcome: 0,
          price: 420_000,
          remaining: 2 * ONE - 7,
          permit: undefined,
          placedAtMs: START_MS + 2,
        })
        assert.deepEqual(
          found.orders.map(({ side, outcome, permit }) => [side, outcome, permit]).slice(3, 5),
          [
            [0, 0, PERMIT.nonce],
            [1, 1, undefined],
          ],
        )
        assert.deepEqual(
          found.trades.map(({ tradeId: name }) => name).sort(),
          [
            ...[tradeId(m, 10, 0), tradeId(m, 10, 1), tradeId(n, 10, 1), tradeId(m, 11, 0)],
            ...[tradeId(m, 14, 0), tradeId(old, 20, 0)],
          ].sort(),
        )
        assert.deepEqual(found.trades[0], {
          tradeId: tradeId(m, 10, 0),
          marketId: m,
          outcome: 0,
          price: 420_000,
          size: ONE,
          buyer: address('ann'),
          seller: address('bob'),
          buyOrderHash: id('filled'),
          sellOrderHash: id('sell'),
          permit: PERMIT.nonce,
          sent: false,
        })
        assert(pageMax > 1 || found.pages > 15)
      }
    })
  })

  it('open orders and pending trades are read from one database snapshot, even while the projector writes', async () => {
    await withStore(databases, async (database, url) => {
      await tell(database)
      const writer = await openDatabase(url)
      const reads = makeReads(url)
      try {
        const [found, take] = gatherer()
        let writing: Promise<unknown> | undefined
        await reads.openNeeds({ closedSinceMs: CLOSED_MS, pageMax: 2 }, async (page) => {
          take(page)
          // The write happens after the first page was read, and before the second.
          writing ??= project(
            writer,
            batch(7, 8, {
              orders: [orderRow(order('zz'))],
              orderChanges: ['m1', 'm2', 'sell', 'far'].map((name) => ({
                orderHash: id<OrderHash>(name),
                status: 'cancelled',
                remaining: 0,
                seq: 91,
                atMs: START_MS + 60,
              })),
              tradeChanges: [
                {
                  tradeId: tradeId(m, 14, 0),
                  status: 'confirmed',
                  txHash: id('tx'),
                  reason: '',
                  atMs: START_MS + 60,
                },
              ],
            }),
          )
          await writing
        })
        assert.deepEqual([found.orders.length, found.trades.length], [6, 6])
        assert.deepEqual(found.checkpoints, [
          { partition: 0, offset: 7 },
          { partition: 1, offset: 0 },
        ])
        const [after, takeAfter] = gatherer()
        await reads.openNeeds({ closedSinceMs: CLOSED_MS }, takeAfter)
        assert.deepEqual([after.orders.length, after.trades.length], [3, 5])
        assert.deepEqual(after.checkpoints, [
          { partition: 0, offset: 8 },
          { partition: 1, offset: 0 },
        ])
      } finally {
        await reads.close()
        await closeDatabase(writer)
      }
    })
  })

  it('the funds that a trade needs can be read for matched and for sent trades', async () => {
    await withStore(databases, async (database) => {
      await tell(database)
      const asked = [tradeId(m, 12, 0), tradeId(m, 10, 0), tradeId(n, 99, 0)]
      const found = await tradeNeeds(database, { tradeIds: asked })
      assert.deepEqual(
        found.map((one) => [one.tradeId, one.permit, one.sent]).sort(),
        [
          [tradeId(m, 10, 0), PERMIT.nonce, false],
          [tradeId(m, 12, 0), undefined, true],
        ].sort(),
      )
      assert.deepEqual(await tradeNeeds(database, { tradeIds: [] }), [])
    })
  })
})
