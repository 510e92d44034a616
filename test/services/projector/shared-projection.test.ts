import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { LogReader } from '#log/event-log.ts'
import { rebuild } from '#operator/rebuild.ts'
import { systemClock } from '#runtime/clock.ts'
import { serve } from '#runtime/serve.ts'
import {
  newStore,
  type StoreEvent,
  type StoreProtocol,
  type StoreState,
  store,
} from '#services/projector/projector.ts'
import { auditTrades } from '#store/audit/audit-trades.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { renewLeases, takeLease } from '#store/leases/leases.ts'
import { openDatabase } from '#store/open-database.ts'
import { checkpoints, claimLog } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import { projectedTables } from '../../store/projected-tables.ts'
import { onServer, onServerDatabase } from '../../support/databases.ts'
import { eventually } from '../../support/eventually.ts'
import { randomFrom } from '../../support/random.ts'
import { seedsOf } from '../../support/sample.ts'
import { given } from '../market/market-fixture.ts'
import { randomFlow } from '../market/random-flow.ts'

const PARTITIONS = 3

/**
 * Starts a node's projector on the shared logs. The projector writes each partition whose lease the node believes it
 * holds.
 */
async function startNode(url: string, holder: string, log: LogReader<MarketEvent>) {
  const database = await openDatabase(url)
  const own = new Map<number, Database>()
  const told = new Map<number, number>()
  let closed = false
  const state = newStore(log, {
    claim: (from) => claimLog(database, from),
    write: (batch) => project(own.get(batch.partition) ?? database, batch),
    shared: { isOwn: (partition) => own.has(partition), read: () => checkpoints(database) },
  })
  const served = serve<StoreState, StoreProtocol, StoreEvent>({
    behaviour: store,
    select: () => ({ state }),
    clock: {
      nowMs: systemClock.nowMs,
      // Planned retries do not run once the database is closed.
      after: (ms, act) => systemClock.after(ms, () => closed || act()),
    },
    mailboxMax: 1_000,
    batchMax: 1_000,
    full: undefined,
    say(events) {
      for (const event of events) {
        if (event.type === 'Projected') told.set(event.partition, event.offset)
      }
    },
  })
  return {
    told,
    state,
    look: () => served.hear('Tick', {}, 0, undefined),
    /**
     * Takes the lease of a partition for only one millisecond. So another node can take the lease while this node still
     * writes.
     */
    async take(partition: number): Promise<void> {
      const role = `projector/${partition}`
      const taken = await retried(() => takeLease(database, { role, holder, forMs: 1 }))
      if ('epoch' in taken) own.set(partition, { ...database, fence: { role, epoch: taken.epoch } })
    },
    async notice(partition: number): Promise<void> {
      const { fence } = own.get(partition) ?? {}
      if (fence === undefined) return
      const kept = await retried(() => renewLeases(database, [fence], 1))
      if (kept.length === 0) own.delete(partition)
    },
    async close(): Promise<void> {
      closed = true
      await served.drained()
      await closeDatabase(database)
    },
  }
}

/** Repeats a call whose connection was killed. */
async function retried<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof Fault && error.retryable)) throw error
    }
  }
}

/** Kills the connections on which transactions of this database are open. */
async function killWriters(url: string): Promise<void> {
  const writing = await onServer<{ id: number }>(
    `select p.id from information_schema.innodb_trx t
      join information_schema.processlist p on p.id = t.trx_mysql_thread_id
      where p.db = '${new URL(url).pathname.slice(1)}'`,
  )
  // Some may have ended meanwhile.
  for (const { id } of writing) await onServer(`kill ${id}`).catch(() => {})
}

await onServerDatabase('several projectors can share a database', ({ migrated }) => {
  for (const seed of seedsOf(1, 2, 3)) {
    it(`projectors that share a database write every row once despite lost connections and lease changes (seed ${seed})`, async () => {
      const random = randomFrom(seed)
      // The same traders trade in every partition.
      const markets = Array.from({ length: PARTITIONS }, (_, n) =>
        given({ market: { id: `0x${`0${n}`.repeat(32)}` as MarketId } }),
      )
      const flows = markets.map((market, n) => randomFlow(market, random, `p${n}-`))
      const appended = markets.map(() => 1)
      const log: LogReader<MarketEvent> = {
        id: 'log',
        partitions: PARTITIONS,
        read(partition, from, limit) {
          const to = Math.min(appended[partition]!, from - 1 + limit)
          const found = markets[partition]!.events.slice(from - 1, to)
          return found.map((event, index) => ({ offset: from + index, event }))
        },
        firstOffset: () => 1,
        lastOffset: (partition) => appended[partition]!,
        close: async () => {},
      }
      const url = await migrated()
      const nodes = [await startNode(url, 'a', log), await startNode(url, 'b', log)]
      try {
        for (const node of nodes) node.look()
        for (let step = 0; step < 30; step++) {
          for (const [partition, flow] of flows.entries()) {
            for (let more = random.int(0, 20); more > 0; more--) flow.step()
            appended[partition] = markets[partition]!.events.length
            const node = random.pick(nodes)
            if (random.chance(0.4)) await node.take(partition)
            else if (random.chance(0.3)) await node.notice(partition)
          }
          for (const each of nodes) each.look()
          if (random.chance(0.2)) await killWriters(url)
        }
        await eventually(async () => {
          for (const partition of appended.keys()) {
            await nodes[0]?.take(partition)
            for (const each of nodes) await each.notice(partition)
          }
          for (const each of nodes) each.look()
          // Each store knows the positions of all partitions, including those that it did not write.
          for (const { told } of nodes) {
            assert.deepEqual(
              appended.map((_, partition) => told.get(partition)),
              appended,
            )
          }
        })
        for (const { state } of nodes) assert.equal(state.refused, '')
      } finally {
        for (const node of nodes) await node.close()
      }
      const database = await openDatabase(url)
      const single = await openDatabase(await migrated())
      try {
        await rebuild({ log, database: single, say: () => {} })
        assert.deepEqual(await projectedTables(database), await projectedTables(single))
        const { trades, differences } = await auditTrades(database)
        assert.deepEqual(differences, [])
        assert(trades > 0)
      } finally {
        await closeDatabase(database)
        await closeDatabase(single)
      }
    })
  }
})
