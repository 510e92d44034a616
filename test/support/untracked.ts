/**
 * Stops the test runner from tracking every promise of a test file. In files with many promises, tracking takes a third
 * of the time. The runner tracks promises only to assign uncaught errors to tests. Without tracking, an uncaught error
 * still fails its file.
 *
 * This file notifies the runner whenever a test or a suite begins, so that the runner still knows which code belongs to
 * which test. If several files share a process (`several-files.ts`), promises are tracked while a file is loaded.
 * `run-tests.ts` imports this file before a test file. If a version of the runner tracks promises in another way, this
 * file leaves the tracking on.
 */

import { AsyncResource, createHook } from 'node:async_hooks'
import { isMainThread } from 'node:worker_threads'

type Follow = (asyncId: number, type: string, trigger: number, resource: object) => void

let follow: () => void = () => {}
let unfollow: () => void = () => {}

/** Lets the runner track the promises of `work`, so that the runner knows the tests that `work` declares. */
export async function followed(work: () => Promise<unknown>): Promise<void> {
  follow()
  try {
    await work()
  } finally {
    unfollow()
  }
}

if (isMainThread) {
  let followTests: Follow | undefined
  const hooks = Object.getPrototypeOf(createHook({})) as ReturnType<typeof createHook>
  const { enable } = hooks
  hooks.enable = function () {
    const [name] = Object.getOwnPropertySymbols(this).filter(
      ({ description }) => description === 'init',
    )
    const init = name && (this as unknown as Record<symbol, Follow | undefined>)[name]
    if (!String(init).includes('testResources')) return enable.call(this)
    followTests = init
    follow = () => enable.call(this)
    unfollow = () => this.disable()
    // The runner reports only the message of an uncaught error, so the whole error is printed here.
    process.on('unhandledRejection', (error) => console.error(error))
    process.on('uncaughtExceptionMonitor', (error) => console.error(error))
    return this
  }
  const resources = AsyncResource.prototype
  const { runInAsyncScope } = resources
  resources.runInAsyncScope = function (act, self, ...args) {
    followTests?.(this.asyncId(), '', 0, this)
    return runInAsyncScope.call(this, act as never, self, ...args) as never
  }
  // Removes this file from `process.execArgv`, so that processes which a test file starts with the same flags
  // are not affected.
  const own = process.execArgv.findIndex((each) => each.endsWith('/untracked.ts'))
  if (own > 0) process.execArgv.splice(own - 1, 2)
}
