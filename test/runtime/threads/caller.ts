/**
 * A thread that asks the supervisor to start the echo thread, and to start it again when it ends. It gives the echo
 * thread a port, and sends requests over this port.
 */

import { MessageChannel } from 'node:worker_threads'
import { Channel } from '#runtime/channel.ts'
import { handPort, type RemoteSupervisor, runThreads, type Thread } from '#runtime/thread.ts'

type Echo = { Echo: { takes: { n: number }; answers: { n: number } } }

const caller = (): Thread => {
  const told: string[] = []
  let stopped = false
  let channel: Channel<Echo> | undefined

  async function call(home: RemoteSupervisor): Promise<void> {
    while (!stopped) {
      try {
        await home.begin('echo')
      } catch (error) {
        told.push(`failed: ${(error as Error).message}`)
        continue
      }
      const { port1, port2 } = new MessageChannel()
      channel = new Channel<Echo>(
        port1,
        { inFlightMax: 10, batchMax: 1, deadlineMs: 120_000 },
        {
          received() {},
        },
      )
      told.push(`handed: ${await handPort(home, 'echo', 'caller', port2)}`)
      told.push(`answered: ${JSON.stringify(await channel.ask('Echo', { n: 1 }))}`)
      told.push(`begun: ${(await home.begun()).join()}`)
      told.push(`ended: ${await home.ended('echo')}`)
    }
  }

  return {
    async start(home) {
      const { port2 } = new MessageChannel()
      told.push(`early: ${await handPort(home, 'echo', 'caller', port2)}`)
      void call(home).catch((error: unknown) => told.push(String(error)))
    },
    connect() {},
    health: () => '',
    metrics: async () => [{ told }],
    async drain() {
      stopped = true
    },
    async stop() {
      channel?.close()
    },
  }
}

runThreads({ caller })
