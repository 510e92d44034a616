/** Starts the thread that opens the sockets of a load test, and sends the requests of the run to this thread. */

import { Worker } from 'node:worker_threads'
import { checksumAddress } from '#domain/checksum-address.ts'
import { addressOf } from './dial.ts'
import type { Trader } from './signed-orders.ts'
import type { FromWatch, ToWatch, WatchFacts, WatchFigures } from './stream-watch.ts'

export type Watch = {
  open(
    url: string,
    markets: readonly string[],
    traders: readonly Trader[],
    readers: number,
  ): Promise<void>
  figures(): Promise<WatchFigures>
  facts(): Promise<WatchFacts>
  close(): Promise<void>
}

export function startWatch(): Watch {
  const worker = new Worker(new URL('./stream-watch.ts', import.meta.url))
  const waiting: { resolve: (news: FromWatch) => void; reject: (error: Error) => void }[] = []
  worker.on('message', (news: FromWatch) => waiting.shift()?.resolve(news))
  worker.on('error', (error) => {
    for (const { reject } of waiting.splice(0)) reject(error)
  })
  const ask = (message: ToWatch): Promise<FromWatch> =>
    new Promise((resolve, reject) => {
      waiting.push({ resolve, reject })
      worker.postMessage(message)
    })
  return {
    async open(url, markets, traders, readers) {
      const news = await ask({
        open: {
          address: addressOf(url),
          markets,
          traders: traders.map(({ address }) => checksumAddress(address)),
          readers,
        },
      })
      if ('failed' in news)
        throw new Error(`opening sockets failed after ${news.opened} were open: ${news.failed}`)
    },
    async figures() {
      const news = await ask('figures')
      if (!('figures' in news))
        throw new Error('the thread that watches the stream did not answer with figures')
      return news.figures
    },
    async facts() {
      const news = await ask('facts')
      if (!('facts' in news))
        throw new Error('the thread that watches the stream did not answer with facts')
      return news.facts
    },
    async close() {
      await worker.terminate()
    },
  }
}
