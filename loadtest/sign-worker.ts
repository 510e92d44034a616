/** A thread that signs its share of a run's orders and writes them to its file. */

import { createHash } from 'node:crypto'
import { closeSync, openSync, writeSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { type MarketId, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Order } from '#domain/order.ts'
import { HASH_BYTES, HEAD_BYTES, type SignNews, type SignTask, traderName } from './order-tape.ts'
import { workloadOf } from './profiles/all.ts'
import { makeOrderSigner, type Trader, traderNamed } from './signed-orders.ts'
import { ordersOf } from './workload.ts'

const task = workerData as SignTask
const BUFFER_BYTES = 1024 * 1024
/** Number of orders that are signed between two reports of progress. */
const NEWS_EVERY = 1_000

const sign = makeOrderSigner(task.domain)
const traders: (Trader | undefined)[] = []
const expiration = String(task.expirationSec) as Uint64
// The nonces of a run are consecutive. The first one is derived from the hash of `salt`, so runs use different nonces.
const nonces = createHash('sha256').update(task.salt).digest().readBigUInt64BE() >> 1n
const descriptor = openSync(task.file, 'w')
const buffer = Buffer.allocUnsafe(BUFFER_BYTES)
let filled = 0
let signed = 0

function flush(): void {
  for (let from = 0; from < filled; ) from += writeSync(descriptor, buffer, from, filled - from)
  filled = 0
}

for (const planned of ordersOf(workloadOf(task.run))) {
  if (planned.number % task.shares !== task.share) continue
  traders[planned.trader] ??= traderNamed(traderName(task, planned.trader))
  const trader = traders[planned.trader]!
  const order: Order = {
    marketId: task.markets[planned.market] as MarketId,
    trader: trader.address,
    side: planned.side,
    outcome: planned.outcome,
    price: planned.price as Price,
    size: planned.size as Shares,
    nonce: String(nonces + BigInt(planned.number)) as Uint64,
    expiration,
    makerFeeRecipient: ZERO_ADDRESS,
  }
  const { hash, signature } = sign(order, trader.key)
  const body = JSON.stringify({ order, signature })
  if (filled + HEAD_BYTES + body.length > BUFFER_BYTES) flush()
  buffer.writeUInt16LE(body.length, filled)
  buffer.set(hash.subarray(0, HASH_BYTES), filled + 2)
  buffer.write(body, filled + HEAD_BYTES, 'latin1')
  filled += HEAD_BYTES + body.length
  if (++signed % NEWS_EVERY === 0) parentPort?.postMessage({ signed } satisfies SignNews)
}
flush()
closeSync(descriptor)
parentPort?.postMessage({ signed, done: true } satisfies SignNews)
