/**
 * Starts the threads in the order given, links them, watches them, restarts what dies with a
 * growing pause and a limit, and stops them in the opposite order. It runs on the main thread and
 * carries no traffic: a link is a pair of ports that it makes and hands to both ends.
 *
 * Each thread has a worker of its own, or shares one with others that have the same host. A worker
 * that dies takes its threads and their ports with it, so a caller that waits for their answers is
 * told `closed` at once. When it is back, both ends of each of their links get new ports.
 *
 * A thread on call is started and stopped by another thread, which hears when it ends and decides what then.
 * The file is long because a thread's whole life, from its worker to its end, is one state.
 *
 * A thread is necessary or optional. One that is necessary and cannot be kept alive ends the exchange.
 * One that is optional is started again for as long as the exchange runs, with pauses that grow; also
 * when its first start fails, unless it says that it does not fit its settings. Optional threads that
 * share a worker which dies again and again get one each, so that the one at fault is alone with it.
 * A worker that does not answer is ended, but not one that is only slow: while its heartbeat counts, or while
 * it waits for a core, it goes on (`heartbeat.ts`). One that may not be ended by force is brought to end by
 * itself (`stuck-worker.ts`). If that fails, the supervisor reports it and tries again: a front that hangs never
 * ends the markets.
 *
 * A worker that loads its modules or starts its threads is never ended from outside: Node aborts the
 * whole process when that happens. A stop waits until it has started, or until the time for it is over.
 */

import { MessageChannel, Worker } from 'node:worker_threads'
import { proxy, transfer, wrap } from 'comlink'
import type { Clock } from './clock.ts'
import { endpointOf } from './endpoint.ts'
import { beatsOf, makeHeartbeat } from './heartbeat.ts'
import {
  type Host,
  healthOf,
  hostOf,
  isOptional,
  newHost,
  type RunningWorker,
  type ThreadSpec,
  type WorkerSpec,
} from './host.ts'
import { inTime } from './in-time.ts'
import { endStuck } from './stuck-worker.ts'
import { type Home, type ThreadHealth, Unfit, type WorkerControl } from './thread.ts'

export type SupervisorOptions = {
  readonly clock: Clock
  readonly log: SupervisorLog
  readonly startTimeoutMs: number
  readonly stopTimeoutMs: number
  readonly healthIntervalMs: number
  /** The pause before a necessary thread is started again, by its restarts within `restartWindowMs`. */
  readonly restartPauseMs: (restarts: number) => number
  /** … and an optional one, by its deaths since it was well for `restartWindowMs`; the same if undefined. */
  readonly optionalPauseMs?: (deaths: number) => number
  /**
   * Restarts of a necessary thread within `restartWindowMs` before the supervisor gives up; deaths of
   * optional ones that share a worker before each gets its own.
   */
  readonly restartsMax: number
  readonly restartWindowMs: number
  /** How long metrics are kept for the threads that ask for them; they are collected anew if undefined. */
  readonly metricsKeepMs?: number
  /** The main thread's own metrics, told with those of the threads. */
  readonly ownMetrics?: () => Promise<object[]>
  /** What threads may ask the main thread for, by name. */
  readonly made?: Readonly<Record<string, () => Promise<object>>>
  /** A thread cannot be kept alive: the exchange has to stop. */
  readonly onGivingUp: (thread: string, why: string) => void
}

export type SupervisorLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export type Supervisor = {
  /** Has workers load their modules while something else is waited for; `start` finds them. */
  preload(workers: readonly WorkerSpec[]): void
  /**
   * Starts every thread and resolves when all are ready, or when it was stopped meanwhile. Those on call are
   * started when a thread asks for it.
   */
  start(threads: readonly ThreadSpec[], onCall?: readonly ThreadSpec[]): Promise<void>
  /** Drains and stops every thread; true when all of them ended by themselves in time. */
  stop(): Promise<boolean>
  health(): Record<string, ThreadHealth>
  metrics(): Promise<object[][]>
  /** Ends a thread's worker as a crash would. For the tests of what follows. */
  kill(name: string): Promise<void>
}

