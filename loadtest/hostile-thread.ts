/** Attacks the stream in a thread of its own, so that it does not slow the honest client of a measurement down. */

import { parentPort, workerData } from 'node:worker_threads'
import { conflatedSnapshots, tickerTopics } from './hostile-stream.ts'

const ATTACKS = { tickerTopics, conflatedSnapshots }

export type HostileData = {
  readonly attack: keyof typeof ATTACKS
  readonly url: string
  readonly addresses: readonly string[]
  readonly seconds: number
}

const { attack, url, addresses, seconds } = workerData as HostileData
const figures = await Promise.all(
  addresses.map((address) => ATTACKS[attack](url, address, seconds)),
)
parentPort?.postMessage(figures)
