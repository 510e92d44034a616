import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collapse } from '#store/projection/collapse.ts'
import type { OrderChange, OrderRow, TradeChange } from '#store/projection/rows.ts'
import { randomFrom } from '../../support/random.ts'
import { batch, id, order, orderRow, START_MS, trade } from '../batches.ts'

const submitted = (fields: Partial<TradeChange> & Pick<TradeChange, 'tradeId'>): TradeChange => ({
  status: 'submitted',
  txHash: '0x1',
  reason: '',
  atMs: START_MS,
  ...fields,
})

test('if an order is placed and changed in one batch, the projection writes a single row', () => {
  const taker = order('taker')
  const { orders, orderChanges } = collapse(
    batch(0, 1, {
      orders: [orderRow(taker, { matches: 2, seq: 5 })],
      orderChanges: [
        { orderHash: taker.orderHash, status: 'open', remaining: 3, seq: 6, atMs: START_MS + 1 },
        { orderHash: taker.orderHash, status: 'filled', remaining: 0, seq: 9, atMs: START_MS + 2 },
      ],
    }),
  )
  assert.deepEqual(orderChanges, [])
  assert.deepEqual(orders, [
    orderRow(taker, { matches: 2, status: 'filled', remaining: 0, seq: 9, atMs: START_MS + 2 }),
  ])
})

test('if a batch has several changes of an older order, only the last change is written', () => {
  const maker = order('maker').orderHash
  const change = (remaining: number): OrderChange => ({
    orderHash: maker,
    status: remaining === 0 ? 'filled' : 'open',
    remaining,
    seq: 10 - remaining,
    atMs: START_MS,
  })
  const { orders, orderChanges } = collapse(
    batch(0, 1, { orderChanges: [change(3), change(2), change(0)] }),
  )
  assert.deepEqual(orders, [])
  assert.deepEqual(orderChanges, [change(0)])
})

test('a trade’s row counts all its submissions in a batch, and stores the last transaction hash', () => {
  const fresh = trade(3, 0)
  const old = trade(2, 1).tradeId
  const { trades, tradeChanges } = collapse(
    batch(0, 1, {
      trades: [fresh, trade(3, 1)],
      tradeChanges: [
        submitted({ tradeId: old, txHash: '0xa' }),
        submitted({ tradeId: fresh.tradeId, txHash: '0xb' }),
        submitted({ tradeId: old, status: 'reverted', txHash: '0xa', reason: 'a reorg' }),
        submitted({ tradeId: old, txHash: '0xc' }),
        submitted({ tradeId: old, status: 'failed', txHash: '', reason: 'funds', atMs: 99 }),
      ],
    }),
  )
  assert.deepEqual(
    trades.map(({ state }) => state),
    [
      { status: 'submitted', txHash: '0xb', reason: '', attempts: 1, atMs: START_MS },
      { status: 'matched', txHash: '', reason: '', attempts: 0, atMs: START_MS + 3 },
    ],
  )
  assert.deepEqual(tradeChanges, [
    { tradeId: old, status: 'failed', txHash: '0xc', reason: 'funds', attempts: 2, atMs: 99 },
  ])
})

test('combining the changes of a batch gives every order the same row as writing each change separately', () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const random = randomFrom(seed)
    const rows = Array.from({ length: 20 }, (_, index) => orderRow(order(`o${index}`)))
    const fresh = rows.filter(() => random.chance(0.5))
    const orderChanges = Array.from({ length: 100 }, (_, index): OrderChange => {
      const remaining = random.int(0, 9)
      return {
        orderHash: id(`o${random.int(0, 19)}`),
        status: remaining === 0 ? 'filled' : 'open',
        remaining,
        seq: 10 + index,
        atMs: START_MS + index,
      }
    })
    const apply = (start: OrderRow[], changes: readonly OrderChange[]) => {
      const state = new Map(start.map((row) => [row.order.orderHash, row]))
      for (const { orderHash, ...change } of changes) {
        const row = state.get(orderHash)
        assert(row !== undefined)
        state.set(orderHash, { ...row, ...change })
      }
      return [...state.values()]
    }
    const collapsed = collapse(batch(0, 1, { orders: fresh, orderChanges }))
    const before = rows.map(
      (row) => collapsed.orders.find((other) => other.order === row.order) ?? row,
    )
    assert.deepEqual(
      apply(before, collapsed.orderChanges),
      apply(rows, orderChanges),
      `seed ${seed}`,
    )
    const touched = [
      ...collapsed.orders.map((row) => row.order.orderHash),
      ...collapsed.orderChanges.map((change) => change.orderHash),
    ]
    assert.equal(new Set(touched).size, touched.length, `seed ${seed}`)
  }
})
