/**
 * Tests attacks on settlement by forged permits in the database of a killed exchange. A version without
 * permit checks could have stored such permits.
 */

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import Database from 'better-sqlite3'
import { devnetAccount } from '#devnet/accounts.ts'
import { eventually } from '../support/eventually.ts'
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts'
import { openSettled, type SettledExchange } from '../support/settled.ts'

/** Demo traders, who have dollars, shares and approvals. */
const [MAKER, HONEST_MAKER, HONEST] = [10, 12, 13]
/** An account with dollars and no allowance. */
const ATTACKER = 5
const FORGED = { deadline: '9999999999', v: 27, r: `0x${'1'.repeat(64)}`, s: `0x${'2'.repeat(64)}` }

describe('forged permits in the exchange’s database do not prevent the settlement of other trades', () => {
  let s: SettledExchange
  let node: RpcProxy
  before(async () => {
    s = await openSettled({
      environment: {
        SIBYL_SETTLEMENT_BATCH_WAIT_MS: '20',
        SIBYL_SETTLEMENT_MAX_LAG_SECONDS: '600',
      },
      async rpcUrl(chain) {
        node = await startRpcProxy(chain.url)
        return node.url
      },
    })
    const { chain, owner, collateral } = s.chain
    const { address } = devnetAccount(ATTACKER)
    await chain.send(owner, collateral, 'mint', [address, 1_000_000_000n])
  })
  after(async () => {
    await s.dispose()
    await node.close()
  })

  const approve = (value: bigint) =>
    s.chain.chain.send(devnetAccount(ATTACKER), s.chain.collateral, 'approve', [
      s.chain.contracts.settlement,
      value,
    ])
  beforeEach(() => approve(0n))

  const trade = async (seller: number, buyer: number, price: string): Promise<string> => {
    const terms = { marketId: s.marketId, outcome: 'YES', price, size: '2', ttlSeconds: 3_600 }
    await s.clientOf(seller).orders.place({ ...terms, side: 'sell' } as never)
    const placed = await s.clientOf(buyer).orders.place({ ...terms, side: 'buy' } as never)
    return placed.orderHash
  }

  const inDatabase = <T>(work: (database: Database.Database) => T): T => {
    const database = new Database(join(s.exchange.dataDir, 'sibyl.db'))
    try {
      return work(database)
    } finally {
      database.close()
    }
  }
  const bytesOf = (hash: string) => Buffer.from(hash.slice(2), 'hex')

  /** Waits until the trades of these buy orders have the expected statuses and reasons in the database. */
  const ends = (orderHashes: readonly string[], expected: readonly string[]) =>
    eventually(() => {
      const found = inDatabase((database) => {
        const read = database.prepare('select status, reason from trades where buy_order_hash = ?')
        return orderHashes.map((hash) => {
          const row = read.get(bytesOf(hash)) as { status: string; reason: string } | undefined
          return `${row?.status} ${row?.reason ?? ''}`.trim()
        })
      })
      assert.deepEqual(found, expected)
    })

  /**
   * Makes trades that wait for the chain, and kills the exchange. Writes forged permits into the exchange's database,
   * and restarts the exchange. Returns the hashes of the orders.
   */
  async function plant(
    make: () => Promise<string[]>,
    permitOf: (at: number) => object,
  ): Promise<string[]> {
    node.faults = { down: true }
    const orderHashes = await make()
    await ends(orderHashes, Array(orderHashes.length).fill('matched'))
    await s.exchange.kill()
    inDatabase((database) => {
      const write = database.prepare('update orders set permit = ? where order_hash = ?')
      for (const [at, hash] of orderHashes.entries()) {
        const { changes } = write.run(JSON.stringify(permitOf(at)), bytesOf(hash))
        assert.equal(changes, 1)
      }
    })
    node.faults = {}
    await s.exchange.start()
    return orderHashes
  }

  it('after a restart, trades still settle although another trade has a permit that cannot be encoded', async () => {
    const poisoned = await plant(
      async () => [await trade(MAKER, ATTACKER, '0.5')],
      () => ({ ...FORGED, nonce: '0', value: String(2n ** 256n) }),
    )
    const honest = await trade(HONEST_MAKER, HONEST, '0.6')
    await ends([honest, ...poisoned], ['confirmed', 'failed InsufficientAllowance'])
    await s.exchange.kill()
    await s.exchange.start()
    const later = await trade(HONEST_MAKER, HONEST, '0.6')
    await ends([later, ...poisoned], ['confirmed', 'failed InsufficientAllowance'])
  })

  it('after a restart, trades that failed for forged permits stay failed despite a new allowance', async () => {
    const forged = await plant(
      async () => {
        const made: string[] = []
        for (let each = 0; each < 34; each++) made.push(await trade(MAKER, ATTACKER, '0.5'))
        return made
      },
      (at) => ({ ...FORGED, nonce: String(at), value: '1000000' }),
    )
    const failed = Array(forged.length).fill('failed InsufficientAllowance')
    await ends(forged, failed)
    await s.exchange.kill()
    await approve(1_000_000_000n)
    await s.exchange.start()
    const honest = await trade(HONEST_MAKER, HONEST, '0.6')
    await ends([honest, ...forged], ['confirmed', ...failed])
    const confirmed = inDatabase((database) =>
      database.prepare("select count(*) from trades where status = 'confirmed'").pluck().get(),
    )
    assert.equal((await s.settledTimes()).size, confirmed, 'the chain has settled nothing else')
  })
})
