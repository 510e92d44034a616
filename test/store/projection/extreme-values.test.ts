/** The database accepts every value that an event of the log may have: a refused row would stop its partition. */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import type { MarketId, Uint64 } from '#domain/ids.ts'
import { MARKET_TEXT_CHARS_MAX } from '#domain/limits.ts'
import type { Price, Shares } from '#domain/money.ts'
import { SIZE_MAX } from '#domain/money.ts'
import { project } from '#store/projection/project.ts'
import type { TradeChange } from '#store/projection/rows.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { batch, id, market, order, orderRow, START_MS, trade, withStore } from '../batches.ts'

const UINT64_MAX = String(2n ** 64n - 1n) as Uint64
const UINT256_MAX = String(2n ** 256n - 1n)

/** Reasons come from a chain's nodes, so they may be any text, even invalid Unicode. */
const REASONS = [
  ...['\0', 'a\0b', '\ud800', '\udc00x', '\u{10ffff}', '\uffff', '\\', '"', "'", '%s ? :name'],
  ...['🦉'.repeat(1_000), '\ud83e'.repeat(999), `x${'🦉'.repeat(600)}`, '\u2028\u0007\n\r\t'],
]

await onBothDatabases('the projection stores extreme values', (databases) => {
  it('a projection stores orders and trades with the largest amounts, nonces, times and permits', async () => {
    await withStore(databases, async (database) => {
      const [r, s] = [`0x${'ff'.repeat(32)}`, `0x${'ff'.repeat(32)}`]
      const largest = order('largest', {
        ...{ price: 999_999 as Price, size: SIZE_MAX as Shares },
        ...{ nonce: UINT64_MAX, expiration: UINT64_MAX },
        permit: { nonce: UINT256_MAX, value: UINT256_MAX, deadline: UINT256_MAX, v: 28, r, s },
      } as never)
      const atMs = Number.MAX_SAFE_INTEGER
      const filled = trade(3, 0, { price: 999_999 as Price, size: SIZE_MAX as Shares })
      const written = await project(
        database,
        batch(1, 2, { orders: [orderRow(largest, { atMs: START_MS })], trades: [filled] }),
      )
      assert.equal(written.written, 'applied')
      const change: TradeChange = {
        ...{ tradeId: filled.tradeId, status: 'failed', txHash: `0x${'ff'.repeat(32)}` },
        ...{ reason: '', atMs },
      }
      const changed = await project(database, batch(2, 3, { tradeChanges: [change] }))
      assert.equal(changed.written, 'applied')
    })
  })

  it('the projection stores any failure reason from an Ethereum node, for new and for earlier trades', async () => {
    await withStore(databases, async (database) => {
      const drawn = fc.sample(fc.string({ unit: 'binary', maxLength: 1_200 }), 20)
      let offset = 1
      for (const [at, reason] of [...REASONS, ...drawn].entries()) {
        const [old, fresh] = [trade(10 + 2 * at, 0), trade(11 + 2 * at, 0)]
        const failing = (tradeId: TradeChange['tradeId']): TradeChange => ({
          ...{ tradeId, status: 'failed', txHash: '', reason, atMs: START_MS },
        })
        await project(database, batch(offset, offset + 1, { trades: [old] }))
        const both = {
          trades: [fresh],
          tradeChanges: [failing(old.tradeId), failing(fresh.tradeId)],
        }
        const { written } = await project(database, batch(offset + 1, offset + 2, both))
        assert.equal(written, 'applied', JSON.stringify(reason).slice(0, 80))
        offset += 2
      }
    })
  })

  it('a projection stores a market with the longest texts, in characters of four bytes', async () => {
    await withStore(databases, async (database) => {
      const words = '🦉'.repeat(MARKET_TEXT_CHARS_MAX / 2)
      const long = market('long', {
        ...{ id: id<MarketId>('long'), question: words, description: words },
        ...{ expiration: Number.MAX_SAFE_INTEGER, createdAt: Number.MAX_SAFE_INTEGER },
      })
      const markets = [{ market: long, seq: 1, atMs: START_MS }]
      assert.equal((await project(database, batch(1, 2, { markets }))).written, 'applied')
    })
  })
})
