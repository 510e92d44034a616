/** A user's pages, as the query pool writes them, against all rows of the tables. */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { checksumAddress } from '#domain/checksum-address.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { makePageWriter } from '#services/front/query-pages.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { hexOf } from '#store/engine/hex.ts'
import { makeReads } from '#store/reads/reads.ts'
import { withStore } from '../../store/batches.ts'
import { seedTrades } from '../../store/reads/large-seed.ts'
import { onBothDatabases } from '../../support/databases.ts'

const CHAIN = 31_337
const userNumbered = (number: number) => `0x${number.toString(16).padStart(40, '0')}` as Address

type Trade = Record<string, string | number | Buffer | null>

/** Every trade of the user in the plainest way: all rows, sorted here. */
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
    }))
}

await onBothDatabases('pages of a user', (databases) => {
  it('have the rows of the tables, page by page', async () => {
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
          // A busy thread may come to some of them only.
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

it('a fault of one page is its answer, and the others are written', async () => {
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
