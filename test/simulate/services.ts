/**
 * The real threads besides the market thread. Each runs as a separate simulated process, which is killed, paused and
 * restarted at any instant. The processes are linked to the owner of the markets and to each other.
 */

import { AssertionError } from 'node:assert/strict'
import type { MessagePort } from 'node:worker_threads'
import { accountOf } from '#chain/accounts.ts'
import type { Settings } from '#config/settings-schema.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { makeAccountsBegun } from '#config/thread-data.ts'
import type { Address } from '#domain/ids.ts'
import type { Thread } from '#runtime/thread.ts'
import { accountsThread } from '#services/accounts/thread.ts'
import { indexerThread } from '#services/indexer/thread.ts'
import type { World } from '#services/kit/world.ts'
import { pricesThread } from '#services/prices/thread.ts'
import { storeThread } from '#services/projector/thread.ts'
import { relayerThread } from '#services/relayer/thread.ts'
import { resolutionThread } from '#services/resolution/thread.ts'
import { settlementThread } from '#services/settlement/thread.ts'
import { type Random, randomFrom } from '../support/random.ts'
import type { SimulatedChain } from './chain/chain.ts'
import { simulatedClient } from './chain/rpc.ts'
import { journalledSender, type Tables, wayToDatabase } from './database.ts'
import type { Peer, SimulatedWorld } from './exchange.ts'
import { Link } from './port.ts'
import type { Providers } from './prices/providers.ts'
import { type Life, newLife, Violation } from './scheduler.ts'
import { logReaderOf } from './stored-log.ts'

export type ServiceWorld = SimulatedWorld & {
  readonly chain: SimulatedChain
  readonly tables: Tables
  /** True if a different Ethereum node may answer each request to the chain. */
  readonly isBalanced: boolean
  readonly providers?: Providers
}

const THREADS = {
  store: storeThread,
  settlement: settlementThread,
  'accounts-0': accountsThread,
  prices: pricesThread,
  indexer: indexerThread,
  resolution: resolutionThread,
  relayer: relayerThread,
} satisfies Record<string, (data: ThreadData, world: never) => Thread>

export type ServiceName = keyof typeof THREADS

/** Services that are linked to each other. */
const LINKED: readonly (readonly [ServiceName, ServiceName])[] = [
  ['settlement', 'store'],
  ['prices', 'store'],
  ['indexer', 'store'],
  ['resolution', 'store'],
  ['relayer', 'store'],
]

/** Maximum error of a service's clock. */
const CLOCK_MS_MAX = 20_000

const TROUBLE_EVERY_US = 1_000_000

/** A front as a peer of the services. Each `connect…` function links the front to one service. */
type FrontPeer = {
  readonly name: string
  readonly life: Life
  connectFunds?(port: MessagePort): void
  connectPrices?(port: MessagePort): void
  connectRelayer?(port: MessagePort): void
  connectIndexer?(port: MessagePort): void
  connectStore?(port: MessagePort): void
}

/** Services that fronts are linked to. */
const FRONT_LINKS = {
  'accounts-0': 'connectFunds',
  prices: 'connectPrices',
  relayer: 'connectRelayer',
  indexer: 'connectIndexer',
  store: 'connectStore',
} as const

const hasFronts = (name: ServiceName): name is keyof typeof FRONT_LINKS => name in FRONT_LINKS

/** A process with one real thread. */
class Service implements Peer {
  readonly name: ServiceName
  /** Its machine. */
  readonly node: number
  life: Life
  thread: Thread | undefined
  isReady = false
  /** How far its clock is off. */
  clockMs = 0

  constructor(name: ServiceName, node: number) {
    this.name = name
    this.node = node
    this.life = newLife(this.id)
  }

  get id(): string {
    return `${this.name}@${this.node}`
  }

  connect(port: MessagePort): void {
    this.thread?.connect('market-0', port)
  }

  isTroubled(nowUs: number): boolean {
    return !this.isReady || this.life.pausedUntilUs > nowUs || this.clockMs !== 0
  }
}

export class Services {
  readonly #world: ServiceWorld
  readonly #random: Random
  readonly all: readonly Service[]
  readonly #links = new Map<string, Link>()
  readonly #accountsBegun
  #starts = 0
  #fronts: readonly FrontPeer[] = []
  /** When a service last had a fault. */
  troubledAtMs = 0
  /** Links a service to the owner of the markets again. */
  relink: (peer: Peer) => void = () => {}

