/**
 * Work that goes together to where it is done: what comes while as much as may be is under way waits, and goes
 * with the others that wait, in the order in which it came. Who does it may do only the first of them, so that
 * none holds a thread for long; the rest waits again. When too much waits, the rest is refused.
 */

import { PoolFull } from './pool.ts'

type Waiting<Task, Result> = {
  readonly task: Task
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export function gatherWork<Task, Result>(options: {
  /** Answers the first of them or all, in their order; at least one. */
  readonly run: (tasks: readonly Task[]) => Promise<readonly Result[]>
  readonly underWayMax: number
  readonly togetherMax: number
  readonly waitingMax: number
}): (task: Task) => Promise<Result> {
  const { run, underWayMax, togetherMax, waitingMax } = options
  const waiting: Waiting<Task, Result>[] = []
  let underWay = 0

  function send(): void {
    while (underWay < underWayMax && waiting.length > 0) {
      underWay++
      void perform(waiting.splice(0, togetherMax))
    }
  }

  async function perform(some: Waiting<Task, Result>[]): Promise<void> {
    try {
      const results = await run(some.map(({ task }) => task))
      if (results.length === 0) throw new Error('none of the work that went together was done')
      for (const [at, result] of results.entries()) some[at]?.resolve(result)
      waiting.unshift(...some.slice(results.length))
    } catch (error) {
      for (const { reject } of some) reject(error)
    }
    underWay--
    send()
  }

  return (task) =>
    new Promise((resolve, reject) => {
      if (underWay >= underWayMax && waiting.length >= waitingMax) {
        reject(new PoolFull('too much work waits to go together'))
        return
      }
      waiting.push({ task, resolve, reject })
      send()
    })
}
