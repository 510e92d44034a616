import assert from 'node:assert/strict'
import { existsSync, renameSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { preloadOf } from '../support/preloaded.ts'
import { randomFrom } from '../support/random.ts'
import { holdToAnswers, type Life, makeOrders, newReport, settleAccounts } from './http-crash.ts'

const LANES = 8
const ORDERS_MAX = 400

test('an exchange whose disk fails to sync loses no answered request', async (t) => {
  const scratch = await mkdtemp(join(tmpdir(), 'sibyl-disk-'))
  t.after(() => rm(scratch, { recursive: true }))
  const library = preloadOf('fail-syncs.c', scratch)
  if (library === undefined) return t.skip('no C compiler')
  const order = join(scratch, 'next')
  /** Names the file whose next sync fails: the file whose name ends with `end`. */
  const failNext = (end: string): void => {
    writeFileSync(`${order}.new`, end)
    renameSync(`${order}.new`, order)
  }
  const exchange = await startExchange(t, {
    environment: {
      LD_PRELOAD: library,
      FAIL_SYNCS: order,
      SIBYL_LIMITS: 'false',
      SIBYL_LOG_PARTITIONS: '1',
    },
  })
  const random = randomFrom(Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 1e9)))
  t.diagnostic(`seed ${random.seed}`)
  const client = createClient({ url: exchange.url, retries: 0, timeoutMs: 120_000 })
  const report = newReport()
  const lives: Life[] = []

  /** Places orders until a sync has failed, and a few more. Returns the rejection codes. */
  async function placeBeyondFailure(end: string): Promise<Set<string>> {
    const received = new Set<string>()
    const batch: Life[] = []
    let isOver = false
    failNext(end)
    const lane = async (): Promise<void> => {
      while (!isOver && batch.length < ORDERS_MAX) {
        const [life] = await makeOrders(random, 1)
        assert(life !== undefined)
        batch.push(life)
        isOver ||= !existsSync(order)
        await client.orders.submit(life.submission).then(
          ({ matches, timestamp }) => {
            life.answer = { matches, timestamp }
          },
          (error: unknown) => {
            assert.ok(error instanceof SibylError)
            assert.equal(error.status, 503, `${error.code}: ${error.message}`)
            received.add(error.code)
          },
        )
      }
    }
    await Promise.all(Array.from({ length: LANES }, lane))
    assert(!existsSync(order), `${end} was synced`)
    lives.push(...batch)
    await eventually(async () => {
      assert.equal((await fetch(`${exchange.url}/readyz`)).status, 200)
    })
    await holdToAnswers(exchange, batch, report)
    return received
  }

  await t.test(
    'when a sync of the log fails, the log contains every request that was accepted, and other requests get OUTCOME_UNKNOWN',
    async () => {
      const received = await placeBeyondFailure('/partition-0.db-wal')
      assert(received.has('OUTCOME_UNKNOWN'), [...received].join())
      assert.match(exchange.output(), /an append failed; reloading the state from the log/)
    },
  )

  await t.test(
    'if a sync of the database fails, the store thread stops, and a new thread continues from the stored state',
    async () => {
      await placeBeyondFailure('/sibyl.db-wal')
      await eventually(() => {
        assert.match(exchange.output(), /store died \(EIO: i\/o error, fdatasync\)/)
      })
    },
  )

  await settleAccounts(exchange, lives, report)
  await exchange.stop()
})
