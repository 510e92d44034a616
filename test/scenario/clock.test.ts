/** Tests a running exchange while the clock of its machine jumps. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createClient } from '#client/client.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { demoMarketIds } from '../support/seeded-markets.ts'
import { traderNumbered } from '../support/signed-orders.ts'

const DAY_MS = 86_400_000
const PRELOAD = new URL('../support/jumping-clock.ts', import.meta.url)

test('if the machine’s clock jumps by years, markets and orders expire only after the jump is confirmed', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-clock-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'ahead')
  const { url, output } = await startExchange(t, {
    environment: {
      JUMPING_CLOCK: file,
      NODE_OPTIONS: `--experimental-strip-types --no-warnings --import ${PRELOAD.href}`,
      SIBYL_CLOCK_CONFIRM_SECONDS: '6',
    },
  })
  const [marketId = assert.fail()] = demoMarketIds()
  const ann = createClient({ url, signer: traderNumbered(1).key })
  const intent = { marketId, side: 'buy', outcome: 'YES', price: '0.4', size: '1' } as const
  await ann.orders.place({ ...intent, ttlSeconds: 3_600 })
  type Ready = { status: string; checks: { clock: { ok: boolean; why: string } } }
  const ready = async () => (await (await fetch(`${url}/readyz`)).json()) as Ready
  const gauge = async () =>
    /sibyl_clock_jumped\{[^}]*\} (\d)/.exec(await (await fetch(`${url}/metrics`)).text())?.[1]
  const open = async () => {
    const answer = await fetch(`${url}/api/v1/markets/${marketId}`)
    return ((await answer.json()) as { status?: string }).status
  }
  assert.equal((await ready()).checks.clock.ok, true)
  assert.equal(await gauge(), '0')
  const before = await open()

  // The clock jumps ahead and back again. No order expires, and the market keeps its status.
  writeFileSync(file, String(1_000 * DAY_MS))
  await eventually(async () => assert.equal((await ready()).checks.clock.ok, false))
  assert.equal((await ready()).status, 'ready')
  assert.equal(await gauge(), '1')
  assert.equal((await ann.orders.list({ market: marketId })).length, 1)
  await ann.orders.place({ ...intent, price: '0.41', ttlSeconds: 3_600 })
  writeFileSync(file, '0')
  await eventually(async () => assert.equal((await ready()).checks.clock.ok, true))
  assert.equal((await ann.orders.list({ market: marketId })).length, 2)
  assert.equal(await open(), before)
  assert.match(output(), /the clock has jumped/)

  // The clock jumps ahead and stays there. After a while the exchange accepts the new time, and expires the orders
  // whose expiration has passed.
  writeFileSync(file, String(1_000 * DAY_MS))
  await eventually(async () => assert.match(output(), /the new time of the clock is accepted/))
  await eventually(async () =>
    assert.equal((await ann.orders.list({ market: marketId })).length, 0),
  )
  assert.equal((await ready()).checks.clock.ok, true)
})
