/**
 * Tests how settlement moves between an exchange and a simulated other node. The exchange waits as a standby, takes
 * over the lease, loses it, and takes it over again.
 */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { closeDatabase, sqlConnection } from '#store/engine/database.ts'
import { giveLeases, takeLease } from '#store/leases/leases.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { onServerDatabase } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { openSettled, type Way } from '../support/settled.ts'

type Checks = { checks: Record<string, { ok: boolean; why?: string }> }

const ROLE = 'settlement/31338'
/** Longer than any test takes. */
const LONG_MS = 600_000

await onServerDatabase('two nodes share the roles of an exchange', ({ fresh }) => {
  it('a standby node takes over the settlement lease and returns it, and every trade settles exactly once', async (t) => {
    const url = await fresh()
    const database = await openDatabase(url)
    t.after(() => closeDatabase(database))
    await migrate(database)
    const other = { role: ROLE, holder: 'elsewhere', forMs: LONG_MS }
    assert.deepEqual(await takeLease(database, other), { epoch: 1 })
    const s = await openSettled({
      environment: { SIBYL_DATABASE_URL: url, SIBYL_SETTLEMENT_BATCH_WAIT_MS: '50' },
    })
    t.after(() => s.dispose())

    const terms = { marketId: s.marketId, outcome: 'YES', price: '0.5', ttlSeconds: 3_600 } as const
    async function trade(): Promise<void> {
      await s.clientOf(10).orders.place({ ...terms, side: 'sell', size: '1' })
      await s.clientOf(11).orders.place({ ...terms, side: 'buy', size: '1' })
    }
    const trades = async () =>
      (await s.get<{ trades: Way[] }>(`/api/v1/trades/${s.marketId}`)).trades
    const standsBy = () =>
      eventually(async () => {
        const { checks } = await s.get<Checks>('/readyz')
        assert.match(
          checks.settlement?.why ?? '',
          /^standby: another node has the lease of settlement/,
        )
        assert.equal(checks.settlement?.ok, true, 'nothing is wrong with it')
      })
    const settled = (count: number) =>
      eventually(async () => {
        const all = await trades()
        assert.equal(all.length, count)
        for (const { status } of all) assert.equal(status, 'confirmed')
      })
    const leaseMetric = async (name: string) =>
      new RegExp(`sibyl_lease_${name}\\{role="settlement/31338".*\\} (\\S+)`).exec(
        await (await fetch(`${s.exchange.url}/metrics`)).text(),
      )?.[1]
    const held = () => leaseMetric('held')

    await standsBy()
    assert.equal(await held(), '0')
    assert.equal(await leaseMetric('age_seconds'), undefined)
    await trade()
    await eventually(async () => assert.equal((await trades()).length, 1))
    assert.deepEqual(
      (await trades()).map(({ status }) => status),
      ['matched'],
    )

    await giveLeases(database, [{ role: ROLE, epoch: 1 }])
    await settled(1)
    assert.equal(await held(), '1')
    assert(Number(await leaseMetric('age_seconds')) < 6)

    // Takes the lease away, as if the exchange had been paused for longer than the lease.
    await sqlConnection(database).execute(
      `update leases set holder = 'elsewhere', epoch = epoch + 1,
        expires_at = utc_timestamp(3) + interval 1 hour where role = ?`,
      [ROLE],
    )
    await trade()
    await standsBy()
    const [row] = await sqlConnection(database).execute<{ epoch: number | string }[]>(
      'select epoch from leases where role = ?',
      [ROLE],
    )
    await giveLeases(database, [{ role: ROLE, epoch: Number(row?.epoch) }])
    await settled(2)
    assert.deepEqual([...(await s.settledTimes()).values()], [1, 1])
    // When a node stops, it releases its leases, so that another node can take them at once.
    await s.exchange.stop()
    assert('epoch' in (await takeLease(database, other)))
    assert('epoch' in (await takeLease(database, { ...other, role: 'projector/0' })))
  })
})
