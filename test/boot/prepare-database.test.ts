/** Tests the start of an exchange while its database cannot be reached. */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { loadSettings } from '#config/settings.ts'
import { openWires } from '#devnet/cluster/wire.ts'
import { Fault } from '#domain/fault.ts'
import { prepareDatabase } from '../../src/boot/prepare-database.ts'
import { onServerDatabase } from '../support/databases.ts'

await onServerDatabase(
  'the start of an exchange fails or waits while its database cannot be reached',
  (databases) => {
    /**
     * Prepares the database while its connection is cut. The first warning says that the start waits for the database.
     * When this warning is logged, the connection is restored.
     */
    async function start(environment: Record<string, string>, told: string[]): Promise<string[]> {
      const url = await databases.fresh()
      const wires = await openWires(url)
      wires.set('ended')
      const log = {
        warn(_fields: object, message: string) {
          told.push(message)
          wires.set('whole')
        },
      }
      const through = wires.through(url)
      try {
        const settings = loadSettings({ ...environment, SIBYL_DATABASE_URL: through })
        const { signal } = new AbortController()
        return await prepareDatabase(through, settings, { signal, log })
      } finally {
        wires.close()
      }
    }

    it('an exchange on one machine does not start if its database cannot be reached', async () => {
      const told: string[] = []
      await assert.rejects(start({}, told), (error) => error instanceof Fault && error.retryable)
      assert.deepEqual(told, [])
    })

    it('a cluster node waits for its database if the database cannot be reached', async () => {
      const told: string[] = []
      const node = {
        SIBYL_ROLES: 'front,market,chain,store',
        SIBYL_NODE: 'one',
        SIBYL_MARKET_THREADS: '1',
        SIBYL_DEVNET: 'false',
        SIBYL_NATS_URL: 'nats://127.0.0.1:4222',
        SIBYL_LOG_URL: 'mysql://root@127.0.0.1:3306/log',
      }
      assert((await start(node, told)).length > 0)
      assert.equal(told.length, 1)
      assert.match(told[0] ?? '', /^waiting for the database: /)
    })
  },
)
