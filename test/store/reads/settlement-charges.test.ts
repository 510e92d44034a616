import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Address, OrderHash } from '#domain/ids.ts'
import { BUY, SELL } from '#domain/order.ts'
import { writeReference } from '#domain/settlement-reference.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { project } from '#store/projection/project.ts'
import { type ChargesFilter, settlementCharges } from '#store/reads/settlement-charges.ts'
import { saveTransaction } from '#store/writes/transactions.ts'
import { onBothDatabases } from '../../support/databases.ts'
import {
  address,
  batch,
  CHAIN,
  id,
  order,
  orderRow,
  START_MS,
  trade,
  withStore,
} from '../batches.ts'

const sender = `0x${'ab'.repeat(20)}` as Address
const hash = (nonce: number) => `0x${String(nonce).repeat(64)}`
const [ann, bob, eve] = [address('ann'), address('bob'), address('eve')]

function transaction(nonce: number, changes: Partial<TransactionRow>): TransactionRow {
  return {
    ...{ chainId: CHAIN, sender, nonce, revision: 1, purpose: 'settlement', reference: '[]' },
    ...{ raw: '0x02', hashes: [hash(nonce)], blanks: [], maxFeePerGas: '2' },
    ...{ maxPriorityFeePerGas: '1', state: 'succeeded', txHash: hash(nonce), blockNumber: nonce },
    ...{ blockHash: hash(9), gasUsed: 0, error: '', signedAtMs: START_MS, updatedAtMs: START_MS },
    finishedAtMs: START_MS + nonce,
    ...changes,
  }
}

const filter: ChargesFilter = {
  ...{ chainId: CHAIN, sender, above: -1, below: Number.MAX_SAFE_INTEGER, except: [], limit: 10 },
}

await onBothDatabases('the gas of a settlement transaction is charged to traders', (databases) => {
  it('the taker is charged the gas of a match’s last fill; the makers are charged for earlier fills', async () => {
    await withStore(databases, async (database) => {
      const buying = order('buy')
      const selling = order('sell', { trader: bob, side: SELL })
      // Ann buys from three orders of Bob in one match, Eve sells to Ann, and a buy of Eve fails.
      const trades = [
        trade(2, 0),
        trade(2, 1),
        trade(2, 2),
        trade(3, 0, { seller: eve, takerSide: SELL }),
        trade(4, 0, { buyer: eve, takerSide: BUY }),
        trade(5, 0),
      ]
      await project(
        database,
        batch(1, 2, {
          orders: [orderRow(buying), orderRow(selling)],
          trades: trades.map((each) => ({
            ...each,
            buyOrderHash: id<OrderHash>('buy'),
            sellOrderHash: id<OrderHash>('sell'),
          })),
        }),
      )
      const [a, b, c, d, e, f] = trades.map(({ tradeId }) => tradeId)
      const ended = { atMs: START_MS + 9, reason: '', fault: 'none' as const }
      await project(
        database,
        batch(2, 3, {
          tradeChanges: [
            ...[a, b, c, d].map((tradeId) => ({
              ...{ tradeId: tradeId!, status: 'confirmed' as const, txHash: hash(1), ...ended },
            })),
            {
              ...{ tradeId: e!, status: 'failed' as const, txHash: hash(1), ...ended },
              ...{ reason: 'SharesRefused', fault: 'buyer' as const },
            },
          ],
        }),
      )
      const save = (row: TransactionRow) => saveTransaction(database, { row })
      await save(transaction(1, { gasUsed: 500_000, reference: JSON.stringify([a, b, c, d, e]) }))
      await save(transaction(2, { gasUsed: 90_000, reference: JSON.stringify([f]) }))
      await save(transaction(3, { state: 'open', txHash: '', gasUsed: null, finishedAtMs: null }))
      await save(transaction(4, { purpose: 'relay', gasUsed: 70_000, reference: '"x"' }))
      const [open, undecided, first, ...none] = await settlementCharges(database, filter)
      assert.deepEqual(none, [])
      assert.deepEqual([open?.nonce, open?.isOpen, open?.charges], [3, true, []])
      assert.deepEqual([undecided?.nonce, undecided?.isUndecided], [2, true])
      assert.deepEqual([first?.nonce, first?.isUndecided], [1, false])
      const charged = new Map(first?.charges.map(({ trader, ...sums }) => [trader, sums]))
      assert.deepEqual(charged.get(bob), { fills: 2, gas: 200_000, failedGas: 0 })
      assert.deepEqual(charged.get(ann), { fills: 1, gas: 100_000, failedGas: 0 })
      assert.deepEqual(charged.get(eve), { fills: 1, gas: 100_000, failedGas: 100_000 })
      const page = await settlementCharges(database, { ...filter, above: 0, below: 3, except: [2] })
      assert.deepEqual(
        page.map(({ nonce }) => nonce),
        [1],
      )
    })
  })

  it('the gas of a failed trade is charged to the side at fault, not to the other side of a mint', async () => {
    await withStore(databases, async (database) => {
      const trades = ['InsufficientCollateral', 'SharesRefused', 'InvalidSignature'].map(
        (reason, at) => ({ ...trade(2 + at, 0, { buyer: ann, seller: eve }), reason }),
      )
      const orders = { buyOrderHash: id<OrderHash>('buy'), sellOrderHash: id<OrderHash>('sell') }
      await project(
        database,
        batch(1, 2, {
          orders: [orderRow(order('buy')), orderRow(order('sell', { trader: eve }))],
          trades: trades.map(({ reason: _, ...each }) => ({ ...each, ...orders, kind: 'mint' })),
        }),
      )
      const ended = { status: 'failed', txHash: hash(1), fault: 'seller', atMs: START_MS } as const
      const tradeChanges = trades.map(({ tradeId, reason }) => ({ tradeId, reason, ...ended }))
      await project(database, batch(2, 3, { tradeChanges }))
      const tradeIds = trades.map(({ tradeId }) => tradeId)
      const reference = writeReference({ tradeIds, extraGas: { [ann]: 100_000, [eve]: 65_000 } })
      const row = transaction(1, { gasUsed: 660_000, reference })
      await saveTransaction(database, { row })
      const [first] = await settlementCharges(database, filter)
      assert.deepEqual(first?.charges, [
        { trader: eve, fills: 0, gas: 0, failedGas: 560_000 },
        { trader: ann, fills: 0, gas: 100_000, failedGas: 0 },
      ])
    })
  })
})
