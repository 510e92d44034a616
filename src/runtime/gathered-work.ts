/**
 * Collects tasks into batches, and passes each batch to a function, the runner. While `underWayMax` batches are
 * running, new tasks wait in order for the next batches. The runner may do only the first tasks of a batch, so that no
 * batch keeps a thread busy for long. The remaining tasks wait again. If `waitingMax` tasks are waiting already, a new
 * task is rejected.
 */

import { PoolFull } from './pool.ts'

type Waiting<Task, Result> = {
  readonly task: Task
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export function gatherWork<Task, Result>(options: {
  /**
   * Runs the tasks of a batch from the first one on: all of them, or fewer, but at least one. Returns the results of
   * the tasks that it has run, in order.
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
