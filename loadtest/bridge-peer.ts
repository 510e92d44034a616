/**
 * One of the two nodes of the bridge measurement in `cluster-bench.ts`. It is a worker thread with a bridge on NATS.
 * The node that runs the store answers the orders that arrive through the bridge. The other node opens a link to the
 * store, and sends the link's port to the thread that started this worker.
 */

import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { Channel } from '#runtime/channel.ts'
import { realWorld } from '#services/kit/world.ts'
import { openBridge } from '#services/node/bridge.ts'
import { openNodeLine } from '#services/node/node-line.ts'

const { url, node, offers } = workerData as { url: string; node: string; offers: string[] }

function answer(port: MessagePort): void {
  const options = { inFlightMax: 1, batchMax: 128, deadlineMs: 30_000 }
  const channel = new Channel(port, options, {
    received(_type, order, replyTo) {
      const { orderHash } = order as { orderHash: string }
      channel.reply(replyTo, { orderHash, status: 'accepted', matches: 0, timestamp: 1 })
    },
  })
}

const line = await openNodeLine({
  ...{ url, credsFile: '', name: node },
  ...{ lost() {}, back() {} },
})
const serves = offers.length > 0
const begun = new Set<string>()
openBridge(
  {
    ...{ cluster: 'bench', node, shape: 'one', slots: ['store'], offers, silenceMs: 1_000 },
    ...{ moves: [], moveAfterMs: 0 },
    threads: serves ? [{ name: 'store', links: [] }] : [{ name: 'front-0', links: ['store'] }],
  },
  {
    ...{ line, world: realWorld, log: { info() {}, warn() {} }, broadcast() {} },
    taken() {},
    unfit() {},
    begin: async (slot) => void begun.add(slot),
    ended: () => new Promise(() => {}),
    handOver: async () => undefined,
    end: async (slot) => void begun.delete(slot),
    async connect(thread, _peer, port) {
      if (!serves) parentPort?.postMessage(port, [port])
      else if (begun.has(thread)) answer(port)
      else return false
      return true
    },
  },
)
