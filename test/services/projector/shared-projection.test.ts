import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { MarketEvent } from '#domain/market-event.ts'
import type { LogReader } from '#log/event-log.ts'
import { systemClock } from '#runtime/clock.ts'
import { serve } from '#runtime/serve.ts'
import {
  newStore,
  type StoreEvent,
  type StoreProtocol,
  type StoreState,
  store,
} from '#services/projector/projector.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { renewLeases, takeLease } from '#store/leases/leases.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { checkpoints, claimLog } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import { onServerDatabase } from '../../support/databases.ts'
import { eventually } from '../../support/eventually.ts'
import { randomFrom } from '../../support/random.ts'
import { seedsOf } from '../../support/sample.ts'
import { given } from '../market/market-fixture.ts'
import { randomFlow } from '../market/random-flow.ts'

const ROLE = 'projector/0'

/** A node's projector on the log that all of them read; it writes while it believes that it has the lease. */
async function startNode(url: string, holder: string, log: LogReader<MarketEvent>) {
  const database = await openDatabase(url)
  let own: Database | undefined
  const told: number[] = []
  let closed = false
  const state = newStore(log, {
    claim: (from) => claimLog(database, from),
    write: (batch) => project(own ?? database, batch),
    shared: { isOwn: () => own !== undefined, read: () => checkpoints(database) },
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
      for (const event of events) if (event.type === 'Projected') told.push(event.offset)
    },
  })
  return {
    told,
    state,
    look: () => served.hear('Tick', {}, 0, undefined),
    /** For an instant only: another may have it before this one has noticed. */
    async take(): Promise<void> {
      const taken = await takeLease(database, { role: ROLE, holder, forMs: 1 })
      if ('epoch' in taken) own = { ...database, fence: { role: ROLE, epoch: taken.epoch } }
    },
    async notice(): Promise<void> {
      const { fence } = own ?? {}
      if (fence !== undefined && (await renewLeases(database, [fence], 1)).length === 0) {
        own = undefined
      }
    },
    async close(): Promise<void> {
      closed = true
      await served.drained()
      await closeDatabase(database)
    },
  }
}

await onServerDatabase('projectors that share a database', ({ fresh }) => {
  for (const seed of seedsOf(1, 2)) {
    it(`several projectors write the events of the log once, through any changes of the lease (seed ${seed})`, async () => {
      const random = randomFrom(seed)
      const market = given()
      const flow = randomFlow(market, random)
      let appended = 1
      const log: LogReader<MarketEvent> = {
        id: 'log',
        partitions: 1,
        read(_partition, from, limit) {
          const found = market.events.slice(from - 1, Math.min(appended, from - 1 + limit))
          return found.map((event, index) => ({ offset: from + index, event }))
        },
        firstOffset: () => 1,
        lastOffset: () => appended,
        close: async () => {},
      }
      const url = await fresh()
      const database = await openDatabase(url)
      await migrate(database)
      const nodes = [await startNode(url, 'a', log), await startNode(url, 'b', log)]
      try {
        for (const node of nodes) node.look()
        for (let step = 0; step < 60; step++) {
          for (let more = random.int(0, 20); more > 0; more--) flow.step()
          appended = market.events.length
          const node = random.pick(nodes)
          if (random.chance(0.4)) await node.take()
          else if (random.chance(0.3)) await node.notice()
          for (const each of nodes) each.look()
        }
        await eventually(async () => {
          const [node] = nodes
          await node?.take()
          for (const each of nodes) await each.notice()
          for (const each of nodes) each.look()
          const [checkpoint] = await checkpoints(database)
          assert.equal(checkpoint?.offset, appended)
          // A store that did not write it also knows the position.
          for (const { told } of nodes) assert.equal(told.at(-1), appended)
        })
        for (const { state } of nodes) assert.equal(state.refused, '')
        const count = async (table: string) => {
          const rows = await sqlConnection(database).execute<{ n: number | string }[]>(
            `select count(*) as n from ${table}`,
          )
          return Number(rows[0]?.n)
        }
        assert.equal(await count('orders'), flow.firstAnswers.size)
        assert.equal(await count('trades'), flow.trades.length)
      } finally {
        for (const node of nodes) await node.close()
        await closeDatabase(database)
      }
    })
  }
})
