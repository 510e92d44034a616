/** Lanes that share the work of one owner. */

import assert from 'node:assert/strict'
import type { Address } from '#domain/ids.ts'
import type { TransactionName, TransactionSender } from './sender.ts'

/** Lanes that share the work: each transaction goes by the one with the most room. */
export function makeLanePool(lanes: ReadonlyMap<Address, TransactionSender>): TransactionSender {
  const all = [...lanes.values()]
  const laneOf = ({ sender }: TransactionName): TransactionSender => {
    const lane = lanes.get(sender)
    assert(lane !== undefined, `there is no lane of ${sender}`)
    return lane
  }
  return {
    async recover() {
      return (await Promise.all(all.map((lane) => lane.recover()))).flat()
    },
    async send(request) {
      let best: TransactionSender | undefined
      for (const lane of all) if (best === undefined || lane.room() > best.room()) best = lane
      assert(best !== undefined, 'a pool has at least one lane')
      return best.send(request)
    },
    async poll() {
      // The news of one lane comes once, so the failure of another must not swallow it.
      const ends = await Promise.allSettled(all.map((lane) => lane.poll()))
      const polled = ends.filter((end) => end.status === 'fulfilled').map(({ value }) => value)
      const failed = ends.find((end) => end.status === 'rejected')
      if (failed !== undefined && polled.length === 0) throw failed.reason
      return {
        news: polled.flatMap(({ news }) => news),
        headNumber: Math.max(...polled.map(({ headNumber }) => headNumber)),
        headAtSec: Math.max(...polled.map(({ headAtSec }) => headAtSec)),
      }
    },
    acknowledge: (name) => laneOf(name).acknowledge(name),
    abandon: (name) => laneOf(name).abandon(name),
    open: () => all.flatMap((lane) => lane.open()),
    room: () => all.reduce((sum, lane) => sum + lane.room(), 0),
  }
}