/** Health checks in a row that a worker may leave unanswered without a heartbeat. */
const MISSED_HEALTH_MAX = 3
/** The same for a worker that cannot simply be terminated: interrupting it ends all of its connections. */
const MISSED_HEALTH_MAX_STUCK = 6
/** A worker that used hardly any CPU time may be waiting for a core: it is allowed this multiple of the checks. */
const WAITING_TIMES = 2

export function makeSupervisor(options: SupervisorOptions): Supervisor {
  const { clock, log } = options
  let stopping = false
  let stopHealth: () => void = () => {}
  let starting = Promise.resolve()
  let stopped: Promise<boolean> | undefined
  /** In the order in which they are started. */
  let hosts: Host[] = []
  /** Workers that were loaded ahead, by name. */
  const spares = new Map<string, RunningWorker>()
  let ahead: readonly WorkerSpec[] = []
  const made = async (name: string): Promise<object> => (await options.made?.[name]?.()) ?? {}
  let onCall: readonly ThreadSpec[] = []
  const home: Home = {
    ...{ threads: () => healthOf(hosts), metrics: keptMetrics, made, begin },
    ended: async (name) => (await begunAs(name)?.over?.promise) ?? 'it does not run',
    async drain(name) {
      const host = begunAs(name)
      if (host === undefined) return
      await host.starting.catch(() => {})
      host.phase = 'stopped'
      const drained = (host.running?.control.drain() as Promise<void> | undefined)?.catch(() => {})
      // One that dies meanwhile answers nothing any more, and is drained too.
      await inTime(Promise.race([drained, host.running?.exited]), options.stopTimeoutMs)
    },
    async end(name) {
      const host = begunAs(name)
      if (host === undefined) return
      await host.starting.catch(() => {})
      host.phase = 'stopped'
      if (!(await stopHost(host))) throw new Error(`${name} did not stop`)
      drop(host, 'it was ended')
    },
    begun: () => hosts.filter(({ over }) => over !== undefined).map(({ name }) => name),
    connect(thread, peer, port) {
      const host = hosts.find(({ threads, phase }) => {
        return phase === 'ready' && threads.some(({ name }) => name === thread)
      })
      const spec = host?.threads.find(({ name }) => name === thread)
      if (spec === undefined) port.close()
      else hand(spec, peer, port)
      return spec !== undefined
    },
  }
  let collected: { readonly atMs: number; readonly metrics: Promise<object[][]> } | undefined

  function openWorker(spec: WorkerSpec): RunningWorker {
    const worker = new Worker(spec.entry, {
      name: spec.name,
      ...(spec.youngMb !== undefined && {
        resourceLimits: { maxYoungGenerationSizeMb: spec.youngMb },
      }),
    })
    const running: RunningWorker = {
      worker,
      control: wrap<WorkerControl>(endpointOf(worker)),
      exited: new Promise((resolve) => worker.once('exit', resolve)),
      heartbeat: makeHeartbeat(),
      beats: 0,
      cpuMsAtBeat: 0,
      crash: '',
      metrics: undefined,
    }
    worker.on('error', (error: Error) => {
      running.crash = error.message
      log.error({ thread: spec.name, err: error }, `${spec.name}: ${error.message}`)
    })
    return running
  }

  function setWhy(host: Host, why: string): void {
    for (const { name } of host.threads) host.whys.set(name, why)
  }

  async function startHost(host: Host): Promise<void> {
    const [first] = host.threads
    if (first === undefined) return
    host.phase = 'starting'
    setWhy(host, 'starting')
    const running = spares.get(host.name) ?? openWorker({ ...first, name: host.name })
    spares.delete(host.name)
    host.running = running
    host.missedHealth = 0
    void running.exited.then((code) => {
      if (host.running !== running) return
      host.running = undefined
      const wasReady = host.phase === 'ready'
      host.phase = stopping ? 'stopped' : 'restarting'
      setWhy(host, running.crash === '' ? `ended with code ${code}` : running.crash)
      if (host.over !== undefined) drop(host, host.whys.get(host.name) ?? '')
      else if (wasReady && !stopping) restartLater(host)
    })
    const orders = host.threads.map(({ name, kind, data }) => ({ name, kind, data }))
    let unfit = false
    const failure = await inTime(
      Promise.race([
        (running.control.start(proxy(home), orders, running.heartbeat) as Promise<void>).then(
          () => '',
          (error: unknown) => {
            unfit = error instanceof Error && error.name === Unfit.name
            return messageOf(error)
          },
        ),
        running.exited.then((code) => {
          const how = running.crash || `ended with code ${code} while starting`
          return `${host.name} did not start: ${how}`
        }),
      ]),
      options.startTimeoutMs,
    )
    if (failure !== '') {
      const why =
        failure ?? `${host.name} did not start: was not ready after ${options.startTimeoutMs} ms`
      host.phase = 'restarting'
      setWhy(host, why)
      host.running = undefined
      await ended(running, host)
      throw unfit ? new Unfit(why) : new Error(why)
    }
    host.phase = 'ready'
    host.readyAtMs = clock.nowMs()
    setWhy(host, '')
    for (const thread of host.threads) link(thread)
  }

  function begunAs(name: string): Host | undefined {
    return hosts.find((host) => host.over !== undefined && host.name === name)
  }

  function drop(host: Host, why: string): void {
    if (!hosts.includes(host)) return
    hosts = hosts.filter((each) => each !== host)
    host.over?.resolve(why)
    // It may be called for again, and should be as quick as the first time.
    const worker = stopping ? undefined : ahead.find(({ name }) => name === host.name)
    if (worker !== undefined) spares.set(host.name, openWorker(worker))
  }

  async function begin(name: string): Promise<void> {
    const thread = onCall.find((each) => each.name === name)
    if (thread === undefined || stopping) throw new Error(`${name} cannot be started here`)
    if (begunAs(name) !== undefined) throw new Error(`${name} runs already`)
    const host = newHost(name, [thread], true)
    // What was there before it is stopped before it.
    hosts = [host, ...hosts]
    host.starting = startHost(host)
    await host.starting.catch((error: unknown) => {
      drop(host, messageOf(error))
      throw error
    })
  }

  /** The first start. What is wrong with an optional part keeps the others from nothing. */
  async function startFirst(host: Host): Promise<void> {
    host.starting = startHost(host)
    try {
      await host.starting
    } catch (error) {
      if (!isOptional(host) || error instanceof Unfit) throw error
      log.error({ thread: host.name }, messageOf(error))
      if (!stopping) restartLater(host)
    }
  }

  /** Gives the thread and each ready peer that shares a link with it the two ends of a new channel. */
  function link(thread: ThreadSpec): void {
    for (const host of hosts) {
      if (host.phase !== 'ready') continue
      for (const peer of host.threads) {
        if (peer === thread) continue
        if (!thread.links.includes(peer.name) && !peer.links.includes(thread.name)) continue
        const { port1, port2 } = new MessageChannel()
        hand(thread, peer.name, port1)
        hand(peer, thread.name, port2)
      }
    }
  }

  function hand(to: ThreadSpec, peer: string, port: InstanceType<typeof MessageChannel>['port1']) {
    // A worker that dies during this call is restarted and linked anew, so its failure is only told.
    // Comlink's type of a transfer list knows the browser's ports only.
    const sent = transfer(port, [port as unknown as Transferable])
    const host = hosts.find(({ threads }) => threads.includes(to))
    const handed = host?.running?.control.connect(to.name, peer, sent)
    handed?.catch((error: unknown) => {
      log.warn({ thread: to.name, peer }, `connect failed: ${messageOf(error)}`)
    })
  }

  function restartLater(host: Host): void {
    const now = clock.nowMs()
    const why = host.whys.get(host.threads[0]?.name ?? '')
    host.deaths++
    const delayMs = isOptional(host) ? optionalPause(host, now) : necessaryPause(host, now)
    if (delayMs === undefined) {
      host.phase = 'failed'
      const times = host.restartsAtMs.length
      log.error(
        { thread: host.name },
        `${host.name} was restarted ${times} times and died again: ${why}`,
      )
      options.onGivingUp(host.name, why ?? '')
      return
    }
    log.warn(
      { thread: host.name, delayMs },
      `${host.name} died (${why}); it is started again in ${delayMs} ms`,
    )
    for (const next of hostsAfter(host)) {
      next.cancelRestart = clock.after(delayMs, () => startAgain(next))
    }
  }

  function startAgain(host: Host): void {
    if (stopping) return
    host.starting = startHost(host)
    host.starting.then(
      () => log.info({ thread: host.name }, `${host.name} is back`),
      (error: unknown) => {
        if (stopping) return
        if (isOptional(host) || !(error instanceof Unfit)) restartLater(host)
        else {
          host.phase = 'failed'
          options.onGivingUp(host.name, messageOf(error))
        }
      },
    )
  }

  /** Undefined when it has been started again too often. */
  function necessaryPause(host: Host, now: number): number | undefined {
    const recent = host.restartsAtMs.filter((at) => at > now - options.restartWindowMs)
    host.restartsAtMs = recent
    if (recent.length >= options.restartsMax) return undefined
    host.restartsAtMs = [...recent, now]
    return options.restartPauseMs(recent.length)
  }

  function optionalPause(host: Host, now: number): number {
    if (now - host.readyAtMs >= options.restartWindowMs) host.deathsInRow = 0
    return (options.optionalPauseMs ?? options.restartPauseMs)(host.deathsInRow++)
  }

  /** The host itself; or one for each of its threads, when they share a worker that does not stay alive. */
  function hostsAfter(host: Host): readonly Host[] {
    const { threads, deaths, deathsInRow } = host
    if (!isOptional(host) || threads.length < 2 || deathsInRow <= options.restartsMax) return [host]
    const own = threads.map((thread) => ({ ...newHost(thread.name, [thread]), deaths }))
    for (const next of own) {
      next.phase = 'restarting'
      setWhy(next, host.whys.get(next.name) ?? '')
    }
    hosts = hosts.flatMap((each) => (each === host ? own : [each]))
    log.warn({ thread: host.name }, `each thread of ${host.name} gets a worker of its own`)
    return own
  }

  /** Waits for a worker that is about to end; one that does not end in time is ended by force. */
  async function ended(
    running: RunningWorker,
    host: Host,
    withinMs = options.stopTimeoutMs,
  ): Promise<boolean> {
    const code = await inTime(running.exited, withinMs)
    if (code !== undefined) return true
    log.error({ thread: host.name }, `${host.name} did not stop in time`)
    if (host.threads.every(({ terminable }) => terminable)) await running.worker.terminate()
    return false
  }

  async function checkHealth(): Promise<void> {
    for (const host of hosts) {
      const { running } = host
      if (host.phase !== 'ready' || running === undefined || host.isEnding) continue
      const answer = await inTime(
        (running.control.health() as Promise<Record<string, string>>).catch(messageOf),
        options.healthIntervalMs,
      )
      if (host.running !== running) continue
      const isBeating = beatsOf(running.heartbeat) !== running.beats
      running.beats = beatsOf(running.heartbeat)
      const cpuMs = await cpuMsOf(running.worker, options.healthIntervalMs)
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
      // A busy worker continues, however long it takes to answer.
      host.missedHealth = isBeating ? 0 : host.missedHealth + 1
      const why = isBeating
        ? 'is too busy to answer'
        : `has not answered ${host.missedHealth} health checks`
      setWhy(host, why)
      log.warn({ thread: host.name }, `${host.name} ${why}`)
      const isTerminable = host.threads.every((thread) => thread.terminable)
      const missedMax = isTerminable ? MISSED_HEALTH_MAX : MISSED_HEALTH_MAX_STUCK
      if (!isStuck(host.missedHealth, cpuMs - running.cpuMsAtBeat, missedMax)) continue
      if (isTerminable) await running.worker.terminate()
      else void end(host, running)
    }
  }

  /** True if a worker without a heartbeat has run for long, or has had no core for very long. */
  function isStuck(missed: number, cpuMs: number, missedMax: number): boolean {
    const hasRun = cpuMs >= (missedMax * options.healthIntervalMs) / 2
    return missed >= missedMax && (hasRun || missed >= WAITING_TIMES * missedMax)
  }

  /**
   * Interrupts a stuck worker that may not be terminated, and makes it stop by itself. If it cannot be ended, the
   * other threads go on without it, and the next health check tries again.
   */
  async function end(host: Host, running: RunningWorker): Promise<void> {
    if (host.isEnding || stopping) return
    host.isEnding = true
    log.error({ thread: host.name }, `${host.name} hangs: what it is stuck in is broken off`)
    const result = await endStuck(
      running,
      () => askToStop(host, running),
      options.stopTimeoutMs,
    ).catch((error: unknown) => {
      log.error({ thread: host.name }, messageOf(error))
      return 'stuck' as const
    })
    host.isEnding = false
    if (stopping || result === 'ended') return
    if (result === 'turns') {
      log.warn({ thread: host.name }, `${host.name} goes on: it was busy`)
      return
    }
    log.error(
      { thread: host.name },
      `${host.name} hangs and cannot be ended: the other threads go on, and it is tried again`,
    )
  }

  function planHealthCheck(): void {
    stopHealth = clock.after(options.healthIntervalMs, () => {
      void checkHealth().then(() => {
        if (!stopping) planHealthCheck()
      })
    })
  }

  async function metrics(): Promise<object[][]> {
    const own = options.ownMetrics === undefined ? [] : [options.ownMetrics()]
    const asked = hosts.map(async ({ running }) => {
      if (running === undefined) return []
      // One that has not answered yet is not asked again: its port would only fill. One that dies tells nothing.
      const gone = running.exited.then(() => undefined)
      running.metrics ??= Promise.race([running.control.metrics() as Promise<object[][]>, gone])
        .catch(() => undefined)
        .finally(() => {
          running.metrics = undefined
        })
      return (await inTime(running.metrics, options.healthIntervalMs)) ?? []
    })
    return [...(await Promise.all(own)), ...(await Promise.all(asked)).flat()]
  }

  /** However many fronts are asked for metrics, the threads collect them once in a while. */
  function keptMetrics(): Promise<object[][]> {
    const atMs = performance.now()
    if (collected === undefined || atMs - collected.atMs >= (options.metricsKeepMs ?? 0)) {
      collected = { atMs, metrics: metrics() }
    }
    return collected.metrics
  }

  async function stopHost(host: Host, withinMs?: number): Promise<boolean> {
    host.cancelRestart()
    const { running } = host
    if (running === undefined) return true
    askToStop(host, running)
    return ended(running, host, withinMs)
  }

  /** A worker that dies while it stops never answers these calls, but it has ended. */
  function askToStop({ name }: Host, { control }: RunningWorker): void {
    void (async () => {
      await control.drain()
      await control.stop()
    })().catch((error: unknown) => {
      log.error({ thread: name }, `${name} did not stop: ${messageOf(error)}`)
    })
  }

  async function stopAll(): Promise<boolean> {
    stopping = true
    stopHealth()
    // What is just starting cannot be told to stop; the caller that started it hears a failure.
    await starting.catch(() => {})
    let clean = true
    for (const host of hosts.toReversed()) {
      await host.starting.catch(() => {})
      clean = (await stopHost(host)) && clean
    }
    for (const [name, running] of spares) {
      // It hears of the stop when it has loaded, which is the first part of its start and takes its time.
      clean = (await stopHost({ ...newHost(name, []), running }, options.startTimeoutMs)) && clean
    }
    return clean
  }

  return {
    preload(workers) {
      ahead = workers
      for (const worker of workers) spares.set(worker.name, openWorker(worker))
    },
    start(threads, called = []) {
      onCall = called
      const names = new Set(threads.map(hostOf))
      hosts = [...names].map((name) =>
        newHost(
          name,
          threads.filter((thread) => hostOf(thread) === name),
        ),
      )
      starting = (async () => {
        for (const host of hosts) {
          if (stopping) return
          await startFirst(host)
        }
        if (!stopping) planHealthCheck()
      })()
      return starting
    },
    stop() {
      stopped ??= stopAll()
      return stopped
    },
    health: () => healthOf(hosts),
    metrics,
    async kill(name) {
      for (const host of hosts) {
        if (host.whys.has(name)) await host.running?.worker.terminate()
      }
    },
  }
}

/** The CPU time of the worker's thread; NaN if that cannot be told, as while it is in native code. */
async function cpuMsOf(worker: Worker, withinMs: number): Promise<number> {
  const usage = await inTime(
    worker.cpuUsage().catch(() => undefined),
    withinMs,
  )
  return usage === undefined ? Number.NaN : (usage.user + usage.system) / 1_000
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
