/**
 * Starts the threads in the order given, links them, watches them, restarts what dies with a
 * growing pause and a limit, and stops them in the opposite order. It runs on the main thread and
 * carries no traffic: a link is a pair of ports that it makes and hands to both ends.
 *
 * A thread that dies takes its ports with it, so whoever waits for its answers is told `closed` at
 * once. When it is back, both ends of each of its links get new ports.
 */

import { MessageChannel, Worker } from 'node:worker_threads'
import { proxy, type Remote, transfer, wrap } from 'comlink'
import type { Clock } from './clock.ts'
import { endpointOf } from './endpoint.ts'
import type { Home, ThreadControl, ThreadHealth } from './thread.ts'

export type ThreadSpec = {
  readonly name: string
  readonly entry: URL
  /** Plain data for the worker: its settings and its name. */
  readonly data: object
  /** The names of the threads it shares a channel with. */
  readonly links: readonly string[]
  /**
   * Whether a thread that no longer answers may be ended by force. A thread with an open
   * uWebSockets.js app may not: that would abort the whole process.
   */
  readonly terminable: boolean
  /** How much memory new objects may take before they are collected; the usual if undefined. */
  readonly youngMb?: number
}

export type SupervisorOptions = {
  readonly specs: readonly ThreadSpec[]
  readonly clock: Clock
  readonly log: SupervisorLog
  readonly startTimeoutMs: number
  readonly stopTimeoutMs: number
  readonly healthIntervalMs: number
  readonly restartBackoffMs: number
  readonly restartBackoffMsMax: number
  /** Restarts of one thread within `restartWindowMs` before the supervisor gives up. */
  readonly restartsMax: number
  readonly restartWindowMs: number
  /** The main thread's own metrics, told with those of the threads. */
  readonly ownMetrics?: () => Promise<object[]>
  /** A thread cannot be kept alive: the exchange has to stop. */
  readonly onGivingUp: (thread: string, why: string) => void
}

export type SupervisorLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export type Supervisor = {
  /** Starts every thread and resolves when all are ready, or when it was stopped meanwhile. */
  start(): Promise<void>
  /** Drains and stops every thread; true when all of them ended by themselves in time. */
  stop(): Promise<boolean>
  health(): Record<string, ThreadHealth>
  metrics(): Promise<object[][]>
  /** Ends a thread as a crash would. For the tests of what follows. */
  kill(name: string): Promise<void>
}

type Phase = 'stopped' | 'starting' | 'ready' | 'restarting' | 'failed'

type Supervised = {
  readonly spec: ThreadSpec
  phase: Phase
  why: string
  worker: Worker | undefined
  control: Remote<ThreadControl> | undefined
  exited: Promise<number>
  restartsAtMs: number[]
  missedHealth: number
}

/** How many health checks in a row a thread may leave unanswered. */
const MISSED_HEALTH_MAX = 3

