/** Tests which differences in reserved funds `npm run audit -- --url` reports about a running exchange. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createLog } from '#log/log-folder.ts'
import { auditFunds } from '#operator/audit-funds.ts'
import { closeDatabase, sqlConnection } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { CHAIN, market, person } from '../store/chain-index/chain-events.ts'

const [steady, hasty] = [person(101), person(102)] as const

test('the audit reports a wrong reservation of funds only if it stays wrong in repeated reads', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-audit-'))
  createLog(dataDir, 1)
  const database = await openDatabase(`sqlite:${join(dataDir, 'sibyl.db')}`)
  await migrate(database)
  for (const trader of [steady, hasty]) {
    const hex = trader.slice(2)
    await sqlConnection(database).execute(
      `insert into orders values (x'${hex}', x'01', ${CHAIN}, x'${hex}', 0, 0, 1, 1, '1', '1', 1, x'00', x'00',
        null, 'cancelled', 0, 0, 1, 1, 0, 1)`,
    )
  }
  let looks = 0
  const server = createServer((request, response) => {
    const say = (body: object) => response.writeHead(200).end(JSON.stringify(body))
    if (request.url?.includes('/config')) return say({ risk: { funds: 'reserve' }, chains: [] })
    const isSteady = request.url?.includes(steady) === true
    // At each read, the reservation of the trader `hasty` is in another market, as for a trader with an order in
    // flight.
    const marketId = market(isSteady ? 1 : ++looks)
    const token = { token: 'outcome', marketId, outcome: 0, held: '0', allowed: '0', free: '0' }
    return say({ tokens: [{ ...token, reservedForOrders: '5', reservedForTrades: '0' }] })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    server.closeAllConnections()
    server.close()
    await closeDatabase(database)
    rmSync(dataDir, { recursive: true })
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const found = await auditFunds(database, { dataDir, url, chainIds: [CHAIN] })
  assert.deepEqual(
    found?.differences.map(({ what }) => what),
    [`${market(1)}/0 reserved for ${steady} on chain ${CHAIN}`],
  )
  assert.deepEqual({ traders: found?.traders, busy: found?.busy }, { traders: 2, busy: 1 })
  assert.equal(looks, 4)
})
