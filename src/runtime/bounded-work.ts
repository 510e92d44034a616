/**
 * So much of a kind of work at once and no more: what comes meanwhile waits in the order in which it
 * came, and when too much waits the rest is refused. It keeps long work from taking what short work needs.
 */

import { PoolFull } from './pool.ts'

type BoundedWork = {
  /** Rejects with `PoolFull` when too much waits. */
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
        // Its place goes to the one that has waited longest.
        const next = waiting.shift()
        if (next === undefined) underWay--
        else next()
      }
    },
  }
}
