/**
 * Tests that the orders of a session are cancelled when the session ends. The exchange requires tokens, and makes a
 * snapshot every 100 events.
 */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { privateKeyToAccount } from 'viem/accounts'
import { createClient } from '#client/client.ts'
import { createStream } from '#client/stream.ts'
import { mintToken } from '#client/tokens.ts'
import { registerMessage } from '#domain/api-key.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { demoMarketIds } from '../support/seeded-markets.ts'
import { traderNumbered } from '../support/signed-orders.ts'

const [ann, bob] = [traderNumbered(61), traderNumbered(62)]
type Trader = typeof ann
const [MARKET = ''] = demoMarketIds()

/**
 * Registers a trader. Returns the trader's client, and functions that open streams, and sign and list the trader's buy
 * orders.
 */
async function traderOn(t: TestContext, exchange: Exchange, trader: Trader) {
  const signature = await privateKeyToAccount(trader.key).signMessage({
    message: registerMessage('Sibyl', trader.address),
  })
  const response = await fetch(`${exchange.url}/api/v1/api-keys`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ address: trader.address, signature }),
  })
  const key = (await response.json()) as { api_key_id: string; api_private_key: string }
  const pair = { id: key.api_key_id, privateKey: key.api_private_key }
  const headers = async () => ({ authorization: `Bearer ${await mintToken(pair, Date.now())}` })
  const client = () => createClient({ url: exchange.url, signer: trader.key, headers })
  const sign = (price: string) =>
    client().orders.sign({
      ...{ marketId: MARKET, side: 'buy', outcome: 'YES' },
      ...{ price, size: '1', ttlSeconds: 3_600 },
    })
  const openStream = () => {
    const stream = createStream({ url: exchange.url, headers })
    t.after(() => stream.close())
    return stream
  }
  const open = async () => (await client().orders.list()).map(({ orderHash }) => orderHash)
  return { client, sign, openStream, open }
}

/** Checks that the end of a session cancels the orders of the session, and no other orders. */
export async function endSession(t: TestContext, exchange: Exchange): Promise<void> {
  const { sign, openStream, open } = await traderOn(t, exchange, bob)
  const stream = openStream()
  const stays = await stream.place(await sign('0.10'))
  await stream.cancelOnDisconnect(true)
  const goes = [await stream.place(await sign('0.20')), await stream.place(await sign('0.30'))]
  assert.equal((await open()).length, 3)
  assert.equal(goes.length, 2)
  stream.close()
  await eventually(async () => assert.deepEqual(await open(), [stays.orderHash]))
}

/**
 * Checks that a trader's session cannot submit another trader's order again. When the session ends, the other trader's
 * order must stay open.
 */
export async function holdAnothersOrder(t: TestContext, exchange: Exchange): Promise<void> {
  const owner = await traderOn(t, exchange, ann)
  const thief = await traderOn(t, exchange, bob)
  const order = await owner.sign('0.10')
  const { orderHash } = await owner.client().orders.submit(order)
  const stream = thief.openStream()
  await stream.cancelOnDisconnect(true)
  await assert.rejects(stream.place(order), { code: 'NOT_ORDER_OWNER' })
  const goes = await stream.place(await thief.sign('0.20'))
  stream.close()
  await eventually(async () => assert.ok(!(await thief.open()).includes(goes.orderHash)))
  assert.ok((await owner.open()).includes(orderHash), 'the order is still open')
  await owner.client().orders.cancel({ orderHash, marketId: MARKET, side: 'buy' })
}

/** Places orders of a session and other orders; the caller then kills the exchange. */
export async function openSession(t: TestContext, exchange: Exchange) {
  const { client, sign, openStream, open } = await traderOn(t, exchange, ann)
  const stream = openStream()
  const before = await stream.place(await sign('0.10'))
  await stream.cancelOnDisconnect(true)
  const early = await sign('0.11')
  await stream.place(early)
  // Makes so many events that a snapshot contains the first orders and the log no longer has their events.
  const prices = Array.from({ length: 120 }, (_, step) => `0.${200 + step}`)
  const signed = await Promise.all(prices.map(sign))
  for (const order of signed) await stream.place(order)
  const other = openStream()
  await other.cancelOnDisconnect(true)
  const freed = await other.place(await sign('0.12'))
  await other.cancelOnDisconnect(false)
  const { orderHash: plain } = await client().orders.submit(await sign('0.13'))
  const stays = [before.orderHash, freed.orderHash, plain].toSorted()
  assert.equal((await open()).length, stays.length + signed.length + 1)
  // The market may answer the release of an order before it logs the release. It logs the release before its answer to
  // the next request, so the test places one more order.
  await client()
    .orders.submit(await sign('0.14'))
    .then(({ orderHash }) => stays.push(orderHash))

  return {
    async afterKill(): Promise<void> {
      await eventually(async () => assert.deepEqual((await open()).toSorted(), stays.toSorted()))
      await assert.rejects(client().orders.submit(early), { code: 'ORDER_CLOSED' })
    },
    /** Checks that the exchange has cancelled no further orders after a second kill. */
    async afterSecondKill(): Promise<void> {
      assert.deepEqual((await open()).toSorted(), stays.toSorted())
    },
  }
}
