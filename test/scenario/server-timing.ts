/** Tests the report of a write's stages (`Server-Timing`) at a real exchange. */

import assert from 'node:assert/strict'
import { registerApiKey } from '#client/api-keys.ts'
import { createClient } from '#client/client.ts'
import { mintToken } from '#client/tokens.ts'
import type { MarketId } from '#domain/ids.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { demoMarketIds } from '../support/seeded-markets.ts'
import { signedOrder, traderNumbered } from '../support/signed-orders.ts'

const STAGES = ['parse', 'authenticate', 'verify', 'queue', 'match', 'commit', 'answer', 'total']

function stagesOf(response: Response): Map<string, number> {
  const entries = (response.headers.get('server-timing') ?? '').split(', ').filter(Boolean)
  return new Map(
    entries.map((entry) => {
      const [, stage = '', ms] = /^(\w+);dur=([\d.]+)$/.exec(entry) ?? []
      return [stage, Number(ms)] as const
    }),
  )
}

/**
 * Checks that a write returns its stages on request, and that the metrics have all stages. The exchange must
 * require tokens.
 */
export async function reportStages({ url }: Exchange): Promise<void> {
  const trader = traderNumbered(31)
  const order = (market: MarketId) => signedOrder(market, {}, { trader })
  const key = await registerApiKey({ url }, trader.key)
  const [marketId = assert.fail()] = demoMarketIds()
  const write = async (path: string, method: string, body: unknown, asked: boolean) =>
    fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${await mintToken(key, Date.now())}`,
        'content-type': 'application/json',
        ...(asked ? { 'x-server-timing': '1' } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })

  const silent = await write('/api/v1/orders', 'POST', await order(marketId), false)
  assert.equal(silent.status, 200)
  assert.equal(silent.headers.get('server-timing'), null)

  const placed = await write('/api/v1/orders', 'POST', await order(marketId), true)
  const accepted = (await placed.json()) as { orderHash: string; status: string }
  assert.deepEqual(Object.keys(accepted).toSorted(), [
    'marketId',
    'matches',
    'orderHash',
    'seq',
    'status',
    'timestamp',
  ])
  const stages = stagesOf(placed)
  assert.deepEqual([...stages.keys()], STAGES)
  const { total = 0, ...parts } = Object.fromEntries(stages)
  const sum = Object.values(parts).reduce((all, ms) => all + ms, 0)
  assert(sum > 0 && sum <= total + 0.1, `${sum} ms in stages of ${total} ms`)

  const path = `/api/v1/orders/${accepted.orderHash}?marketId=${marketId}`
  const cancelled = await write(path, 'DELETE', undefined, true)
  const { seq: _, ...ended } = (await cancelled.json()) as { seq: number }
  assert.deepEqual(ended, { status: 'cancelled', orderHash: accepted.orderHash, marketId })
  const [authenticate, ...rest] = stagesOf(cancelled).keys()
  assert.deepEqual(
    [authenticate, ...rest],
    STAGES.filter((s) => !/parse|verify/.test(s)),
  )

  // A refused write returns the stages that it passed.
  const twice = await write(path, 'DELETE', undefined, true)
  assert.equal(twice.status, 409)
  assert(stagesOf(twice).has('match'))
  const forged = { ...(await order(marketId)), signature: `0x${'11'.repeat(65)}` }
  const refused = await write('/api/v1/orders', 'POST', forged, true)
  assert.equal(refused.status, 400)
  assert.deepEqual([...stagesOf(refused).keys()], ['parse', 'authenticate', 'verify', 'total'])

  // The metrics omit a thread that is too busy to answer in time, so the test reads them repeatedly.
  await eventually(async () => {
    const metrics = await (await fetch(`${url}/metrics`)).text()
    for (const stage of STAGES.slice(0, -1)) {
      const count = `^sibyl_write_stage_seconds_count\\{.*stage="${stage}".*\\} [1-9]`
      assert.match(metrics, new RegExp(count, 'm'))
    }
    // Verification takes most of an order's processor time, so its metric must be above zero.
    const verified = /^sibyl_verify_cpu_seconds_total\{.*\} (\S+)/m.exec(metrics)?.[1]
    assert(Number(verified) > 0, `${verified} s`)
  })
  assert.equal((await createClient({ url }).orders.list({ trader: trader.address })).length, 1)
}
