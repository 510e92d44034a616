/**
 * A thread that gives the echo thread a new port while the echo thread is stopping. It keeps the other end of the port
 * open.
 */

import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { handPort, type RemoteSupervisor, runThreads, type Thread } from '#runtime/thread.ts'

const linker = ({ stopsAfter }: { stopsAfter: Int32Array }): Thread => {
  const kept: MessagePort[] = []

  async function hand(home: RemoteSupervisor): Promise<void> {
    while (Atomics.load(stopsAfter, 0) === 0) await new Promise(setImmediate)
    const { port1, port2 } = new MessageChannel()
    kept.push(port1)
    await handPort(home, 'echo', 'linker', port2)
    Atomics.store(stopsAfter, 0, 0)
  }

  return {
    async start(home) {
      void hand(home)
    },
    connect() {},
    health: () => '',
    metrics: async () => [],
    drain: async () => {},
    async stop() {
      for (const port of kept) port.close()
    },
  }
}

runThreads({ linker })
