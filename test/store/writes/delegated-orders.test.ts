import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { ChainEvent } from '#domain/chain-event.ts'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import { DELEGATED_ORDERS_MAX, DELEGATED_READ_MAX } from '#domain/limits.ts'
import { ONE, type Price, type Shares } from '#domain/money.ts'
import { claimChain } from '#store/chain-index/cursor.ts'
import { indexRange } from '#store/chain-index/index-range.ts'
import { rewindChain } from '#store/chain-index/rewind-chain.ts'
import { type Database, read, transact } from '#store/engine/database.ts'
import { bytesOf } from '#store/engine/hex.ts'
import { statements } from '#store/engine/statements.ts'
import { project } from '#store/projection/project.ts'
import { marketsToReconcile } from '#store/reads/chain-markets.ts'
import { delegationsOf, delegators } from '#store/reads/delegates.ts'
import {
  checkDelegated,
  type DelegatedOrder,
  releaseDelegated,
  reserveDelegated,
} from '#store/writes/delegated-orders.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { address, batch, CHAIN, id, order, orderRow, START_MS, withStore } from '../batches.ts'

const NOW_SEC = Math.floor(START_MS / 1_000)

/** Returns an order worth one dollar that the delegate `bot` signed for Ann. */
const delegated = (name: string, terms: Partial<DelegatedOrder> = {}): DelegatedOrder => ({
  orderHash: id<OrderHash>(name),
  chainId: CHAIN,
  trader: address('ann'),
  delegate: address('bot'),
  price: 500_000 as Price,
  size: (2 * ONE) as Shares,
  expiresAtSec: NOW_SEC + 3_600,
  nowMs: START_MS,
  maxOpenNotional: 3 * ONE,
  ...terms,
})

const block = (number: number) => ({ number, hash: `0x${number}`.padEnd(66, '0'), atSec: NOW_SEC })

const delegateSet = (
  blockNumber: number,
  untilSec: number,
  markets: MarketId[] = [],
  maxOrderSize = 2 * ONE,
): ChainEvent => ({
  type: 'DelegateSet',
  ...{ blockNumber, logIndex: 0, txHash: id('tx'), atSec: NOW_SEC },
  account: address('ann'),
  delegate: address('bot'),
  untilSec,
  settlesUntilSec: NOW_SEC + 9_999,
  maxOrderSize,
  maxOpenNotional: 8,
  markets,
})

async function index(database: Database, number: number, events: ChainEvent[]): Promise<void> {
  await indexRange(database, {
    ...{ chainId: CHAIN, after: block(number - 1), upTo: block(number), marks: [block(number)] },
    ...{ events, setAside: [], giveUpOrphansOf: -1, atMs: 1 },
  })
}

const claim = (database: Database) =>
  claimChain(database, {
    ...{ chainId: CHAIN, deployment: 'here', startBlock: 1, anchor: block(0), atMs: 1 },
  })

const reads = { chainId: CHAIN, account: address('ann'), nowSec: NOW_SEC, limit: 9 }

