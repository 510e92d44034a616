/** Stops threads: they drain and end on their own, or are terminated after a timeout. */

import { type Host, newHost, type RunningWorker } from './host.ts'
import { inTime } from './in-time.ts'
import { messageOf, type Supervised } from './supervised.ts'

/**
 * Waits for a worker that is about to end; returns whether it ended before the timeout. After the timeout,
 * terminates the worker if all of its threads may be terminated.
 */
export async function ended(
  state: Supervised,
  running: RunningWorker,
  host: Host,
  withinMs = state.options.stopTimeoutMs,
): Promise<boolean> {
  const code = await inTime(running.exited, withinMs)
  if (code !== undefined) return true
  state.options.log.error({ thread: host.name }, `${host.name} did not stop in time`)
  if (host.threads.every(({ terminable }) => terminable)) await running.worker.terminate()
  return false
}

export async function stopHost(state: Supervised, host: Host, withinMs?: number): Promise<boolean> {
  host.cancelRestart()
  const { running } = host
  if (running === undefined) return true
  askToStop(state, host, running)
  return ended(state, running, host, withinMs)
}

/**
 * Asks a worker to drain and stop its threads, and returns without waiting for the answer: a worker that dies meanwhile
 * never answers.
 */
export function askToStop(state: Supervised, { name }: Host, { control }: RunningWorker): void {
  void (async () => {
    await control.drain()
    await control.stop()
  })().catch((error: unknown) => {
    state.options.log.error({ thread: name }, `${name} did not stop: ${messageOf(error)}`)
  })
}

export async function stopAll(state: Supervised): Promise<boolean> {
  state.stopping = true
  state.stopHealth()
  // Wait for the start, because a thread cannot be stopped while it starts. If the start fails, the caller of `start`
  // receives the error.
  await state.starting.catch(() => {})
  let clean = true
  for (const host of state.hosts.toReversed()) {
    await host.starting.catch(() => {})
    clean = (await stopHost(state, host)) && clean
  }
  for (const [name, running] of state.spares) {
    // Wait for up to the start timeout. If a worker is still loading its modules, it handles the stop request only
    // afterwards.
    clean =
      (await stopHost(state, { ...newHost(name, []), running }, state.options.startTimeoutMs)) &&
      clean
  }
  return clean
}
