import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Piscina } from 'piscina'
import type { Shares } from '#domain/money.ts'
import { orderHash } from '#domain/order-hash.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { makeBatcher, TASKS_PER_WORKER } from '#verify/batcher.ts'
import { type OrderInspection, type SignedOrder, verifiedOrder } from '#verify/inspect-orders.ts'
import { makeOrderPacker, makePackedMemory } from '#verify/packed-orders.ts'
import { alice, DOMAIN, signedOrder } from './signed-order.ts'

const THREADS = 2
const memory = makePackedMemory(THREADS)

function createPool(file: string, workerData: object) {
  return new Piscina({
    filename: fileURLToPath(new URL(file, import.meta.url)),
    minThreads: THREADS,
    maxThreads: THREADS,
    concurrentTasksPerWorker: TASKS_PER_WORKER,
    workerData: { domains: [DOMAIN], memory, ...workerData },
  })
}

function createOrderBatcher(pool: Piscina, onFailure: (error: unknown) => void) {
  return makeBatcher<SignedOrder, OrderInspection | Rejection>({
    workers: THREADS,
    run: makeOrderPacker({
      ...{ memory, domains: [DOMAIN] },
      run: (packed) => pool.run(packed, { name: 'inspectPacked' }),
    }),
    deadlineMs: 60_000,
    onFailure,
  })
}

async function signMany(count: number): Promise<SignedOrder[]> {
  const orders: SignedOrder[] = []
  for (let index = 1; index <= count; index++) {
    const signed = await signedOrder(alice, { size: index as Shares })
    orders.push(index % 10 === 0 ? { ...signed, signature: `0x${'1'.repeat(130)}` } : signed)
  }
  return orders
}

test('worker threads check signed orders, return results in order and refuse wrong signatures', async () => {
  const pool = createPool('../../workers/verify.ts', {})
  try {
    assert.match(await pool.run(undefined, { name: 'engines' }), / secp256k1, .* keccak$/)
    const batcher = createOrderBatcher(pool, (error) => assert.fail(String(error)))
    const orders = await signMany(200)
    const inspections = await Promise.all(orders.map((order) => batcher.ask(order)))
    for (const [index, inspection] of inspections.entries()) {
      const answer = verifiedOrder(orders[index]!, inspection)
      if ((index + 1) % 10 === 0) {
        assert.ok(isRejection(answer) && answer.rejected === 'INVALID_SIGNATURE')
      } else {
        assert.ok(!isRejection(answer))
        assert.equal(answer.orderHash, orderHash(orders[index]!.order, DOMAIN))
        assert.equal(answer.size, index + 1)
      }
    }
    await batcher.close()
  } finally {
    await pool.destroy()
  }
})

test('if a signature-checking thread dies, every order still gets a result', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-verify-'))
  const deathNote = join(folder, 'die')
  const pool = createPool('mortal-worker.ts', { deathNote })
  try {
    const failures: unknown[] = []
    const batcher = createOrderBatcher(pool, (error) => failures.push(error))
    const orders = await signMany(100)
    writeFileSync(deathNote, '')
    const inspections = await Promise.all(orders.map((order) => batcher.ask(order)))
    assert.ok(failures.length >= 1)
    for (const [index, inspection] of inspections.entries()) {
      const answer = verifiedOrder(orders[index]!, inspection)
      assert.equal(isRejection(answer), (index + 1) % 10 === 0)
    }
    await batcher.close()
  } finally {
    await pool.destroy()
    rmSync(folder, { recursive: true, force: true })
  }
})
