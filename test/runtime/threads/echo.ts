/** A thread that answers requests, and misbehaves as its data defines. */

import { spawnSync } from 'node:child_process'
import { resourceLimits, threadId } from 'node:worker_threads'
import { Channel } from '#runtime/channel.ts'
import { beat } from '#runtime/heartbeat.ts'
import { runThreads, type Thread, Unfit } from '#runtime/thread.ts'

type EchoData = {
  failStarts?: Int32Array
  startsUnderWay?: Int32Array
  hangs?: Int32Array
  /** While the first value is not zero, the thread does long work; the second value counts its steps. */
  busy?: Int32Array
  /**
   * If the first value of `waits` is 1, the thread waits until another thread notifies it. If it is 2, `spawnSync`
   * blocks the thread as long as the file `gate` exists.
   */
  waits?: Int32Array
  gate?: string
  keepAlive?: boolean
  unfit?: boolean
  /** When the thread is stopped, it sets the first value to 1 and waits until another thread sets it to 0. */
  stopsAfter?: Int32Array
}

const echo = (data: EchoData): Thread => {
  const channels: Channel<never>[] = []
  return {
    async start() {
      if (data.startsUnderWay !== undefined) {
        // Waits for 1,000 turns of the event loop, so that a test can act while the thread is starting.
        Atomics.add(data.startsUnderWay, 0, 1)
        for (let turn = 0; turn < 1_000; turn++) await new Promise(setImmediate)
      }
      if (data.unfit) throw new Unfit('the roof leaks')
      if (data.failStarts !== undefined && Atomics.sub(data.failStarts, 0, 1) > 0) {
        throw new Error('the cellar is flooded')
      }
    },
    connect(_peer, port) {
      const options = { inFlightMax: 10, batchMax: 128, deadlineMs: 120_000 }
      const channel = new Channel<never>(port, options, {
        received: (_type, message, replyTo) => channel.reply(replyTo, message),
      })
      channels.push(channel)
    },
    health() {
      if (data.hangs !== undefined && Atomics.sub(data.hangs, 0, 1) > 0) for (;;);
      while (data.busy !== undefined && Atomics.load(data.busy, 0) !== 0) {
        beat()
        Atomics.add(data.busy, 1, 1)
      }
      if (data.waits !== undefined && Atomics.load(data.waits, 0) === 1) {
        Atomics.wait(data.waits, 0, 1)
      }
      if (data.waits !== undefined && Atomics.load(data.waits, 0) === 2) {
        spawnSync('sh', ['-c', `while [ -e '${data.gate}' ]; do sleep 0.05; done`])
      }
      return ''
    },
    metrics: async () => [
      { name: 'echo', threadId, youngMb: resourceLimits.maxYoungGenerationSizeMb },
    ],
    drain: async () => {},
    async stop() {
      for (const channel of channels) channel.close()
      if (data.stopsAfter !== undefined) {
        Atomics.store(data.stopsAfter, 0, 1)
        while (Atomics.load(data.stopsAfter, 0) !== 0) await new Promise(setImmediate)
      }
      if (data.keepAlive) setInterval(() => {}, 1_000)
    },
  }
}

runThreads({ echo })
