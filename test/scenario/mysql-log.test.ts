/**
 * An exchange with its log in a database server: it is killed, loses its data folder, and is replaced by a second
 * exchange.
 */

import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { test } from 'node:test'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { onServerDatabase } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { runAudit, runRebuild } from '../support/run-audit.ts'

const KEYS = [1, 2].map((number) => `0x${number.toString(16).padStart(64, '0')}` as const)

await onServerDatabase('the log of an exchange can be on a database server', ({ fresh }) => {
  test('an exchange that lost its data folder restores the same books and answers from the log on a database server', async (t) => {
    const environment = {
      SIBYL_LOG_URL: await fresh(),
      SIBYL_DATABASE_URL: await fresh(),
      SIBYL_SNAPSHOT_EVERY: '100',
    }
    const exchange = await startExchange(t, { environment })
    const clients = () => KEYS.map((signer) => createClient({ url: exchange.url, signer }))
    let [ann, bob] = clients()
    const markets = (await ann!.markets()).map(({ id }) => id)
    const sell = { side: 'sell', outcome: 'YES', size: '3', ttlSeconds: 3_600 } as const
    for (const marketId of markets) {
      await ann!.orders.placeBatch(
        Array.from({ length: 60 }, (_, step) => ({ ...sell, marketId, price: 300_000 + step })),
      )
      const buy = { ...sell, marketId, side: 'buy', price: '0.300004' } as const
      const { matches } = await bob!.orders.place(buy)
      assert.equal(matches, 1)
    }
    const signed = await bob!.orders.sign({ ...sell, marketId: markets[0]!, price: '0.7' })
    const first = await bob!.orders.submit(signed)
    const books = () => Promise.all(markets.map((id) => ann!.orderbook(id, 'YES')))
    const plain = async () => (await books()).map(({ bids, asks, seq }) => ({ bids, asks, seq }))
    const before = await plain()
    assert.equal(before[0]!.asks.length, 60)

    await exchange.kill()
    await rm(exchange.dataDir, { recursive: true })
    await exchange.start()
    ;[ann, bob] = clients()
    assert.deepEqual(await plain(), before)
    const again = await bob!.orders.submit(signed)
    assert.deepEqual({ ...again, seq: 0 }, { ...first, seq: 0, duplicate: true })
    await ann!.orders.place({ ...sell, marketId: markets[1]!, price: '0.9' })

    // A second exchange takes over the log; from now on only the second may write.
    const second = await startExchange(t, { environment })
    const terms = { ...sell, marketId: markets[0]!, price: '0.8' } as const
    const rival = createClient({ url: second.url, signer: KEYS[0]! })
    const { orderHash } = await rival.orders.place({ ...terms, price: '0.81' })
    // The first exchange has appended nothing since the takeover, so it does not know yet that it was replaced.
    const replaced = createClient({ url: exchange.url, signer: KEYS[0]!, retries: 0 })
    const isUnsure = (error: unknown) =>
      error instanceof SibylError && ['OUTCOME_UNKNOWN', 'OVERLOADED'].includes(error.code)
    await assert.rejects(replaced.orders.cancel({ ...terms, orderHash }), isUnsure)
    await assert.rejects(replaced.orders.list({ market: markets[0]! }), isUnsure)
    await eventually(async () => {
      const book = await fetch(`${exchange.url}/api/v1/orderbook/${markets[0]}`)
      assert.equal(book.headers.get('sibyl-stale'), 'true')
    })
    const refused = await ann!.orders.place(terms).then(
      () => undefined,
      (error: SibylError) => error,
    )
    assert(refused instanceof SibylError, 'who was taken over accepts nothing')
    const asks = async () =>
      (await rival.orderbook(markets[0]!, 'YES')).asks.map(({ price }) => price)
    assert.deepEqual((await asks()).slice(-2), [700_000, 810_000])
    await eventually(async () => {
      const response = await fetch(`${exchange.url}/readyz`)
      assert.equal(response.status, 503)
      assert.match(await response.text(), /taken over/)
    })
    const trades = (client: typeof rival) => Promise.all(markets.map((id) => client.trades(id)))
    await eventually(async () => assert((await trades(rival)).every(({ length }) => length === 1)))
    const known = await trades(rival)

    // The database is lost, too, and is rebuilt from the copy of the log in the data folder.
    await second.stop()
    const lost = { ...environment, SIBYL_DATABASE_URL: await fresh() }
    const here = { ...lost, SIBYL_DATA_DIR: second.dataDir }
    const { code, said } = await runRebuild(here)
    assert.equal(code, 0, said)
    assert.match(said, /the database has reached the end of the log/)
    const audit = await runAudit(here)
    assert.equal(audit.code, 0, audit.said)
    await second.start(lost)
    assert.deepEqual(await trades(createClient({ url: second.url })), known)
  })
})
