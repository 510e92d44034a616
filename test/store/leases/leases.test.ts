import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { closeDatabase, type Database, transact } from '#store/engine/database.ts'
import { LEASE_LOST, type Lease, passFence } from '#store/engine/fence.ts'
import { giveLeases, renewLeases, takeLease } from '#store/leases/leases.ts'
import { openDatabase } from '#store/open-database.ts'
import { journalOf, saveTransaction } from '#store/writes/transactions.ts'
import { runWrites } from '#store/writes/writes.ts'
import { onServerDatabase } from '../../support/databases.ts'
import { eventually } from '../../support/eventually.ts'
import { randomFrom } from '../../support/random.ts'

const CHAIN = 31_337
const sender = `0x${'ab'.repeat(20)}` as Address
const role = 'settlement/31337'
/** Longer than any test takes. */
const LONG_MS = 600_000

await onServerDatabase('leases', (databases) => {
  it('only one node holds a lease at a time, and each new holder gets a higher epoch', async () => {
    await withDatabases(1, async ([database]) => {
      const take = (holder: string, forMs = LONG_MS) => takeLease(database, { role, holder, forMs })
      assert.deepEqual(await take('a'), { epoch: 1 })
      assert.deepEqual(await take('b'), { heldBy: 'a' })
      assert.deepEqual(await take('a'), { epoch: 2 }, 'who restarts need not wait')
      await giveLeases(database, [{ role, epoch: 1 }])
      assert.deepEqual(await take('b'), { heldBy: 'a' }, 'an earlier epoch gives up nothing')
      await giveLeases(database, [{ role, epoch: 2 }])
      assert.deepEqual(await take('b', 1), { epoch: 4 }, 'what was given up is free at once')
      const epoch = await eventually(async () => {
        const taken = await take('c')
        assert('epoch' in taken)
        return taken.epoch
      })
      assert.equal(epoch, 5, 'what has run out is free')
    })
  })

  it('a lease can be renewed after it has expired, but not after it has been taken again', async () => {
    await withDatabases(1, async ([database]) => {
      await takeLease(database, { role: 'projector/0', holder: 'a', forMs: 1 })
      await takeLease(database, { role: 'projector/1', holder: 'a', forMs: LONG_MS })
      const own = [
        { role: 'projector/0', epoch: 1 },
        { role: 'projector/1', epoch: 1 },
      ]
      assert.deepEqual(await renewLeases(database, own, LONG_MS), own)
      const other = await takeLease(database, { role: 'projector/0', holder: 'b', forMs: LONG_MS })
      assert.deepEqual(other, { heldBy: 'a' })
      await takeLease(database, { role: 'projector/1', holder: 'a', forMs: LONG_MS })
      assert.deepEqual(await renewLeases(database, own, LONG_MS), own.slice(0, 1))
    })
  })

  it('a write under a lost lease changes nothing, even in a commit shared with other writes', async () => {
    await withDatabases(1, async ([database]) => {
      await takeLease(database, { role, holder: 'a', forMs: LONG_MS })
      await takeLease(database, { role, holder: 'a', forMs: LONG_MS })
      const write = (nonce: number, epoch: number) => ({
        write: 'saveTransaction',
        args: { row: transaction(nonce, epoch) },
        lease: { role, epoch },
      })
      const [stale] = await runWrites(database, [write(0, 1)])
      assert(stale !== undefined && !stale.ok && stale.code === LEASE_LOST && stale.retryable)
      const replies = await runWrites(database, [write(1, 2), write(2, 1), write(3, 2)])
      assert.deepEqual(
        replies.map(({ ok }) => ok),
        [true, false, true],
      )
      assert.deepEqual(await nonces(database), [1, 3])
    })
  })

  it('a blocked write does not stop its node from renewing the lease, and fails once the lease is lost', async () => {
    await withDatabases(2, async ([database, other]) => {
      await takeLease(database, { role, holder: 'a', forMs: LONG_MS })
      const lease = { role, epoch: 1 }
      const before = saveTransaction({ ...database, fence: lease }, { row: transaction(0, 1) })
      await before
      // Another transaction locks the row with nonce 0. The write below waits for this row before it checks its lease
      // (the fence).
      const locked = Promise.withResolvers<void>()
      const unlock = Promise.withResolvers<void>()
      const lock = other.orm.em.getConnection().transactional(async (ctx) => {
        const sql = 'select * from transactions where nonce = 0 for update'
        await other.orm.em.getConnection().execute(sql, [], 'all', ctx)
        locked.resolve()
        await unlock.promise
      })
      await locked.promise
      const waiting = saveTransaction({ ...database, fence: lease }, { row: transaction(0, 9) })
      assert.deepEqual(await renewLeases(database, [lease], LONG_MS), [lease])
      await giveLeases(database, [lease])
      unlock.resolve()
      await lock
      await assert.rejects(waiting, { code: LEASE_LOST })
    })
  })

  it('if a former lease holder’s write conflicts with the new holder’s row, the error reports the lost lease', async () => {
    await withDatabases(2, async ([database, other]) => {
      await takeLease(database, { role, holder: 'a', forMs: LONG_MS })
      const lease = { role, epoch: 1 }
      const insert =
        'insert into token_nonces (key_id, nonce, claim, until_sec) values (?, ?, ?, ?)'
      const rest = [Buffer.alloc(16), Buffer.alloc(8), 1]
      const write = (under: Database, name: string) =>
        transact(under, (transaction, connection) =>
          connection.execute(insert, [name, ...rest], 'run', transaction),
        )
      await write({ ...database, fence: lease }, 'mine')
      await assert.rejects(write({ ...database, fence: lease }, 'mine'), {
        code: 'STORE_CONSTRAINT',
      })
      await giveLeases(other, [lease])
      await write(other, 'theirs')
      await assert.rejects(write({ ...database, fence: lease }, 'theirs'), { code: LEASE_LOST })
    })
  })

  it('a lease holder that stalls during a commit does not prevent another node from taking over', async (t) => {
    await withDatabases(2, async ([database, other]) => {
      const version = 'select version() as version'
      const [server] = await database.orm.em.getConnection().execute<{ version: string }[]>(version)
      if (!server?.version.includes('MariaDB')) return t.skip('only MariaDB ends what stands still')
      await takeLease(database, { role, holder: 'a', forMs: 1 })
      const passed = Promise.withResolvers<void>()
      const resumed = Promise.withResolvers<void>()
      const paused = transact(database, async (transaction, connection) => {
        await passFence({ role, epoch: 1 }, connection, transaction)
        passed.resolve()
        await resumed.promise
      })
      const failed = assert.rejects(paused, { code: 'STORE_UNAVAILABLE' })
      await passed.promise
      const taken = await eventually(() => takeLease(other, { role, holder: 'b', forMs: LONG_MS }))
      assert.deepEqual(taken, { epoch: 2 })
      resumed.resolve()
      await failed
    })
  })

  for (const seed of [1, 2, 3]) {
    it(`nodes that compete for a lease never have the same epoch, and none writes after losing it (seed ${seed})`, async () => {
      await withDatabases(3, async (nodes) => {
        const random = randomFrom(seed)
        const taken: number[] = []
        const seenBy = new Map<number, ReadonlySet<number>>()
        let nonce = 0
        let refused = 0
        let written = 0
        /**
         * Returns whether a node takes another step. Each node takes at least 60 steps. On a slow machine most leases
         * expire before a write, so the nodes need more steps until enough writes succeed.
         */
        const goesOn = (step: number): boolean =>
          step < 60 || ((written <= 10 || refused === 0) && step < 5_000)
        async function play(database: Database, holder: string): Promise<void> {
          let lease: Lease | undefined
          for (let step = 0; goesOn(step); step++) {
            try {
              if (lease === undefined || random.chance(0.2)) {
                const forMs = random.int(1, 20)
                const answer = await takeLease(database, { role, holder, forMs })
                if (!('epoch' in answer)) continue
                lease = { role, epoch: answer.epoch }
                taken.push(answer.epoch)
                // Records the rows that exist when this epoch begins, as a service does when it recovers. After this,
                // no write of an earlier epoch may add a row.
                seenBy.set(answer.epoch, new Set(await nonces(database)))
              } else if (random.chance(0.25)) {
                // Renews the lease and ignores the result. If the lease is lost, the node keeps writing, and its writes
                // must be refused.
                await renewLeases(database, [lease], 1)
              } else {
                const mine = nonce++
                const { epoch } = lease
                await saveTransaction(
                  { ...database, fence: lease },
                  { row: transaction(mine, epoch) },
                )
                written++
              }
            } catch (error) {
              if (!(error instanceof Fault && error.retryable)) throw error
              if (error.code !== LEASE_LOST) continue
              refused++
              if (random.chance(0.5)) lease = undefined
            }
          }
        }
        await Promise.all(nodes.map((database, node) => play(database, `node ${node}`)))
        assert.equal(new Set(taken).size, taken.length)
        // Each row stores the epoch of its write as its revision.
        const landed = await journal(nodes[0])
        assert(
          landed.length > 10 && refused > 0,
          `${landed.length} landed, ${refused} were refused`,
        )
        for (const [epoch, seen] of seenBy) {
          for (const write of landed.filter((each) => each.revision < epoch)) {
            assert(
              seen.has(write.nonce),
              `${write.nonce} of epoch ${write.revision} came after ${epoch}`,
            )
          }
        }
      })
    })
  }

  async function withDatabases<Count extends 1 | 2 | 3>(
    count: Count,
    work: (nodes: [Database, Database, Database]) => Promise<void>,
  ): Promise<void> {
    const url = await databases.migrated()
    const nodes = await Promise.all(Array.from({ length: count }, () => openDatabase(url)))
    try {
      await work(nodes as [Database, Database, Database])
    } finally {
      await Promise.all(nodes.map(closeDatabase))
    }
    databases.giveBack(url)
  }
})

async function journal(database: Database): Promise<readonly TransactionRow[]> {
  return (await journalOf(database, { chainId: CHAIN, sender, watchBlocks: 10 })).rows
}

async function nonces(database: Database): Promise<number[]> {
  return (await journal(database)).map(({ nonce }) => nonce)
}

function transaction(nonce: number, revision: number): TransactionRow {
  return {
    chainId: CHAIN,
    sender,
    nonce,
    revision,
    purpose: 'settlement',
    reference: '',
    raw: '0x02',
    hashes: [`0x${nonce.toString(16).padStart(64, '0')}`],
    blanks: [],
    maxFeePerGas: '1',
    maxPriorityFeePerGas: '1',
    state: 'open',
    txHash: '',
    blockNumber: null,
    blockHash: '',
    gasUsed: null,
    error: '',
    signedAtMs: 1,
    updatedAtMs: 2,
    finishedAtMs: null,
  }
}
