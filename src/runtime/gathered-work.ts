/**
 * Passes tasks in batches to a function, the runner. If `underWayMax` batches are in progress, further tasks
 * wait for the next batches, in order. The runner may do only the first tasks of a batch, so that no batch
 * keeps a thread busy for long; the other tasks wait again. If `waitingMax` tasks wait already, a new task is
 * rejected.
 */

import { PoolFull } from './pool.ts'

type Waiting<Task, Result> = {
  readonly task: Task
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export function gatherWork<Task, Result>(options: {
  /**
   * Runs all tasks of a batch, or only some tasks at its beginning (at least one). Returns their results in
   * order.
   */
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
      if (results.length === 0)
        throw new Error('the function that runs a batch of tasks returned no result')
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
        reject(new PoolFull('too many tasks wait for the next batch'))
        return
      }
      waiting.push({ task, resolve, reject })
      send()
    })
}
