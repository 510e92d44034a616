/**
 * Limits a kind of work: a fixed number of tasks runs at once, further ones wait in order, and too many are rejected.
 * It keeps long work from taking the resources of short work.
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
        // The longest-waiting task takes its place.
        const next = waiting.shift()
        if (next === undefined) underWay--
        else next()
      }
    },
  }
}
