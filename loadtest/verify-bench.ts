/**
 * Measures how much more it costs to verify an order than to recover the signer from its signature. One thread does the
 * complete verification: it computes the hash, converts it to hex text, recovers the signer and derives the signer's
 * address. The peer is native `ecdsaRecover`, which recovers the same signatures in the same run. Other programs on the
 * machine have no influence: both rates count only the CPU time of the thread, and short rounds of both sides
 * alternate.
 *
 * The verify pool is also measured, with one thread and with one thread per core. The figures are the orders per second
 * of real time, and the CPU time per order of the whole process and of the calling thread.
 */

import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { Piscina } from 'piscina'
import type { Address, MarketId, Uint64 } from '#domain/ids.ts'
import { ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, type Order, SELL, YES } from '#domain/order.ts'
import { makeOrderHasher } from '#domain/order-hash.ts'
import type { Rejection } from '#domain/rejection.ts'
import { makeBatcher, TASKS_PER_WORKER } from '#verify/batcher.ts'
import {
  makeOrderInspector,
  type OrderInspection,
  type SignedOrder,
  verifiedOrder,
} from '#verify/inspect-orders.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { makeOrderPacker, makePackedMemory } from '#verify/packed-orders.ts'
import { nativeRecovery } from '#verify/recover.ts'
import type { VerifyWorkerData } from '#verify/verify-jobs.ts'
import { median, quick, report, runBench } from './bench.ts'

type Native = {
  ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
  ecdsaRecover(
    compact: Uint8Array,
    recid: number,
    digest: Uint8Array,
    compressed: boolean,
  ): Uint8Array
  publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array
}
type Bare = { digest: Uint8Array; signature: Uint8Array; recid: number }

const ORDERS = quick ? 4_000 : 10_000
/** Number of orders in one round, which takes a tenth of a second. */
const ROUND_ORDERS = 500
const TRADERS = 100

const recovery = nativeRecovery()
if (recovery === undefined) throw new Error('this bench needs the native secp256k1 module')
const native: Native = createRequire(import.meta.url)('secp256k1/bindings.js')
const keccak = loadKeccak()
const verifyingContract = `0x${'5a'.repeat(20)}` as Address
const stablecoin = { address: verifyingContract, domainName: 'USD Coin', domainVersion: '1' }
const domain = { chainId: 31337, verifyingContract, stablecoin }
const { signed, bare } = signOrders(ORDERS)
const inspectOrders = makeOrderInspector([domain], recovery, keccak)

const single = await runBench({
  bench: 'verify',
  unit: 'orders per second of one core',
  peer: 'native secp256k1.ecdsaRecover alone, one core',
  bar: 0.85,
  rounds: quick ? 21 : 61,
  warmups: 5,
  ours: ({ index }) => {
    const orders = roundOf(signed, index)
    return coreRate(() => {
      for (let from = 0; from < orders.length; from += 32) {
        const batch = orders.slice(from, from + 32)
        for (const [at, inspection] of inspectOrders(batch).entries()) {
          mustBeVerified(verifiedOrder(batch[at]!, inspection))
        }
      }
    })
  },
  theirs: ({ index }) => {
    const signatures = roundOf(bare, index)
    return coreRate(() => {
      for (const { signature, recid, digest } of signatures) {
        native.ecdsaRecover(signature, recid, digest, false)
      }
    })
  },
})
const recoverUs = 1_000_000 / single.peerFigure

