/** Checks the health of every worker, and ends workers that hang. */

import type { Worker } from 'node:worker_threads'
import { beatsOf } from './heartbeat.ts'
import type { Host, RunningWorker } from './host.ts'
import { inTime } from './in-time.ts'
import { askToStop } from './stop-threads.ts'
import { endStuck } from './stuck-worker.ts'
import { messageOf, type Supervised, setWhy } from './supervised.ts'

/** Number of consecutive unanswered health checks after which a worker is terminated, if its heartbeat has stopped. */
const MISSED_HEALTH_MAX = 3
/**
 * Number of consecutive unanswered health checks after which a worker that must not be terminated is interrupted. The
 * number is higher than for other workers, because an interruption ends all of the worker's connections.
 */
const MISSED_HEALTH_MAX_STUCK = 6
/**
 * A worker that used hardly any CPU time may be waiting for a core. The maximum number of its missed health checks is
 * then this many times as high.
 */
const WAITING_TIMES = 2

export function planHealthCheck(state: Supervised): void {
  state.stopHealth = state.options.clock.after(state.options.healthIntervalMs, () => {
    void checkHealth(state).then(() => {
      if (!state.stopping) planHealthCheck(state)
    })
  })
}

async function checkHealth(state: Supervised): Promise<void> {
  for (const host of state.hosts) {
    const { running } = host
    if (host.phase !== 'ready' || running === undefined || host.isEnding) continue
    const answer = await inTime(
      (running.control.health() as Promise<Record<string, string>>).catch(messageOf),
      state.options.healthIntervalMs,
    )
    if (host.running !== running) continue
    const isBeating = beatsOf(running.heartbeat) !== running.beats
    running.beats = beatsOf(running.heartbeat)
    const cpuMs = await cpuMsOf(running.worker, state.options.healthIntervalMs)
    if (host.running !== running) continue
    if (isBeating || answer !== undefined) running.cpuMsAtBeat = cpuMs
    if (typeof answer === 'string') setWhy(host, answer)
    if (answer !== undefined) {
      host.missedHealth = 0
      if (typeof answer === 'object') {
        for (const [name, why] of Object.entries(answer)) host.whys.set(name, why)
      }
      continue
    }
    // If the heartbeat still increases, the worker is busy and not stuck. It may then take as long as it needs to
    // answer.
    host.missedHealth = isBeating ? 0 : host.missedHealth + 1
    const why = isBeating
      ? 'is too busy to answer'
      : `has not answered ${host.missedHealth} health checks`
    setWhy(host, why)
    state.options.log.warn({ thread: host.name }, `${host.name} ${why}`)
    const isTerminable = host.threads.every((thread) => thread.terminable)
    const missedMax = isTerminable ? MISSED_HEALTH_MAX : MISSED_HEALTH_MAX_STUCK
    if (!isStuck(state, host.missedHealth, cpuMs - running.cpuMsAtBeat, missedMax)) continue
    if (isTerminable) await running.worker.terminate()
    else void end(state, host, running)
  }
}

/**
 * Returns whether a worker is stuck: without a heartbeat, it has missed at least `missedMax` health checks in a row. If
 * the worker used hardly any CPU time, it may be waiting for a core. The limit is then `WAITING_TIMES` times as high.
 */
function isStuck(state: Supervised, missed: number, cpuMs: number, missedMax: number): boolean {
  const hasRun = cpuMs >= (missedMax * state.options.healthIntervalMs) / 2
  return missed >= missedMax && (hasRun || missed >= WAITING_TIMES * missedMax)
}

/**
 * Interrupts the current work of a stuck worker that must not be terminated, so that the worker stops on its own. If
 * the worker does not stop, the other threads continue without it, and a later health check tries again.
 */
async function end(state: Supervised, host: Host, running: RunningWorker): Promise<void> {
  if (host.isEnding || state.stopping) return
  host.isEnding = true
  state.options.log.error(
    { thread: host.name },
    `${host.name} hangs: its current work is interrupted`,
  )
  const result = await endStuck(
    running,
    () => askToStop(state, host, running),
    state.options.stopTimeoutMs,
  ).catch((error: unknown) => {
    state.options.log.error({ thread: host.name }, messageOf(error))
    return 'stuck' as const
  })
  host.isEnding = false
  if (state.stopping || result === 'ended') return
  if (result === 'turns') {
    state.options.log.warn({ thread: host.name }, `${host.name} continues: it was only busy`)
    return
  }
  state.options.log.error(
    { thread: host.name },
    `${host.name} hangs and cannot be ended; the other threads continue, and ending it is retried`,
  )
}

/** Returns the CPU time of the worker's thread; NaN if unavailable, for example while the thread runs native code. */
async function cpuMsOf(worker: Worker, withinMs: number): Promise<number> {
  const usage = await inTime(
    worker.cpuUsage().catch(() => undefined),
    withinMs,
  )
  return usage === undefined ? Number.NaN : (usage.user + usage.system) / 1_000
}