export function makeSupervisor(options: SupervisorOptions): Supervisor {
  const { clock, log } = options
  let stopping = false
  let stopHealth: () => void = () => {}
  let starting = Promise.resolve()
  const threads = new Map<string, Supervised>()
  for (const spec of options.specs) {
    threads.set(spec.name, {
      spec,
      phase: 'stopped',
      why: 'not started',
      worker: undefined,
      control: undefined,
      exited: Promise.resolve(0),
      restartsAtMs: [],
      missedHealth: 0,
    })
  }

  const home: Home = { threads: health, metrics }

  async function startThread(thread: Supervised): Promise<void> {
    const { spec } = thread
    thread.phase = 'starting'
    thread.why = 'starting'
    const worker = new Worker(spec.entry, {
      workerData: spec.data,
      name: spec.name,
      ...(spec.youngMb !== undefined && {
        resourceLimits: { maxYoungGenerationSizeMb: spec.youngMb },
      }),
    })
    const control = wrap<ThreadControl>(endpointOf(worker))
    thread.worker = worker
    thread.control = control
    thread.missedHealth = 0
    let crash = ''
    worker.on('error', (error: Error) => {
      crash = error.message
      log.error({ thread: spec.name, err: error }, `${spec.name}: ${error.message}`)
    })
    thread.exited = new Promise((resolve) => worker.once('exit', resolve))
    void thread.exited.then((code) => {
      if (thread.worker !== worker) return
      thread.worker = undefined
      thread.control = undefined
      const wasReady = thread.phase === 'ready'
      if (stopping) {
        thread.phase = 'stopped'
        return
      }
      thread.phase = 'restarting'
      thread.why = crash === '' ? `ended with code ${code}` : crash
      if (wasReady) restartLater(thread)
    })
    const started = await inTime(
      Promise.race([
        (control.start(proxy(home)) as Promise<void>).then(
          () => '',
          (error: unknown) => messageOf(error),
        ),
        thread.exited.then((code) => crash || `ended with code ${code} while starting`),
      ]),
      options.startTimeoutMs,
    )
    if (started !== '') {
      const why = started ?? `was not ready after ${options.startTimeoutMs} ms`
      thread.phase = 'restarting'
      thread.why = why
      await endByForce(thread)
      throw new Error(`${spec.name} did not start: ${why}`)
    }
    thread.phase = 'ready'
    thread.why = ''
    link(thread)
  }

  /** Gives the thread and each ready peer that shares a link with it the two ends of a new channel. */
  function link(thread: Supervised): void {
    for (const peer of threads.values()) {
      if (peer === thread || peer.phase !== 'ready') continue
      const linked =
        thread.spec.links.includes(peer.spec.name) || peer.spec.links.includes(thread.spec.name)
      if (!linked) continue
      const { port1, port2 } = new MessageChannel()
      hand(thread, peer.spec.name, port1)
      hand(peer, thread.spec.name, port2)
    }
  }

  function hand(to: Supervised, peer: string, port: InstanceType<typeof MessageChannel>['port1']) {
    // A thread that dies during this call is restarted and linked anew, so its failure is only told.
    // Comlink's type of a transfer list knows the browser's ports only.
    const handed = to.control?.connect(peer, transfer(port, [port as unknown as Transferable]))
    handed?.catch((error: unknown) => {
      log.warn({ thread: to.spec.name, peer }, `connect failed: ${messageOf(error)}`)
    })
  }

  function restartLater(thread: Supervised): void {
    const now = clock.nowMs()
    const recent = thread.restartsAtMs.filter((at) => at > now - options.restartWindowMs)
    if (recent.length >= options.restartsMax) {
      thread.phase = 'failed'
      log.error(
        { thread: thread.spec.name },
        `${thread.spec.name} was restarted ${recent.length} times and died again: ${thread.why}`,
      )
      options.onGivingUp(thread.spec.name, thread.why)
      return
    }
    thread.restartsAtMs = [...recent, now]
    const delayMs = Math.min(
      options.restartBackoffMsMax,
      options.restartBackoffMs * 2 ** recent.length,
    )
    log.warn(
      { thread: thread.spec.name, delayMs },
      `${thread.spec.name} died (${thread.why}); it is started again in ${delayMs} ms`,
    )
    clock.after(delayMs, () => {
      if (stopping) return
      startThread(thread).then(
        () => log.info({ thread: thread.spec.name }, `${thread.spec.name} is back`),
        () => {
          if (!stopping) restartLater(thread)
        },
      )
    })
  }

  async function endByForce(thread: Supervised): Promise<void> {
    const worker = thread.worker
    thread.worker = undefined
    thread.control = undefined
    if (worker !== undefined && thread.spec.terminable) await worker.terminate()
  }

  async function checkHealth(): Promise<void> {
    for (const thread of threads.values()) {
      if (thread.phase !== 'ready' || thread.control === undefined) continue
      const control = thread.control
      const answer = await inTime(
        (control.health() as Promise<string>).catch(messageOf),
        options.healthIntervalMs,
      )
      if (thread.control !== control) continue
      if (answer !== undefined) {
        thread.missedHealth = 0
        thread.why = answer
        continue
      }
      thread.missedHealth++
      thread.why = `has not answered ${thread.missedHealth} health checks`
      log.warn({ thread: thread.spec.name }, `${thread.spec.name} ${thread.why}`)
      if (thread.missedHealth >= MISSED_HEALTH_MAX && thread.spec.terminable) {
        await thread.worker?.terminate()
      }
    }
  }

  function planHealthCheck(): void {
    stopHealth = clock.after(options.healthIntervalMs, () => {
      void checkHealth().then(() => {
        if (!stopping) planHealthCheck()
      })
    })
  }

  function health(): Record<string, ThreadHealth> {
    const all: Record<string, ThreadHealth> = {}
    for (const { spec, phase, why } of threads.values()) {
      all[spec.name] = { ready: phase === 'ready' && why === '', why: why || phase }
    }
    return all
  }

  async function metrics(): Promise<object[][]> {
    const answers = [...threads.values()].map(async ({ control }) => {
      if (control === undefined) return undefined
      const asked = (control.metrics() as Promise<object[]>).catch(() => undefined)
      return inTime(asked, options.healthIntervalMs)
    })
    const own = options.ownMetrics === undefined ? [] : [options.ownMetrics()]
    return (await Promise.all([...own, ...answers])).filter((answer) => answer !== undefined)
  }

  async function stopThread(thread: Supervised): Promise<boolean> {
    const { control, worker } = thread
    if (control === undefined || worker === undefined) return true
    const ended = inTime(
      (async () => {
        await control.drain()
        await control.stop()
        await thread.exited
        return true
      })().catch((error: unknown) => {
        log.error(
          { thread: thread.spec.name },
          `${thread.spec.name} did not stop: ${messageOf(error)}`,
        )
        return false
      }),
      options.stopTimeoutMs,
    )
    // A thread that dies while it stops never answers the call, but it has ended.
    const clean = await Promise.race([ended, thread.exited.then(() => true)])
    if (clean !== true) {
      log.error({ thread: thread.spec.name }, `${thread.spec.name} did not stop in time`)
      await endByForce(thread)
      return false
    }
    return true
  }

  return {
    start() {
      starting = (async () => {
        for (const thread of threads.values()) {
          if (stopping) return
          await startThread(thread)
        }
        if (!stopping) planHealthCheck()
      })()
      return starting
    },
    async stop() {
      stopping = true
      stopHealth()
      // A thread that is just starting cannot be told to stop; whoever started it hears a failure.
      await starting.catch(() => {})
      let clean = true
      for (const thread of [...threads.values()].reverse()) {
        clean = (await stopThread(thread)) && clean
      }
      return clean
    },
    health,
    metrics,
    async kill(name) {
      await threads.get(name)?.worker?.terminate()
    },
  }
}

/** The promise's value, or undefined when it takes longer. */
async function inTime<T>(promise: Promise<T>, timeoutMs: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), timeoutMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