  /**
   * Starts the named services. A service that is named twice runs on two machines, and only one of the two holds its
   * lease at a time.
   */
  constructor(world: ServiceWorld, names: readonly ServiceName[]) {
    this.#world = world
    this.#random = randomFrom(Math.imul(world.seed + 53, 0x1b873593))
    this.#accountsBegun = makeAccountsBegun(world.settings)
    this.all = names.map(
      (name, at) => new Service(name, names.slice(0, at).filter((each) => each === name).length),
    )
    for (const service of this.all) this.#start(service)
    world.scheduler.every(TROUBLE_EVERY_US, () => this.#trouble())
  }

  setFronts(fronts: readonly FrontPeer[]): void {
    this.#fronts = fronts
    this.#linkFronts()
  }

  #linkFronts(): void {
    for (const service of this.all) {
      const { name, isReady } = service
      if (!isReady || !hasFronts(name)) continue
      for (const front of this.#fronts) {
        const connect = front[FRONT_LINKS[name]]
        if (connect !== undefined) this.#linkFront(front, service, connect.bind(front))
      }
    }
  }

  #linkFront(front: FrontPeer, service: Service, connect: (port: MessagePort) => void): void {
    const lives = [front.life, service.life] as const
    this.#world.scheduler.after(this.#random.int(100, 1_000_000), () => {
      if (!lives.every(({ alive }) => alive)) return
      const name = `${front.name}/${service.id}`
      this.#links.get(name)?.cut(this.#random)
      const link = new Link({ ...this.#world, random: this.#random }, lives)
      this.#links.set(name, link)
      const [near, far] = link.ports
      service.thread?.connect(front.name, far)
      connect(near)
    })
  }

  /** Ends a service permanently. */
  finish(name: ServiceName): void {
    for (const service of this.all) if (service.name === name) service.life.alive = false
  }

  #start(service: Service): void {
    const { scheduler } = this.#world
    const life = newLife(`${service.id}.${++this.#starts}`)
    service.life = life
    service.isReady = false
    scheduler.trace(`start ${life.name}`)
    const thread = this.#threadOf(service, life)
    service.thread = thread
    thread.start(undefined as never).then(
      () => this.#started(service, life),
      (error) => this.#crashed(service, life, error),
    )
  }

  #started(service: Service, life: Life): void {
    if (!life.alive || service.life !== life) return
    service.isReady = true
    this.relink(service)
    if (hasFronts(service.name)) this.#linkFronts()
    for (const [nearName, farName] of LINKED) {
      if (service.name !== nearName && service.name !== farName) continue
      const near = this.all.filter(({ name, isReady }) => name === nearName && isReady)
      const [far] = this.all.filter(({ name, isReady }) => name === farName && isReady)
      if (far === undefined) continue
      for (const each of near) {
        if (each === service || far === service) this.#linkSoon(each, far)
      }
    }
  }

  #linkSoon(near: Service, far: Service): void {
    const lives = [near.life, far.life] as const
    this.#world.scheduler.after(this.#random.int(100, 1_000_000), () => {
      if (!lives.every(({ alive }) => alive)) return
      const name = `${near.id}/${far.id}`
      this.#links.get(name)?.cut(this.#random)
      const link = new Link({ ...this.#world, random: this.#random }, lives)
      this.#links.set(name, link)
      const [nearPort, farPort] = link.ports
      far.thread?.connect(near.name, farPort)
      near.thread?.connect(far.name, nearPort)
    })
  }

  /**
   * Handles an error that ended a service's thread. If the error shows a bug, the run fails with it. Otherwise the
   * service restarts.
   */
  #crashed(service: Service, life: Life, error: unknown): void {
    const { scheduler } = this.#world
    if (!life.alive) return
    const isBug =
      error instanceof TypeError || error instanceof RangeError || error instanceof AssertionError
    if (isBug || error instanceof Violation) {
      scheduler.fail(error)
      return
    }
    scheduler.trace(`${life.name} crashes: ${error instanceof Error ? error.message : error}`)
    this.#end(service)
  }

  #end(service: Service): void {
    const { scheduler } = this.#world
    if (!service.life.alive) return
    scheduler.trace(`end ${service.life.name}`)
    service.life.alive = false
    service.isReady = false
    for (const [name, link] of this.#links) {
      if (!name.split('/').includes(service.id)) continue
      link.cut(this.#random)
      this.#links.delete(name)
    }
    this.relink(service)
    scheduler.after(this.#random.int(10_000, 3_000_000), () => this.#start(service))
  }

  #trouble(): void {
    const { faults, scheduler } = this.#world
    for (const service of this.all) {
      if (faults.healed) {
        service.life.pausedUntilUs = 0
        service.clockMs = 0
      }
      this.#troubleClock(service)
      if (service.isTroubled(scheduler.nowUs)) this.troubledAtMs = scheduler.nowMs
      if (faults.strikes('service-kill')) this.#end(service)
      if (faults.strikes('service-pause')) {
        const us = faults.of('service-pause').int(10_000, 12_000_000)
        service.life.pausedUntilUs = scheduler.nowUs + us
      }
    }
    for (const [name, link] of this.#links) {
      if (!faults.strikes('link-cut')) continue
      link.cut(faults.of('link-cut'))
      this.#links.delete(name)
      const [near, far] = name.split('/').map((each) => this.all.find((one) => one.id === each))
      if (near !== undefined && far !== undefined) this.#linkSoon(near, far)
      else this.#linkFronts()
    }
  }

  /**
   * Makes the clock of the prices service wrong for a while. The clocks of the other services stay right, because each
   * service shares a machine with the components that it checks.
   */
  #troubleClock(service: Service): void {
    const { faults, scheduler } = this.#world
    if (service.name !== 'prices' || !faults.strikes('service-clock')) return
    const random = faults.of('service-clock')
    service.clockMs = random.int(-CLOCK_MS_MAX, CLOCK_MS_MAX)
    scheduler.after(random.int(1_000_000, 30_000_000), () => {
      service.clockMs = 0
    })
  }

  #worldOf(service: Service, life: Life): World {
    const { scheduler, seed } = this.#world
    const random = randomFrom(Math.imul(seed ^ (1_000 + this.#starts), 0x45d9f3b))
    const loop = scheduler.loop(life)
    const safely = (act: () => void) => () => {
      try {
        act()
      } catch (error) {
        this.#crashed(service, life, error)
      }
    }
    const after = (delayMs: number, act: () => void) =>
      scheduler.after(delayMs * 1_000, safely(act), life)
    return {
      clock: { nowMs: () => scheduler.nowMs + service.clockMs, after },
      monotonicMs: loop.monotonicMs,
      timers: {
        after,
        every: (periodMs, act) => loop.every(periodMs, safely(act)),
        soon: (act) => loop.soon(safely(act)),
      },
      random: {
        int: (limit) => random.int(0, limit - 1),
        bytes: (count) => Buffer.from(random.hex(count).slice(2), 'hex'),
      },
      crash: (error) => this.#crashed(service, life, error),
    }
  }

  #threadOf(service: Service, life: Life): Thread {
    const { settings, chain, scheduler, faults, isBalanced, tables, truth } = this.#world
    const seed = Math.imul(this.#world.seed, 31) + this.#starts
    const world = this.#worldOf(service, life)
    const isShared = this.all.some(({ node }) => node > 0)
    const own = keyHolder(service.name, settings)
    const senderOf = (hash: string) => journalledSender(tables, hash) ?? own
    const { database, reads } = wayToDatabase({ scheduler, faults, life, seed, tables, isShared })
    const adapters = {
      makeChainClient: () =>
        simulatedClient({ chain, scheduler, faults, life, seed, isBalanced, senderOf }),
      makeReads: () => reads,
      openDatabase: async () => database,
      openLogReader: () => logReaderOf(truth),
    }
    const data = {
      ...{ name: service.name, index: 0 },
      settings: servicesSettings(settings, isShared ? service.node : undefined),
      ...{ isTerminal: false, accountsBegun: this.#accountsBegun },
    } as ThreadData
    const network = this.#world.providers?.networkOf(life)
    return THREADS[service.name](data, { ...world, ...adapters, ...network } as never)
  }
}

/**
 * Returns the account whose key a service signs with. The simulation looks up the sender of each transaction in the
 * journal. If a transaction is not in the journal, the simulation takes this account as its sender.
 */
function keyHolder(name: ServiceName, { keys }: Settings): Address {
  const key =
    name === 'resolution' ? keys.resolution : name === 'prices' ? keys.operator : keys.settlement
  return accountOf(key).address
}

/**
 * Returns the settings of a service. Services do not run on the nodes that own the markets. If `node` is given, the
 * services run on several machines. Then they share a database server and need leases.
 */
function servicesSettings(settings: Settings, node: number | undefined): Settings {
  const { cluster, eventLog, database } = settings
  return {
    ...settings,
    eventLog: { ...eventLog, url: '' },
    cluster: { ...cluster, roles: ['all'], node: node === undefined ? '' : `services-${node}` },
    ...(node === undefined
      ? {}
      : { database: { ...database, url: 'mysql://simulated/simulated' } }),
  } as Settings
}
