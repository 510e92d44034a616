/** Starts threads in their workers, links the threads, and restarts workers that die. */

import { MessageChannel, Worker } from 'node:worker_threads'
import { proxy, transfer, wrap } from 'comlink'
import { endpointOf } from './endpoint.ts'
import { makeHeartbeat } from './heartbeat.ts'
import {
  type Host,
  isOptional,
  newHost,
  type RunningWorker,
  type ThreadSpec,
  type WorkerSpec,
} from './host.ts'
import { inTime } from './in-time.ts'
import { ended } from './stop-threads.ts'
import { begunAs, messageOf, type Supervised, setWhy } from './supervised.ts'
import { Unfit, type WorkerControl } from './thread.ts'

export function openWorker(state: Supervised, spec: WorkerSpec): RunningWorker {
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
    state.options.log.error({ thread: spec.name, err: error }, `${spec.name}: ${error.message}`)
  })
  return running
}

async function startHost(state: Supervised, host: Host): Promise<void> {
  const [first] = host.threads
  if (first === undefined) return
  host.phase = 'starting'
  setWhy(host, 'starting')
  const running = state.spares.get(host.name) ?? openWorker(state, { ...first, name: host.name })
  state.spares.delete(host.name)
  host.running = running
  host.missedHealth = 0
  void running.exited.then((code) => {
    if (host.running !== running) return
    host.running = undefined
    const wasReady = host.phase === 'ready'
    host.phase = state.stopping ? 'stopped' : 'restarting'
    setWhy(host, running.crash === '' ? `ended with code ${code}` : running.crash)
    if (host.over !== undefined) drop(state, host, host.whys.get(host.name) ?? '')
    else if (wasReady && !state.stopping) restartLater(state, host)
  })
  const orders = host.threads.map(({ name, kind, data }) => ({ name, kind, data }))
  let unfit = false
  const failure = await inTime(
    Promise.race([
      (running.control.start(proxy(state.api), orders, running.heartbeat) as Promise<void>).then(
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
    state.options.startTimeoutMs,
  )
  if (failure !== '') {
    const why =
      failure ??
      `${host.name} did not start: it was not ready after ${state.options.startTimeoutMs} ms`
    host.phase = 'restarting'
    setWhy(host, why)
    host.running = undefined
    await ended(state, running, host)
    throw unfit ? new Unfit(why) : new Error(why)
  }
  host.phase = 'ready'
  host.readyAtMs = state.options.clock.nowMs()
  setWhy(host, '')
  for (const thread of host.threads) link(state, thread)
}

export function drop(state: Supervised, host: Host, why: string): void {
  if (!state.hosts.includes(host)) return
  state.hosts = state.hosts.filter((each) => each !== host)
  host.over?.resolve(why)
  // Load another spare worker, so that the next start of this thread is quick too.
  const worker = state.stopping ? undefined : state.ahead.find(({ name }) => name === host.name)
  if (worker !== undefined) state.spares.set(host.name, openWorker(state, worker))
}

export async function begin(state: Supervised, name: string): Promise<void> {
  const thread = state.onCall.find((each) => each.name === name)
  if (thread === undefined || state.stopping)
    throw new Error(`this process cannot start the thread ${name}`)
  if (begunAs(state, name) !== undefined) throw new Error(`the thread ${name} is already running`)
  const host = newHost(name, [thread], true)
  // Put the new host first in the list, so that it is stopped after all others.
  state.hosts = [host, ...state.hosts]
  host.starting = startHost(state, host)
  await host.starting.catch((error: unknown) => {
    drop(state, host, messageOf(error))
    throw error
  })
}

/**
 * Starts a host for the first time. If an optional host fails to start, it is retried later, and the other
 * hosts continue. Throws if the host is necessary or cannot run with the settings.
 */
export async function startFirst(state: Supervised, host: Host): Promise<void> {
  host.starting = startHost(state, host)
  try {
    await host.starting
  } catch (error) {
    if (!isOptional(host) || error instanceof Unfit) throw error
    state.options.log.error({ thread: host.name }, messageOf(error))
    if (!state.stopping) restartLater(state, host)
  }
}

/**
 * Creates a channel between the thread and each ready peer that shares a link with it, and gives both ends to their
 * threads.
 */
function link(state: Supervised, thread: ThreadSpec): void {
  for (const host of state.hosts) {
    if (host.phase !== 'ready') continue
    for (const peer of host.threads) {
      if (peer === thread) continue
      if (!thread.links.includes(peer.name) && !peer.links.includes(thread.name)) continue
      const { port1, port2 } = new MessageChannel()
      hand(state, thread, peer.name, port1)
      hand(state, peer, thread.name, port2)
    }
  }
}

export function hand(
  state: Supervised,
  to: ThreadSpec,
  peer: string,
  port: InstanceType<typeof MessageChannel>['port1'],
) {
  // If the worker dies during this call, it is restarted and linked again, so a failure is only logged. The cast is
  // needed because Comlink’s type of a transfer list allows only browser ports.
  const sent = transfer(port, [port as unknown as Transferable])
  const host = state.hosts.find(({ threads }) => threads.includes(to))
  const handed = host?.running?.control.connect(to.name, peer, sent)
  handed?.catch((error: unknown) => {
    state.options.log.warn({ thread: to.name, peer }, `connect failed: ${messageOf(error)}`)
  })
}

function restartLater(state: Supervised, host: Host): void {
  const now = state.options.clock.nowMs()
  const why = host.whys.get(host.threads[0]?.name ?? '')
  host.deaths++
  const delayMs = isOptional(host)
    ? optionalPause(state, host, now)
    : necessaryPause(state, host, now)
  if (delayMs === undefined) {
    host.phase = 'failed'
    const times = host.restartsAtMs.length
    state.options.log.error(
      { thread: host.name },
      `${host.name} was restarted ${times} times and died again: ${why}`,
    )
    state.options.onGivingUp(host.name, why ?? '')
    return
  }
  state.options.log.warn(
    { thread: host.name, delayMs },
    `${host.name} died (${why}); it is started again in ${delayMs} ms`,
  )
  for (const next of hostsAfter(state, host)) {
    next.cancelRestart = state.options.clock.after(delayMs, () => startAgain(state, next))
  }
}

function startAgain(state: Supervised, host: Host): void {
  if (state.stopping) return
  host.starting = startHost(state, host)
  host.starting.then(
    () => state.options.log.info({ thread: host.name }, `${host.name} is back`),
    (error: unknown) => {
      if (state.stopping) return
      if (isOptional(host) || !(error instanceof Unfit)) restartLater(state, host)
      else {
        host.phase = 'failed'
        state.options.onGivingUp(host.name, messageOf(error))
      }
    },
  )
}

/**
 * Returns the pause before a necessary host is restarted; undefined after `restartsMax` restarts within
 * `restartWindowMs`.
 */
function necessaryPause(state: Supervised, host: Host, now: number): number | undefined {
  const recent = host.restartsAtMs.filter((at) => at > now - state.options.restartWindowMs)
  host.restartsAtMs = recent
  if (recent.length >= state.options.restartsMax) return undefined
  host.restartsAtMs = [...recent, now]
  return state.options.restartPauseMs(recent.length)
}

function optionalPause(state: Supervised, host: Host, now: number): number {
  if (now - host.readyAtMs >= state.options.restartWindowMs) host.deathsInRow = 0
  return (state.options.optionalPauseMs ?? state.options.restartPauseMs)(host.deathsInRow++)
}

/**
 * If optional threads share a worker that died more than `restartsMax` times in a row, replaces its host by
 * one host per thread, and returns these hosts. Otherwise returns the host itself.
 */
function hostsAfter(state: Supervised, host: Host): readonly Host[] {
  const { threads, deaths, deathsInRow } = host
  if (!isOptional(host) || threads.length < 2 || deathsInRow <= state.options.restartsMax)
    return [host]
  const own = threads.map((thread) => ({ ...newHost(thread.name, [thread]), deaths }))
  for (const next of own) {
    next.phase = 'restarting'
    setWhy(next, host.whys.get(next.name) ?? '')
  }
  state.hosts = state.hosts.flatMap((each) => (each === host ? own : [each]))
  state.options.log.warn(
    { thread: host.name },
    `each thread of ${host.name} gets a worker of its own`,
  )
  return own
}