await onBothDatabases('orders of delegates count towards their limit', (databases) => {
  it('a resubmitted order of a delegate counts once, and an order above the delegate’s limit is refused', async () => {
    await withStore(databases, async (database) => {
      const reserve = (name: string, terms?: Partial<DelegatedOrder>) =>
        reserveDelegated(database, delegated(name, terms))
      for (const name of ['a', 'b', 'c']) assert.deepEqual(await reserve(name), { reserved: true })
      const full = { reserved: false, openNotional: BigInt(3 * ONE), openOrders: 3 }
      assert.deepEqual(await reserve('d'), full)
      assert.deepEqual(await reserve('a'), { reserved: true }, 'the same order again')
      assert.deepEqual(await reserve('d', { delegate: address('bot 2') }), { reserved: true })
      assert.deepEqual(await reserve('e', { maxOpenNotional: 0 }), { reserved: true })
    })
  })

  it('only the unfilled part of a delegate’s open order counts towards the delegate’s limit', async () => {
    await withStore(databases, async (database) => {
      for (const name of ['a', 'b', 'c']) await reserveDelegated(database, delegated(name))
      const price = { price: 500_000 as Price, size: (2 * ONE) as Shares }
      await project(
        database,
        batch(1, 2, {
          orders: [
            orderRow(order('a', price), { status: 'open', remaining: ONE }),
            orderRow(order('b', price), { status: 'cancelled', remaining: ONE }),
          ],
        }),
      )
      const halfOpen = { reserved: false, openNotional: BigInt(1.5 * ONE), openOrders: 2 }
      const large = delegated('d', { size: (4 * ONE) as Shares })
      assert.deepEqual(await reserveDelegated(database, large), halfOpen)
      assert.deepEqual(await checkDelegated(database, delegated('d')), { reserved: true })
      assert.deepEqual(await reserveDelegated(database, delegated('e')), { reserved: true })
    })
  })

  it('a check of a delegate’s order gives the same answer as its reservation, but writes nothing', async () => {
    await withStore(databases, async (database) => {
      const rows = () =>
        read(database, (em) => em.getConnection().execute('select * from delegated_orders'))
      for (const name of ['a', 'b', 'c']) {
        assert.deepEqual(await checkDelegated(database, delegated(name)), { reserved: true })
        await reserveDelegated(database, delegated(name))
      }
      const before = await rows()
      const known = await checkDelegated(database, delegated('a'))
      const over = await checkDelegated(database, delegated('d'))
      const lost = { nowMs: START_MS + 600_001, maxOpenNotional: ONE - 1 }
      const forgotten = await checkDelegated(database, delegated('a', lost))
      assert.deepEqual(await rows(), before)
      assert.deepEqual(known, { reserved: true })
      assert.deepEqual(over, { reserved: false, openNotional: BigInt(3 * ONE), openOrders: 3 })
      assert.deepEqual(forgotten, { reserved: false, openNotional: 0n, openOrders: 0 })
      assert.deepEqual(await reserveDelegated(database, delegated('d')), over)
    })
  })

  it('a delegate’s order stops counting towards the limit if its market refuses or never records it', async () => {
    await withStore(databases, async (database) => {
      for (const name of ['a', 'b', 'c']) await reserveDelegated(database, delegated(name))
      assert.equal(await releaseDelegated(database, { orderHash: id('a') }), true)
      assert.equal(await releaseDelegated(database, { orderHash: id('a') }), false)
      assert.deepEqual(await reserveDelegated(database, delegated('d')), { reserved: true })
      const later = { nowMs: START_MS + 600_001 }
      assert.deepEqual(await reserveDelegated(database, delegated('e', later)), { reserved: true })
    })
  })

  it('an order of a delegate still counts towards the limit if only one of its two submissions is refused', async () => {
    await withStore(databases, async (database) => {
      for (const name of ['a', 'b', 'c']) await reserveDelegated(database, delegated(name))
      // The same order is submitted again, before the projection has written it. The market refuses this second
      // submission because of one of its options.
      assert.deepEqual(await reserveDelegated(database, delegated('a')), { reserved: true })
      assert.equal(await releaseDelegated(database, { orderHash: id('a') }), false)
      assert.equal((await reserveDelegated(database, delegated('d'))).reserved, false)
      assert.equal(await releaseDelegated(database, { orderHash: id('a') }), true)
      assert.deepEqual(await reserveDelegated(database, delegated('d')), { reserved: true })
    })
  })

  it('a delegate’s order that no longer counts towards the limit is checked again when it is resubmitted', async () => {
    await withStore(databases, async (database) => {
      await reserveDelegated(database, delegated('a'))
      const later = { nowMs: START_MS + 600_001, maxOpenNotional: ONE - 1 }
      assert.equal((await reserveDelegated(database, delegated('a', later))).reserved, false)
    })
  })

  it('a delegate whose open orders are limited in value can have at most a thousand open orders', async () => {
    await withStore(databases, async (database) => {
      const small = { size: 1 as Shares, maxOpenNotional: 1e9 }
      await transact(database, (transaction, connection) =>
        statements(database, connection, transaction).insert(
          'delegated_orders',
          Array.from({ length: DELEGATED_ORDERS_MAX }, (_, at) => ({
            ...{ order_hash: bytesOf(id(`s${at}`)), chain_id: CHAIN, price_e6: 1, size_e6: 1 },
            ...{ trader: bytesOf(address('ann')), delegate: bytesOf(address('bot')) },
            ...{ expires_at_sec: NOW_SEC + 9, reserved_at_ms: START_MS, submissions: 1 },
          })),
        ),
      )
      const answer = await reserveDelegated(database, delegated('one more', small))
      assert.equal(answer.reserved, false)
    })
  })

  it('many ended orders of a delegate are removed in several calls, each reading a limited number of orders', async () => {
    await withStore(databases, async (database) => {
      const LOST_AT_MS = START_MS - 600_001
      await transact(database, (transaction, connection) =>
        statements(database, connection, transaction).insert(
          'delegated_orders',
          Array.from({ length: DELEGATED_READ_MAX + 10 }, (_, at) => ({
            ...{ order_hash: bytesOf(id(`s${at}`)), chain_id: CHAIN, price_e6: 1, size_e6: 1 },
            ...{ trader: bytesOf(address('ann')), delegate: bytesOf(address('bot')) },
            ...{ expires_at_sec: NOW_SEC + 9, reserved_at_ms: LOST_AT_MS, submissions: 1 },
          })),
        ),
      )
      const first = await reserveDelegated(database, delegated('a'))
      assert.deepEqual(first, { reserved: false, openNotional: 0n, openOrders: 0, isCrowded: true })
      const rows = 'select count(*) as count from delegated_orders'
      const [left] = await read(database, (em) => em.getConnection().execute(rows))
      assert.equal(Number(left?.count), 10)
      assert.deepEqual(await reserveDelegated(database, delegated('a')), { reserved: true })
    })
  })

  it('a delegate’s orders are listed for cancelling when the delegation ends or no longer permits the orders', async () => {
    await withStore(databases, async (database) => {
      await claim(database)
      await index(database, 1, [delegateSet(1, NOW_SEC + 100)])
      await reserveDelegated(database, delegated('a'))
      await project(
        database,
        batch(1, 2, { orders: [orderRow(order('a')), orderRow(order('own'))] }),
      )
      const due = async (nowSec = NOW_SEC) => {
        const { cancel } = await marketsToReconcile(database, { chainId: CHAIN, nowSec, limit: 9 })
        return cancel.map(({ orderHash }) => orderHash)
      }
      assert.deepEqual(await due(), [])
      assert.deepEqual(await due(NOW_SEC + 100), [id('a')], 'its time has ended')
      await index(database, 2, [delegateSet(2, 0)])
      assert.deepEqual(await due(), [id('a')], 'it is revoked')
      await rewindChain(database, { chainId: CHAIN, from: block(2), to: block(1), atMs: 2 })
      assert.deepEqual(await due(), [], 'a reorg removed the revocation')
      const { marketId } = order('a')
      const untilSec = NOW_SEC + 100
      for (const [change, expected, what] of [
        [delegateSet(2, untilSec, [id<MarketId>('m1')]), [id('a')], 'its market is excluded'],
        [delegateSet(3, untilSec, [id<MarketId>('m1'), marketId]), [], 'its market is allowed'],
        [delegateSet(4, untilSec, [], 2 * ONE - 1), [id('a')], 'it is too large'],
        [delegateSet(5, untilSec, [], 0), [], 'any size is allowed'],
      ] as const) {
        await index(database, change.blockNumber, [change])
        assert.deepEqual(await due(), expected, what)
      }
      await rewindChain(database, { chainId: CHAIN, from: block(5), to: block(1), atMs: 2 })
      await rewindChain(database, { chainId: CHAIN, from: block(1), to: block(0), atMs: 3 })
      assert.deepEqual(await due(), [id('a')], 'a reorg removed the delegation')
    })
  })

  it('a new delegation replaces the delegate’s previous one, which applies again if a reorg removes the new', async () => {
    await withStore(databases, async (database) => {
      await claim(database)
      const markets = [id<MarketId>('m1'), id<MarketId>('m2')]
      await index(database, 1, [delegateSet(1, NOW_SEC + 100)])
      await index(database, 2, [delegateSet(2, NOW_SEC + 200, markets)])
      const {
        type: _,
        blockNumber: __,
        logIndex: ___,
        txHash: ____,
        atSec: _____,
        ...newest
      } = delegateSet(2, NOW_SEC + 200, markets) as ChainEvent & { type: 'DelegateSet' }
      assert.deepEqual(await delegationsOf(database, reads), [newest])
      assert.deepEqual(await delegationsOf(database, { ...reads, nowSec: NOW_SEC + 10_000 }), [])
      assert.deepEqual(await delegators(database, { chainId: CHAIN, limit: 9 }), [address('ann')])
      await rewindChain(database, { chainId: CHAIN, from: block(2), to: block(1), atMs: 2 })
      const [first] = await delegationsOf(database, reads)
      assert.equal(first?.untilSec, NOW_SEC + 100)
    })
  })
})
