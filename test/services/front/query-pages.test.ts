/** Compares the pages that the query pool writes with all rows of the tables. */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { checksumAddress } from '#domain/checksum-address.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { makePageWriter, type PageTask } from '#services/front/query-pages.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { hexOf } from '#store/engine/hex.ts'
import { makeReads } from '#store/reads/reads.ts'
import { saveTransaction } from '#store/writes/transactions.ts'
import { withStore } from '../../store/batches.ts'
import { seedTrades } from '../../store/reads/large-seed.ts'
import { onBothDatabases } from '../../support/databases.ts'

const CHAIN = 31_337
const userNumbered = (number: number) => `0x${number.toString(16).padStart(40, '0')}` as Address

type Trade = Record<string, string | number | Buffer | null>

/** Returns every trade of the user, sorted here instead of by the database. */
async function activityOf(database: Database, user: Address) {
  const all = await sqlConnection(database).execute<Trade[]>(
    `select t.*, m.question, m.contract_address from trades as t
      join markets as m on m.market_id = t.market_id where t.chain_id = ${CHAIN}`,
  )
  return all
    .filter(({ buyer, seller }) => [buyer, seller].some((one) => hexOf(one as Buffer) === user))
    .sort((a, b) => Number(b.matched_at_ms) - Number(a.matched_at_ms))
    .map((row) => ({
      tradeId: `${hexOf(row.market_id as Buffer)}-${row.seq}-${row.fill_index}`,
      marketId: hexOf(row.market_id as Buffer),
      marketQuestion: row.question,
      contractAddress: checksumAddress(hexOf(row.contract_address as Buffer) as Address),
      role: hexOf(row.buyer as Buffer) === user ? 'buyer' : 'seller',
      outcome: row.outcome,
      price: row.price_e6,
      size: Number(row.size_e6),
      cost: Number(row.cost_e6),
      status: row.status,
      timestamp: Math.floor(Number(row.matched_at_ms) / 1_000),
      txHash: row.tx_hash === null ? '' : hexOf(row.tx_hash as Buffer),
      orderHash: hexOf(
        (hexOf(row.buyer as Buffer) === user ? row.buy_order_hash : row.sell_order_hash) as Buffer,
      ),
      takerSide: row.taker_side,
    }))
}

await onBothDatabases('the pages of a user can be read', (databases) => {
  it('the activity and position pages of a user contain all database rows, page by page', async () => {
    await withStore(databases, async (database, url) => {
      // With seven users, some trade with themselves.
      await seedTrades(database, { trades: 400, markets: 10, users: 7 })
      const reads = makeReads(url)
      const writePages = makePageWriter(reads.query, reads.together)
      try {
        for (let number = 1; number <= 7; number++) {
          const user = userNumbered(number)
          const seen: unknown[] = []
          const page = { user, chainId: CHAIN, limit: 30 }
          const first = { page: 'userActivity', args: page } as const
          const positions = { page: 'userPositions', args: page } as const
          const tasks = [first, positions, first]
          const replies = []
          // A busy thread may return fewer pages than requested, so the test requests the rest again.
          while (replies.length < tasks.length) {
            replies.push(...(await writePages(tasks.slice(replies.length))))
          }
          const [activity, held, again] = replies.map((reply) => {
            assert(reply.ok)
            return JSON.parse(reply.answer as string)
          })
          assert.deepEqual(again, activity)
          assert.equal(activity.settlements.length, 1)
          assert.equal(held.count, 2)
          seen.push(...activity.activity)
          for (let next = activity.nextBefore; next !== null; ) {
            const [atMs, seq, fillIndex, row] = next.split('.').map(Number)
            const args = { ...page, before: { atMs, seq, fillIndex, row } }
            const [reply] = await writePages([{ page: 'userActivity', args }])
            assert(reply?.ok)
            const later = JSON.parse(reply.answer as string)
            assert.deepEqual(later.settlements, [])
            seen.push(...later.activity)
            next = later.nextBefore
          }
          assert.deepEqual(seen, await activityOf(database, user))
        }
      } finally {
        await reads.close()
      }
    })
  })
})

const MARKET = `0x${'3'.padStart(64, '0')}` as MarketId

