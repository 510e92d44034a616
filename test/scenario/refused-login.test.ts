/**
 * Tests an exchange whose database refuses its login while the exchange runs. The password was changed in the database
 * first.
 */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { it } from 'node:test'
import { createClient } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { onServer, onServerDatabase } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { marketNumbered, seedMarkets } from '../support/seeded-markets.ts'

type Checks = { checks: Record<string, { ok: boolean; why?: string }> }

await onServerDatabase(
  'a running exchange does not exit when the database refuses its login',
  ({ fresh }) => {
    it('a refused database login stops only the projection, which continues when the login is accepted again', async (t) => {
      const url = new URL(await fresh())
      const name = url.pathname.slice(1)
      const user = `sibyl_${randomBytes(4).toString('hex')}`
      await onServer(`create user ${user}@'%' identified by 'first'`)
      t.after(() => onServer(`drop user ${user}@'%'`))
      await onServer(`grant all on ${name}.* to ${user}@'%'`)
      url.username = user
      url.password = 'first'
      const market = marketNumbered(1)
      const exchange = await startExchange(t, {
        environment: { SIBYL_DATABASE_URL: url.href, SIBYL_DEMO_MARKETS: 'false' },
        prepare: (dataDir) => seedMarkets(dataDir, [{ market }]),
      })
      const trader = createClient({ url: exchange.url, signer: devnetKey(10) })
      const terms = { marketId: market.id, outcome: 'YES', side: 'buy', size: '1' } as const
      const place = (price: string) => trader.orders.place({ ...terms, price, ttlSeconds: 3_600 })
      const projected = async () =>
        Number((await onServer<{ n: number }>(`select count(*) as n from ${name}.orders`))[0]?.n)
      const ready = async () => {
        const answer = await fetch(`${exchange.url}/readyz`)
        return { ...((await answer.json()) as Checks), status: answer.status }
      }
      await eventually(() => place('0.1'))
      await eventually(async () => assert.equal(await projected(), 1))

      await onServer(`alter user ${user}@'%' identified by 'second'`)
      await onServer(`kill user ${user}`)
      await place('0.2')
      await eventually(async () => {
        const { checks } = await ready()
        assert.equal(checks.store?.ok, false)
        assert.match(checks.store?.why ?? '', /the database refused the login/)
      })
      // A thread loses its lease only after several refused logins. So the test waits until no lease is valid.
      await eventually(async () => {
        const held = `select 1 from ${name}.leases where expires_at > utc_timestamp(3)`
        assert.equal((await onServer(held)).length, 0)
      })
      await place('0.3')
      assert.equal((await trader.orderbook(market.id, 'YES')).bids.length, 3)
      assert.equal(await projected(), 1)

      await onServer(`alter user ${user}@'%' identified by 'first'`)
      await eventually(async () => assert.equal(await projected(), 3))
      await eventually(async () => assert.equal((await ready()).status, 200))
      const metrics = await (await fetch(`${exchange.url}/metrics`)).text()
      const deaths = [...metrics.matchAll(/^sibyl_thread_deaths\S* (\d+)$/gm)]
      assert.deepEqual(
        deaths.filter(([, count]) => count !== '0').map(([line]) => line),
        [],
      )
    })
  },
)
