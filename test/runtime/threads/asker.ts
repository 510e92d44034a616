/**
 * A thread that sends requests to the echo thread without a pause and counts the answers; its metrics have the counts.
 */

import { Channel, isUnanswered } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import { runThreads, type Thread } from '#runtime/thread.ts'

type Echo = { Echo: { takes: { n: number }; answers: { n: number } } }

const echo = makeRef<Echo>()
const counts = { asked: 0, answered: 0, unanswered: 0, wrong: 0, connected: 0 }
let going = true
let askers: Promise<void>[] = []

async function askAndAsk(): Promise<void> {
  while (going) {
    const n = counts.asked++
    const answer = await echo.ask('Echo', { n })
    if (isUnanswered(answer)) {
      counts.unanswered++
      await new Promise(setImmediate)
    } else if (answer.n === n) counts.answered++
    else counts.wrong++
  }
}

const parts: Thread = {
  async start() {
    askers = Array.from({ length: 32 }, askAndAsk)
  },
  connect(peer, port) {
    if (peer !== 'echo') return
    counts.connected++
    const options = { inFlightMax: 100, batchMax: 128, deadlineMs: 120_000 }
    echo.replace(new Channel<Echo>(port, options, { received() {} }))
  },
  health: () => '',
  async metrics() {
    return [{ ...counts }]
  },
  async drain() {
    going = false
    await Promise.all(askers)
  },
  async stop() {
    echo.close()
  },
}

runThreads({ asker: () => parts })