await onBothDatabases('query threads answer reads of the database', (databases) => {
  it('a page of a market’s trades contains exactly the trades older than the requested position', async () => {
    await withStore(databases, async (database, url) => {
      await seedTrades(database, { trades: 400, markets: 10, users: 7 })
      await sqlConnection(database).execute("update trades set kind = 'mint' where seq % 2 = 0")
      const rows = await sqlConnection(database).execute<Trade[]>('select * from trades')
      const all = rows
        .filter((row) => hexOf(row.market_id as Buffer) === MARKET)
        .sort((a, b) => Number(b.seq) - Number(a.seq))
        .map((row) => ({
          tradeId: `${MARKET}-${row.seq}-${row.fill_index}`,
          price: row.price_e6,
          size: Number(row.size_e6),
          buyer: checksumAddress(hexOf(row.buyer as Buffer) as Address),
          seller: checksumAddress(hexOf(row.seller as Buffer) as Address),
          outcome: row.outcome,
          ...(row.kind === null ? {} : { kind: row.kind }),
          timestamp: Math.floor(Number(row.matched_at_ms) / 1_000),
          txHash: row.tx_hash === null ? '' : hexOf(row.tx_hash as Buffer),
          status: row.status,
          seq: Number(row.seq),
        }))
      assert.equal(all.length, 40)
      assert.equal(all.filter(({ kind }) => kind === 'mint').length, 20)
      await withPages(url, async (write) => {
        const page = { list: 'trades', marketId: MARKET, limit: 15 } as const
        const before = (at: number) => ({ seq: all[at]!.seq, fillIndex: 0 })
        const ask = (at: number) =>
          write({ page: 'earlierTrades', args: { ...page, before: before(at) } })
        const answer = (from: number, nextBefore: string | null) => {
          const trades = all.slice(from, from + 15)
          return JSON.stringify({ marketId: MARKET, trades, count: trades.length, nextBefore })
        }
        assert.equal(await ask(4), answer(5, all[19]!.tradeId))
        assert.equal(await ask(19), answer(20, all[34]!.tradeId))
        assert.equal(await ask(34), answer(35, null))
        assert.equal(await ask(39), answer(40, null))
      })
    })
  })

  it('queries find a position by market id or market address, and a settlement by any transaction hash', async () => {
    await withStore(databases, async (database, url) => {
      await seedTrades(database, { trades: 40, markets: 10, users: 7 })
      await saveTransaction(database, { row: SETTLEMENT })
      await withPages(url, async (write) => {
        const user = userNumbered(4)
        const contractAddress = userNumbered(3)
        const held =
          '{"yesShares":1003,"noShares":1003,"totalInvested":1003,"yesCost":502,"noCost":501}'
        for (const market of [
          { marketId: MARKET },
          { contractAddress },
          { contractAddress, chainId: CHAIN },
        ]) {
          assert.equal(await write({ page: 'position', args: { market, user } }), held)
        }
        const none = { market: { contractAddress, chainId: 1 }, user }
        assert.equal(await write({ page: 'position', args: none }), '{"yesShares":0,"noShares":0}')
        const settlement = (txHash: string) => write({ page: 'settlement', args: { txHash } })
        assert.equal(await settlement('0xcc'), '{"found":false}')
        const found = {
          ...{ found: true, txHash: '0xbb', chainId: CHAIN, status: 'confirmed', blockNumber: 7 },
          ...{ confirmations: 1, submittedAt: 5, confirmedAt: 9, trades: ['a', 'b'], error: '' },
        }
        for (const hash of SETTLEMENT.hashes) {
          assert.equal(await settlement(hash), JSON.stringify(found))
        }
      })
    })
  })
})

const SETTLEMENT: TransactionRow = {
  ...{ chainId: CHAIN, sender: userNumbered(9), nonce: 1, revision: 2, purpose: 'settlement' },
  ...{
    reference: '{"trades":["a","b"],"extraGas":{}}',
    raw: '0x',
    hashes: ['0xaa', '0xbb'],
    blanks: [],
  },
  ...{ maxFeePerGas: '1', maxPriorityFeePerGas: '1', state: 'succeeded', txHash: '0xbb' },
  ...{ blockNumber: 7, blockHash: '0xb1', gasUsed: 1, error: 'late' },
  ...{ signedAtMs: 5_999, updatedAtMs: 9_000, finishedAtMs: 9_000 },
}

/** Runs `work`, and passes it a function that writes one page. */
async function withPages(
  url: string,
  work: (write: (task: PageTask) => Promise<unknown>) => Promise<void>,
): Promise<void> {
  const reads = makeReads(url)
  const writePages = makePageWriter(reads.query, reads.together)
  try {
    await work(async (task) => {
      const [reply] = await writePages([task])
      assert(reply?.ok)
      return reply.answer
    })
  } finally {
    await reads.close()
  }
}

it('if the query for one page fails, only that page is answered with an error', async () => {
  const fault = new Fault('STORE_UNAVAILABLE', 'the database is away', { retryable: true })
  const writePages = makePageWriter(
    async (name) => {
      if (name === 'tradesOfUser') throw fault
      return (name === 'realisedProfitOf' ? 0n : []) as never
    },
    (work) => work(),
  )
  const args = { user: userNumbered(1), chainId: CHAIN, limit: 5 }
  const replies = [
    ...(await writePages([{ page: 'userActivity', args }])),
    ...(await writePages([{ page: 'userPositions', args }])),
  ]
  assert.deepEqual(replies, [
    { ok: false, code: fault.code, message: fault.message, retryable: true },
    { ok: true, answer: '{"positions":[],"count":0,"realisedProfit":0,"nextCursor":null}' },
  ])
})