for (const threads of new Set([1, availableParallelism()])) {
  const memory = makePackedMemory(threads)
  const pool = new Piscina({
    filename: fileURLToPath(new URL('../workers/verify.ts', import.meta.url)),
    minThreads: threads,
    maxThreads: threads,
    concurrentTasksPerWorker: TASKS_PER_WORKER,
    workerData: { domains: [domain], memory } satisfies VerifyWorkerData,
  })
  const engines: string = await pool.run(undefined, { name: 'engines' })
  const batcher = makeBatcher<SignedOrder, OrderInspection | Rejection>({
    workers: threads,
    run: makeOrderPacker({
      ...{ memory, domains: [domain] },
      run: (packed) => pool.run(packed, { name: 'inspectPacked' }),
    }),
    deadlineMs: 60_000,
    onFailure: (error) => {
      throw error
    },
  })
  const rates: number[] = []
  const callerUs: number[] = []
  const processUs: number[] = []
  for (let round = 0; round < (quick ? 4 : 8); round++) {
    const caller = process.threadCpuUsage()
    const whole = process.cpuUsage()
    const start = performance.now()
    await askAll(batcher.ask)
    rates.push((ORDERS / (performance.now() - start)) * 1000)
    callerUs.push(perOrder(process.threadCpuUsage(caller)))
    processUs.push(perOrder(process.cpuUsage(whole)))
  }
  await batcher.close()
  await pool.destroy()
  const multiple = (median(processUs) / recoverUs).toFixed(2)
  process.stdout.write(
    `pool of ${threads} (${engines}): ${Math.round(median(rates))} orders/s; CPU per order ` +
      `${median(processUs).toFixed(0)} µs, ${multiple} of a bare recovery, of which the caller's ` +
      `thread ${median(callerUs).toFixed(1)} µs\n`,
  )
}
report(single)

/** Verifies all signed orders with a thousand concurrent requests, so that the pool is as busy as on a loaded front. */
async function askAll(
  ask: (order: SignedOrder) => Promise<OrderInspection | Rejection>,
): Promise<void> {
  let next = 0
  async function asker(): Promise<void> {
    while (next < signed.length) {
      const order = signed[next++]!
      mustBeVerified(verifiedOrder(order, await ask(order)))
    }
  }
  await Promise.all(Array.from({ length: 1_000 }, asker))
}

/** Returns the orders of a round. `ORDERS` is added because warm-up rounds have negative indices. */
function roundOf<Item>(items: readonly Item[], index: number): readonly Item[] {
  const from = ((index + ORDERS) * ROUND_ORDERS) % ORDERS
  return items.slice(from, from + ROUND_ORDERS)
}

function coreRate(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (ROUND_ORDERS / (user + system)) * 1_000_000
}

function perOrder({ user, system }: { user: number; system: number }): number {
  return (user + system) / ORDERS
}

function mustBeVerified(answer: object): void {
  if ('rejected' in answer) throw new Error(`an order was rejected: ${JSON.stringify(answer)}`)
}

function signOrders(count: number): { signed: SignedOrder[]; bare: Bare[] } {
  const hashOrder = makeOrderHasher(domain, keccak.keccak256)
  const traders = Array.from({ length: TRADERS }, (_, index) => {
    const key = Buffer.alloc(32)
    key.writeUInt32BE(index + 1, 28)
    const hash = Buffer.from(keccak.keccak256(native.publicKeyCreate(key, false).subarray(1)))
    return { key, address: `0x${hash.toString('hex', 12)}` as Address }
  })
  const orders: SignedOrder[] = []
  const bareOnes: Bare[] = []
  for (let index = 0; index < count; index++) {
    const trader = traders[index % TRADERS]!
    const order: Order = {
      marketId: `0x${(index % 50).toString(16).padStart(64, 'c')}` as MarketId,
      trader: trader.address,
      side: index % 2 === 0 ? BUY : SELL,
      outcome: YES,
      price: (1 + ((index * 7919) % 999_999)) as Price,
      size: (1_000_000 + index) as Shares,
      nonce: String(9_000_000_000_000_000_000n + BigInt(index)) as Uint64,
      expiration: '1893456000' as Uint64,
      makerFeeRecipient: ZERO_ADDRESS,
    }
    const digest = hashOrder(order)
    const { signature, recid } = native.ecdsaSign(digest, trader.key)
    const text = Buffer.from(signature).toString('hex')
    orders.push({ chainId: domain.chainId, order, signature: `0x${text}${recid ? '1c' : '1b'}` })
    bareOnes.push({ digest, signature, recid })
  }
  return { signed: orders, bare: bareOnes }
}
