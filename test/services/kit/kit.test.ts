import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { Registry } from 'prom-client'
import { loadSettings } from '#config/settings.ts'
import { channelOptions, topologyOf } from '#config/thread-data.ts'
import { threadOfMarket } from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import { Channel } from '#runtime/channel.ts'
import { eventLoop } from '#runtime/loop.ts'
import { linkWriters, makeFollowers } from '#services/kit/kit.ts'
import { linkMeters } from '#services/kit/link-metrics.ts'
import { workerMeters } from '#services/kit/worker-metrics.ts'
import type { WriteQueueProtocol } from '#services/projector/write-queue.ts'

const settings = loadSettings({ SIBYL_MARKET_THREADS: '3', SIBYL_LOG_PARTITIONS: '8' })
const options = channelOptions(settings)
const parts = { links: linkMeters(new Registry()), loop: eventLoop }

test('a thread reports its worker’s total CPU time and heap size', async () => {
  const registry = new Registry()
  workerMeters(registry)
  const read = async (name: string) =>
    (await registry.getSingleMetric(name)?.get())?.values.reduce((sum, { value }) => sum + value, 0)
  const before = await read('sibyl_thread_cpu_seconds_total')
  const { user, system } = process.threadCpuUsage()
  const after = await read('sibyl_thread_cpu_seconds_total')
  assert(before !== undefined && after !== undefined && before > 0)
  const between = (user + system) / 1e6
  assert(before <= between && between <= after, `${before}, ${between}, ${after}`)
  assert(((await read('sibyl_thread_heap_bytes')) ?? 0) > 0)
})

test('a thread accepts message ports only from the store and from known market threads', () => {
  const writers = linkWriters(settings, parts)
  const take = (peer: string) => writers.take(peer, new MessageChannel().port1)
  assert.equal(take('store'), 'store')
  assert.equal(take('market-1'), writers.markets[1])
  assert.equal(take('market-3'), undefined)
  assert.equal(take('front-0'), undefined)
  assert.deepEqual(
    writers.markets.map(({ isOpen }) => isOpen),
    [false, true, false],
  )
  assert(writers.store.isOpen)
  writers.close()
  assert(!writers.store.isOpen)
})

test('a request for a market is sent to the thread of that market', () => {
  const { markets, marketOf } = linkWriters(settings, parts)
  for (let number = 0; number < 20; number++) {
    const marketId = `0x${number.toString(16).padStart(64, '0')}` as MarketId
    assert.equal(marketOf(marketId), markets[threadOfMarket(marketId, topologyOf(settings))])
  }
})

test('a connected thread receives answers and messages until its link is closed', async () => {
  const followers = makeFollowers<WriteQueueProtocol>(settings, parts)
  const { port1, port2 } = new MessageChannel()
  const told = Promise.withResolvers<string>()
  const peer = new Channel<WriteQueueProtocol>(port2, options, {
    received: (type) => told.resolve(type),
  })
  const follower = followers.add('front-0', port1, (_type, message, replyTo, channel) =>
    channel.reply(replyTo, message),
  )
  const task = { write: 'saveTransaction', args: {} }
  assert.deepEqual(await peer.ask('Write', task), task)
  followers.tell('Write', task)
  assert.equal(await told.promise, 'Write')
  followers.close()
  assert(!follower.isOpen)
})
