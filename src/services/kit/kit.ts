/**
 * What threads are put together with, besides their own adapters and actors: a log, metrics and timers;
 * the actor on its own; the links to the threads that write, and those of the threads that follow.
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
import { makeRef, type Ref } from '#runtime/ref.ts'
import { type Served, serve } from '#runtime/serve.ts'
import { type LinkMeters, linkMeters } from './link-metrics.ts'
import { workerMeters } from './worker-metrics.ts'
import { realWorld, type World } from './world.ts'

const MAILBOX_MAX = 10_000

export type Kit = World & {
  readonly log: Log
  /** Where the thread's meters are registered. */
  readonly registry: Registry
  readonly links: LinkMeters
  metrics(): Promise<object[]>
  /** Does something again and again, until `quiet`. */
  every(ms: number, act: () => void): void
  quiet(): void
  /** Awaits work in the background; its failure is a bug or the end of a role, and ends the thread. */
  detach(work: Promise<void>): void
}

/** Every metric says which thread it is of; `labels` are those that it says besides. */
export function makeKit(
  data: ThreadData,
  world: World = realWorld,
  labels: Readonly<Record<string, string>> = {},
): Kit {
  const registry = new Registry()
  registry.setDefaultLabels({ thread: data.name, ...labels })
  workerMeters(registry)
  const cancels: (() => void)[] = []
  const { clock, monotonicMs, timers, random, crash } = world
  return {
    ...{ clock, monotonicMs, timers, random, crash },
    log: makeLog(data.settings, data.name, data.isTerminal),
    registry,
    links: linkMeters(registry),
    metrics: () => registry.getMetricsAsJSON(),
    every: (ms, act) => void cancels.push(timers.every(ms, act)),
    quiet() {
      for (const cancel of cancels) cancel()
    },
    detach: (work) => void work.catch(crash),
  }
}

/** Runs an actor that has no log of its own: what it says is told at once. */
export function serveActor<State, P extends Protocol, Event = never>(actor: {
  readonly behaviour: Behaviour<State, P, Event>
  readonly state: State
  readonly clock: Clock
  readonly say?: (event: Event) => void
  readonly mailboxMax?: number
  readonly batchMax?: number
}): Served {
  const { behaviour, state, clock, say } = actor
  const { mailboxMax = MAILBOX_MAX, batchMax = MAILBOX_MAX } = actor
  return serve<State, P, Event>({
    behaviour,
    select: () => ({ state }),
    clock,
    mailboxMax,
    batchMax,
    full: reject('OVERLOADED'),
    say(events) {
      for (const event of events) say?.(event)
    },
  })
}

/** The threads that write: the store and the market threads. A thread may be linked to some of them. */
export type Writers = {
  readonly store: Ref<WriteRequests>
  /** In the order of their numbers. */
  readonly markets: readonly Ref<MarketThreadProtocol>[]
  /** The thread that a market belongs to. */
  marketOf(marketId: MarketId): Ref<MarketThreadProtocol>
  /** Takes the port of such a thread and answers which it is; undefined for any other peer. */
  take(peer: string, port: MessagePort): 'store' | Ref<MarketThreadProtocol> | undefined
  close(): void
}

/**
 * `told` hears what the store and the market threads tell by themselves; what they tell besides may
 * have been lost. `missed` hears which of them has lost something that it was told here.
 */
export function linkWriters(
  settings: Settings,
  links: LinkMeters,
  hearing: {
    readonly told?: (type: string) => void
    readonly missed?: (market: Ref<MarketThreadProtocol>) => void
  } = {},
): Writers {
  const topology = topologyOf(settings)
  const store = makeRef<WriteRequests>()
  const markets = Array.from({ length: topology.marketThreads }, () =>
    makeRef<MarketThreadProtocol>(),
  )
  const options = channelOptions(settings)
  const { told = () => {}, missed } = hearing
  return {
    store,
    markets,
    marketOf: (marketId) => markets[threadOfMarket(marketId, topology)]!,
    take(peer, port) {
      if (peer === 'store') {
        const dropped = () => links.dropped(peer)
        store.replace(new Channel(port, options, { heard: told, dropped }))
        return 'store'
      }
      const market = markets.find((_, thread) => marketThreadName(thread) === peer)
      market?.replace(
        new Channel(port, options, {
          heard: told,
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

/** The threads that are told what happens here, and may ask. */
type Followers<P extends Protocol> = {
  /** `missed` is called where the follower cannot load by itself what it has lost. */
  add(
    peer: string,
    port: MessagePort,
    heard: (type: string, message: unknown, replyTo: number, follower: Channel<P>) => void,
    missed?: (follower: Channel<P>) => void,
  ): Channel<P>
  tell<K extends keyof P & string>(type: K, message: P[K]['takes'], bytes?: number): void
  close(): void
}

export function makeFollowers<P extends Protocol>(
  settings: Settings,
  links: LinkMeters,
  forms: Forms = { requests: [], answers: [] },
): Followers<P> {
  const followers = new Set<Channel<P>>()
  const options = { ...channelOptions(settings), forms }
  return {
    add(peer, port, heard, missed) {
      const follower: Channel<P> = new Channel<P>(port, options, {
        heard: (type, message, replyTo) => heard(type, message, replyTo, follower),
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
