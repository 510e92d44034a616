/**
 * Limits one kind of long work, so that resources are left for short work. At most `underWayMax` tasks run at
 * the same time, and up to `waitingMax` further tasks wait in order. Any other task is rejected.
 */

import { PoolFull } from './pool.ts'

type BoundedWork = {
  /** Runs a task; rejects with `PoolFull` if `waitingMax` tasks wait already. */
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
      else if (waiting.length >= bounds.waitingMax)
        throw new PoolFull('too many long tasks are waiting')
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
