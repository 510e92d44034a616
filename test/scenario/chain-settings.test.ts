import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { startTestChain } from '../support/chain.ts'
import { startExchange, startRefusal } from '../support/exchange.ts'

test('a port that another program has is said clearly', async (t) => {
  const server = createServer((_, response) => response.end('hello'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  const environment = { SIBYL_DEVNET_PORT: String(port) }
  const said = await startRefusal({ devnet: true, environment })
  assert.match(
    said,
    new RegExp(`^sibyl: port ${port} of the local chain is in use; SIBYL_DEVNET_PO`),
  )
})

test('a chain that cannot be reached is waited for; one that is not what the settings say is refused', async (t) => {
  const chain = await startTestChain(t)
  const exchange = await startExchange(t, {
    environment: { ...chain.environment, SIBYL_CHAIN_RPC: 'http://127.0.0.1:1' },
  })
  assert.equal((await fetch(`${exchange.url}/healthz`)).status, 200)

  const [settings] = JSON.parse(chain.environment.SIBYL_CHAINS) as [typeof chain.settings]
  const withSettings = (changed: object) => ({
    environment: {
      ...chain.environment,
      SIBYL_CHAINS: JSON.stringify([{ ...settings, ...changed }]),
    },
  })
  assert.match(
    await startRefusal(withSettings({ chainId: 137 })),
    /^sibyl: SIBYL_CHAIN_RPC: .* serves chain 31337, the settings say 137$/,
  )
  const nothing = `0x${'12'.repeat(20)}`
  const contracts = { ...settings.contracts, settlement: nothing }
  assert.match(
    await startRefusal(withSettings({ contracts })),
    new RegExp(`^sibyl: SIBYL_CHAINS: chain 31337 has no contract at ${nothing}$`),
  )
})
