/** The other thread of `channel-bench.ts`: answers requests of a channel, and bare messages. */

import { MessagePort, parentPort } from 'node:worker_threads'
import { Channel } from '#runtime/channel.ts'

type Request = { id: number; order: { orderHash: string } }

const accepted = (orderHash: string) => ({
  orderHash,
  status: 'accepted',
  matches: 0,
  timestamp: 1_700_000_000,
})

parentPort?.on('message', (message: MessagePort | Request) => {
  if (message instanceof MessagePort) {
    const options = { inFlightMax: 1, batchMax: 128, deadlineMs: 1_000 }
    const channel = new Channel(message, options, {
      received(_type, order, replyTo) {
        channel.reply(replyTo, accepted((order as { orderHash: string }).orderHash))
      },
    })
  } else {
    const { id, order } = message
    parentPort?.postMessage({ id, answer: accepted(order.orderHash) })
  }
})
