/**
 * The signed orders of a run, on disk because there may be many. Each thread signs its share of the orders and writes
 * them to its own file. The sender takes one order from each file in turn, so it sends the orders in the sequence of
 * the plan. A record contains the length of the body, the order's hash, and the body.
 */

import { closeSync, openSync, readSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { MarketId } from '#domain/ids.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import type { PlannedRun } from './profiles/all.ts'

export const HASH_BYTES = 32
export const HEAD_BYTES = 2 + HASH_BYTES
const CHUNK_BYTES = 1024 * 1024

export type TapeOptions = {
  readonly run: PlannedRun
  readonly domain: OrderDomain
  readonly markets: readonly MarketId[]
  /** Salt that makes the traders and orders of this run different from those of other runs. */
  readonly salt: string
  readonly expirationSec: number
  readonly folder: string
}

export type SignTask = TapeOptions & {
  readonly file: string
  readonly share: number
  readonly shares: number
}

export type SignNews = { readonly signed: number; readonly done?: true }

export type TapedOrder = { readonly hash: Buffer; readonly body: Buffer }

export type OrderTape = {
  readonly orders: number
  /** Returns the next order of the plan. Its bytes are valid until the tape is closed. */
  next(): TapedOrder
  close(): Promise<void>
}

export function traderName({ salt, run }: Pick<TapeOptions, 'salt' | 'run'>, trader: number) {
  return `${run.seed}:${salt}:${trader}`
}

/** Signs every order of the plan; `progress` is called with the number of signed orders. */
export async function recordOrders(
  options: TapeOptions,
  progress: (signed: number) => void = () => undefined,
): Promise<OrderTape> {
  const shares = availableParallelism()
  const files = Array.from({ length: shares }, (_, share) => `${options.folder}/orders-${share}`)
  const signed = new Array<number>(shares).fill(0)
  await Promise.all(
    files.map(
      (file, share) =>
        new Promise<void>((resolve, reject) => {
          const task: SignTask = { ...options, file, share, shares }
          const entry = new URL('./sign-worker.ts', import.meta.url)
          const worker = new Worker(entry, { workerData: task })
          worker.on('message', (news: SignNews) => {
            signed[share] = news.signed
            progress(signed.reduce((sum, each) => sum + each, 0))
          })
          worker.once('error', reject)
          worker.once('exit', (code) =>
            code === 0
              ? resolve()
              : reject(new Error(`the thread that signs orders ended with exit code ${code}`)),
          )
        }),
    ),
  )
  const orders = signed.reduce((sum, each) => sum + each, 0)
  const readers = files.map(openReader)
  let number = 0
  return {
    orders,
    next: () => readers[number++ % shares]!.next(),
    async close() {
      for (const reader of readers) reader.close()
      await Promise.all(files.map((file) => rm(file, { force: true })))
    },
  }
}

/** Reads a megabyte at a time. The file is in the system's cache, so a read takes hardly any time. */
function openReader(file: string) {
  const descriptor = openSync(file, 'r')
  let chunk = Buffer.alloc(0)
  let at = 0
  const need = (bytes: number): boolean => {
    if (chunk.length - at >= bytes) return true
    const rest = chunk.subarray(at)
    const fresh = Buffer.allocUnsafe(rest.length + CHUNK_BYTES)
    rest.copy(fresh)
    const read = readSync(descriptor, fresh, rest.length, CHUNK_BYTES, null)
    chunk = fresh.subarray(0, rest.length + read)
    at = 0
    return chunk.length >= bytes
  }
  return {
    next(): TapedOrder {
      if (!need(HEAD_BYTES)) throw new Error('the file of signed orders has no more orders')
      const length = chunk.readUInt16LE(at)
      if (!need(HEAD_BYTES + length))
        throw new Error('the file of signed orders ends in the middle of an order')
      const hash = chunk.subarray(at + 2, at + HEAD_BYTES)
      const body = chunk.subarray(at + HEAD_BYTES, at + HEAD_BYTES + length)
      at += HEAD_BYTES + length
      return { hash, body }
    },
    close: () => closeSync(descriptor),
  }
}
