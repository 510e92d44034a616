import assert from 'node:assert/strict'
import { test } from 'node:test'
import { privateKeyToAccount } from 'viem/accounts'
import { createClient } from '#client/client.ts'
import { createStream } from '#client/stream.ts'
import { mintToken } from '#client/tokens.ts'
import { registerMessage } from '#domain/api-key.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { demoMarketIds } from '../support/seeded-markets.ts'
import { traderNumbered } from '../support/signed-orders.ts'

const ann = traderNumbered(61)
const [MARKET = ''] = demoMarketIds()

test('orders of a session go with it, and others stay', async (t) => {
  const exchange = await startExchange(t, { environment: { SIBYL_AUTH_BEARER: 'true' } })
  const signature = await privateKeyToAccount(ann.key).signMessage({
    message: registerMessage('Sibyl', ann.address),
  })
  const response = await fetch(`${exchange.url}/api/v1/api-keys`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ address: ann.address, signature }),
  })
  const key = (await response.json()) as { api_key_id: string; api_private_key: string }
  const pair = { id: key.api_key_id, privateKey: key.api_private_key }
  const headers = async () => ({ authorization: `Bearer ${await mintToken(pair, Date.now())}` })
  const client = createClient({ url: exchange.url, signer: ann.key, headers })
  const sign = (price: string) =>
    client.orders.sign({
      marketId: MARKET,
      side: 'buy',
      outcome: 'YES',
      price,
      size: '1',
      ttlSeconds: 3_600,
    })
  const stream = createStream({ url: exchange.url, headers })
  t.after(() => stream.close())
  const stays = await stream.place(await sign('0.10'))
  await stream.cancelOnDisconnect(true)
  const goes = [await stream.place(await sign('0.20')), await stream.place(await sign('0.30'))]
  assert.equal((await client.orders.list()).length, 3)
  assert.equal(goes.length, 2)
  stream.close()
  await eventually(async () => {
    const open = await client.orders.list()
    assert.deepEqual(
      open.map(({ orderHash }) => orderHash),
      [stays.orderHash],
    )
  })
})
