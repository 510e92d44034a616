/**
 * Limits one kind of long work, so that resources are left for short work. At most a fixed number of tasks runs at the
 * same time, and further tasks wait in order. If too many tasks wait, new ones are rejected.
 */

import { PoolFull } from './pool.ts'

type BoundedWork = {
  /** Runs a task; rejects with `PoolFull` if too many tasks wait already. */
  run<Result>(work: () => Promise<Result>): Promise<Result>
}

export function makeBoundedWork(bounds: {
  readonly underWayMax: number
  readonly waitingMax: number
}): BoundedWork {
  const waiting: (() => void)[] = []
  let underWay = 0
  return {
    async run(work) {
      if (underWay < bounds.underWayMax) underWay++
      else if (waiting.length >= bounds.waitingMax) throw new PoolFull('too much long work waits')
      else await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        return await work()
      } finally {
        // The task that has waited longest starts in place of the one that ended.
        const next = waiting.shift()
        if (next === undefined) underWay--
        else next()
      }
    },
  }
}
