/**
 * Limits a kind of work: at most a fixed number of tasks runs at the same time, further tasks wait in order, and if too
 * many wait, new ones are rejected. So long work leaves resources for short work.
 */

import { PoolFull } from './pool.ts'

type BoundedWork = {
  /** Rejects with `PoolFull` if too much waits. */
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
