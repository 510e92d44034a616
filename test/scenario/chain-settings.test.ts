import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { startRefusal } from '../support/exchange.ts'

test('if the local chain’s port is in use, the exchange does not start and names the setting', async (t) => {
  const server = createServer((_, response) => response.end('hello'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  const environment = { SIBYL_DEVNET_PORT: String(port) }
  const said = await startRefusal({ devnet: true, environment })
  assert.match(
    said,
    new RegExp(`^sibyl: port ${port} of the local chain is in use; set SIBYL_DEVNET_PORT `),
  )
})
