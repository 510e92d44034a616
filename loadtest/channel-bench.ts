/**
 * `npm run bench -- channel`: measures requests per second through the channel, one at a time and under load. The rate
 * under load is compared with bare `postMessage` in the same run, with the same number of messages in flight. Both
 * carry distinct orders of about 500 bytes to a worker that answers each order.
 */

import { randomBytes } from 'node:crypto'
import { MessageChannel, Worker } from 'node:worker_threads'
import { Channel } from '#runtime/channel.ts'
import { quick, report, runBench } from './bench.ts'

type Order = Record<string, string | number>
type Accepted = { orderHash: string; status: string; matches: number; timestamp: number }
type Peer = { PlaceOrder: { takes: Order; answers: Accepted } }

const IN_FLIGHT = 1_024
const requests = quick ? 100_000 : 300_000
const hex = (bytes: number): string => `0x${randomBytes(bytes).toString('hex')}`
const orders = Array.from(
  { length: 50_000 },
  (_, index): Order => ({
    orderHash: hex(32),
    marketId: hex(32),
    trader: hex(20),
    side: index % 2,
    outcome: 0,
    price: 1 + (index % 999_999),
    size: 1_000_000 + index,
    nonce: randomBytes(8).readBigUInt64BE().toString(),
    expiration: '1900000000',
    makerFeeRecipient: `0x${'0'.repeat(40)}`,
    signature: hex(65),
  }),
)

const entry = new URL('./channel-peer.ts', import.meta.url)
const channelWorker = new Worker(entry)
const bareWorker = new Worker(entry)
const { port1, port2 } = new MessageChannel()
channelWorker.postMessage(port2, [port2])
const options = { inFlightMax: 2 * IN_FLIGHT, batchMax: 128, deadlineMs: 30_000 }
const channel = new Channel<Peer>(port1, options, { received() {} })

/** Keeps as many requests in flight as `width` allows, until `total` are answered. */
async function throughChannel(total: number, width: number): Promise<number> {
  let sent = 0
  const startMs = performance.now()
  const worker = async (): Promise<void> => {
    while (sent < total) {
      const order = orders[sent++ % orders.length] as Order
      const answer = await channel.ask('PlaceOrder', order)
      if (!('orderHash' in answer) || answer.orderHash !== order.orderHash) {
        throw new Error('the channel returned the answer to another request')
      }
    }
  }
  await Promise.all(Array.from({ length: width }, worker))
  return (total * 1_000) / (performance.now() - startMs)
}

/**
 * Sends one bare `postMessage` per request and per answer. As many requests are in flight as in the run through
 * channels.
 */
function throughBareMessages(total: number): Promise<number> {
  return new Promise((resolve) => {
    let sent = 0
    let answered = 0
    const startMs = performance.now()
    const send = (): void => {
      bareWorker.postMessage({ id: sent, order: orders[sent++ % orders.length] })
    }
    const hear = (): void => {
      answered++
      if (sent < total) send()
      if (answered < total) return
      bareWorker.off('message', hear)
      resolve((total * 1_000) / (performance.now() - startMs))
    }
    bareWorker.on('message', hear)
    for (let i = 0; i < IN_FLIGHT; i++) send()
  })
}

const alone = await throughChannel(quick ? 10_000 : 30_000, 1)
process.stdout.write(`one at a time: ${Math.round(alone)} requests/s\n`)
const result = await runBench({
  bench: 'channel',
  unit: 'requests/s under load',
  peer: 'bare pipelined postMessage',
  bar: 2.5,
  ours: () => throughChannel(requests, IN_FLIGHT),
  theirs: () => throughBareMessages(requests),
})
channel.close()
await Promise.all([channelWorker.terminate(), bareWorker.terminate()])
report(result)
