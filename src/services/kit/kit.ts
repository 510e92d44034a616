/**
 * Parts that threads share: log, metrics, timers, a runner for an actor, links to the threads that write, and links to
 * followers.
 */

import type { MessagePort } from 'node:worker_threads'
import { Registry } from 'prom-client'
import { type Log, makeLog } from '#config/logging.ts'
import type { Settings } from '#config/settings-schema.ts'
import { channelOptions, type ThreadData, topologyOf } from '#config/thread-data.ts'
import { marketThreadName, threadOfMarket } from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import { reject } from '#domain/rejection.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { WriteRequests } from '#protocol/projector.ts'
import type { Behaviour, Protocol } from '#runtime/actor.ts'
import { Channel, type Forms } from '#runtime/channel.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Loop } from '#runtime/loop.ts'
import { makeRef, type Ref } from '#runtime/ref.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { Tracer } from '#runtime/trace.ts'
import { type KeyMeters, keyMeters } from './key-metrics.ts'
import { type LinkMeters, linkMeters } from './link-metrics.ts'
import { loopLagMeter } from './loop-lag.ts'
import { makeTracer } from './tracer.ts'
import { workerMeters } from './worker-metrics.ts'
import { realWorld, type World } from './world.ts'

const MAILBOX_MAX = 10_000

export type ThreadContext = World & {
  readonly log: Log
  /** Event loop, for channels and served actors. */
  readonly loop: Loop
  /** Registry of the thread's metrics. */
  readonly registry: Registry
  readonly links: LinkMeters
  readonly keys: KeyMeters
  /** Tracer of the thread; undefined if traces are off. */
  readonly tracer: Tracer | undefined
  metrics(): Promise<object[]>
  /** Calls `act` at this interval until `quiet` is called. */
  every(ms: number, act: () => void): void
  quiet(): void
  /**
   * Runs work in the background. If it fails, the thread ends: the failure is a bug, or another node has taken a role
   * of this thread.
   */
  detach(work: Promise<void>): void
}

/** Makes the context of a thread. Every metric gets a label with the thread's name, and `labels`. */
export function makeThreadContext(
  data: ThreadData,
  world: World = realWorld,
  labels: Readonly<Record<string, string>> = {},
): ThreadContext {
  const registry = new Registry()
  registry.setDefaultLabels({ thread: data.name, ...labels })
  workerMeters(registry)
  const cancels: (() => void)[] = []
  if (world.watchLoop !== undefined) cancels.push(loopLagMeter(registry, world.watchLoop))
  const log = makeLog(data.settings, data.name, data.isTerminal)
  const { clock, monotonicMs, timers, random, crash } = world
  const every = (ms: number, act: () => void) => void cancels.push(timers.every(ms, act))
  return {
    ...{ clock, monotonicMs, timers, random, crash },
    ...{ log, registry, every },
    loop: { soon: timers.soon, every: timers.every, monotonicMs },
    links: linkMeters(registry),
    keys: keyMeters(registry, log),
    tracer:
      world.tracing === undefined
        ? undefined
        : makeTracer(data, { log, registry, every, random }, world.tracing),
    metrics: () => registry.getMetricsAsJSON(),
    quiet() {
      for (const cancel of cancels) cancel()
    },
    detach: (work) => void work.catch(crash),
  }
}

/** Runs an actor without an event log, so that its events are published immediately. */
export function serveActor<State, P extends Protocol, Event = never>(actor: {
  readonly behaviour: Behaviour<State, P, Event>
  readonly state: State
  readonly clock: Clock
  readonly loop: Loop
  readonly say?: (event: Event) => void
  readonly mailboxMax?: number
  readonly batchMax?: number
}): Served {
  const { behaviour, state, clock, loop, say } = actor
  const { mailboxMax = MAILBOX_MAX, batchMax = MAILBOX_MAX } = actor
  return serve<State, P, Event>({
    behaviour,
    select: () => ({ state }),
    clock,
    loop,
    mailboxMax,
    batchMax,
    full: reject('OVERLOADED'),
    say(events) {
      for (const event of events) say?.(event)
    },
  })
}

/** Parts of a thread's context that its channels need. */
type LinkParts = Pick<ThreadContext, 'links' | 'loop'>

/** The threads that write: the store and the market threads. A thread may be linked to only some of them. */
export type Writers = {
  readonly store: Ref<WriteRequests>
  /** Market threads in the order of their numbers. */
  readonly markets: readonly Ref<MarketThreadProtocol>[]
  /** Returns the thread of a market. */
  marketOf(marketId: MarketId): Ref<MarketThreadProtocol>
  /**
   * Accepts the port to a thread that writes; returns `store` or the market thread's reference, and undefined for any
   * other peer.
   */
  take(peer: string, port: MessagePort): 'store' | Ref<MarketThreadProtocol> | undefined
  close(): void
}

/**
 * Links a thread to the store and the market threads. `received` is called with each message that arrives from them;
 * messages may be lost. If a market thread has lost messages from this thread, `missed` is called with that market
 * thread.
 */
export function linkWriters(
  settings: Settings,
  { links, loop }: LinkParts,
  handlers: {
    readonly received?: (type: string, message: unknown) => void
    readonly missed?: (market: Ref<MarketThreadProtocol>) => void
  } = {},
): Writers {
  const topology = topologyOf(settings)
  const store = makeRef<WriteRequests>()
  const markets = Array.from({ length: topology.marketThreads }, () =>
    makeRef<MarketThreadProtocol>(),
  )
  const options = { ...channelOptions(settings), loop }
  const { received = () => {}, missed } = handlers
  return {
    store,
    markets,
    marketOf: (marketId) => markets[threadOfMarket(marketId, topology)]!,
    take(peer, port) {
      if (peer === 'store') {
        const dropped = () => links.dropped(peer)
        store.replace(new Channel(port, options, { received, dropped }))
        return 'store'
      }
      const market = markets.find((_, thread) => marketThreadName(thread) === peer)
      market?.replace(
        new Channel(port, options, {
          received,
          missed: () => missed?.(market),
          dropped: () => links.dropped(peer),
        }),
      )
      return market
    },
    close() {
      for (const ref of [...markets, store]) ref.close()
    },
  }
}

/** Threads that receive events from this thread, and may send requests to it. */
type Followers<P extends Protocol> = {
  /** Adds a follower. `missed` is called after the follower has lost messages from this thread. */
  add(
    peer: string,
    port: MessagePort,
    received: (type: string, message: unknown, replyTo: number, follower: Channel<P>) => void,
    missed?: (follower: Channel<P>) => void,
  ): Channel<P>
  tell<K extends keyof P & string>(type: K, message: P[K]['takes'], bytes?: number): void
  close(): void
}

export function makeFollowers<P extends Protocol>(
  settings: Settings,
  { links, loop }: LinkParts,
  forms: Forms = { requests: [], answers: [] },
): Followers<P> {
  const followers = new Set<Channel<P>>()
  const options = { ...channelOptions(settings), forms, loop }
  return {
    add(peer, port, received, missed) {
      const follower: Channel<P> = new Channel<P>(port, options, {
        received: (type, message, replyTo) => received(type, message, replyTo, follower),
        closed: () => followers.delete(follower),
        missed: () => missed?.(follower),
        dropped: () => links.dropped(peer),
      })
      followers.add(follower)
      return follower
    },
    tell(type, message, bytes) {
      for (const follower of followers) follower.tell(type, message, bytes)
    },
    close() {
      for (const follower of followers) follower.close()
    },
  }
}
