/** A thread that answers what it is asked, and misbehaves as its data says. */

import { resourceLimits, workerData } from 'node:worker_threads'
import { Channel } from '#runtime/channel.ts'
import { runThread } from '#runtime/thread.ts'

type EchoData = { failStarts?: Int32Array; hangs?: Int32Array; keepAlive?: boolean }

const data = workerData as EchoData
const channels: Channel<never>[] = []

runThread({
  async start() {
    if (data.failStarts !== undefined && Atomics.sub(data.failStarts, 0, 1) > 0) {
      throw new Error('the cellar is flooded')
    }
  },
  connect(_peer, port) {
    const options = { inFlightMax: 10, batchMax: 128, deadlineMs: 120_000 }
    const channel = new Channel<never>(port, options, {
      heard: (_type, message, replyTo) => channel.reply(replyTo, message),
    })
    channels.push(channel)
  },
  health() {
    if (data.hangs !== undefined && Atomics.sub(data.hangs, 0, 1) > 0) for (;;);
    return ''
  },
  metrics: async () => [{ name: 'echo', youngMb: resourceLimits.maxYoungGenerationSizeMb }],
  drain: async () => {},
  async stop() {
    for (const channel of channels) channel.close()
    if (data.keepAlive) setInterval(() => {}, 1_000)
  },
})
