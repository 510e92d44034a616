/**
 * Simulates the machines that run the market thread. Normally one node runs the thread at a time. The simulation kills,
 * pauses and restarts processes, and starts a new owner beside the current one. The thread is real, and everything
 * around it is simulated.
 */

import type { MessagePort } from 'node:worker_threads'
import type { Settings } from '#config/settings-schema.ts'
import type { ThreadData } from '#config/thread-data.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { EventLog } from '#log/event-log.ts'
import type { Thread } from '#runtime/thread.ts'
import { marketThread } from '#services/market/thread.ts'
import { type Random, randomFrom } from '../support/random.ts'
import type { People } from './chain/people.ts'
import type { Faults } from './faults.ts'
import { Link } from './port.ts'
import { type Life, newLife, type Scheduler, Violation } from './scheduler.ts'
import { openSimulatedLog } from './simulated-log.ts'
import type { PartitionCopy, StoredPartition } from './stored-log.ts'

export type SimulatedWorld = {
  readonly seed: number
  readonly scheduler: Scheduler
  readonly faults: Faults
  readonly random: Random
  readonly settings: Settings
  readonly truth: readonly StoredPartition[]
  readonly kind: 'files' | 'server'
  /** Number of nodes that may own the markets. */
  readonly nodes: number
  /** The simulated users of the chain; undefined if a stub replaces settlement. */
  readonly people?: People
  /** True if orders need their funds reserved. */
  readonly hasFunds?: boolean
  /** Wraps a log, for example to add faults, before it is given to a market thread. */
  readonly between: (log: EventLog<MarketEvent>, scheduler: Scheduler) => EventLog<MarketEvent>
}

/** A process that is linked to the current owner of the market thread. */
export type Peer = {
  readonly name: string
  readonly life: Life
  /** False while the peer's process is not running. The peer is linked once its process runs. */
  readonly isReady?: boolean
  connect(port: MessagePort): void
}

type Node = {
  readonly name: string
  readonly copies: Map<number, PartitionCopy>
  clockMs: number
}

type Running = {
  readonly node: Node
  readonly life: Life
  readonly thread: Thread
  readonly links: Map<Peer, Link>
  isStarted: boolean
}

/** Interval at which each kind of fault may hit a process. */
const TROUBLE_EVERY_US = 1_000_000

/** A node's clock goes back at most this far in total. */
const CLOCK_MS_MIN = -60_000

export class Exchange {
  readonly #world: SimulatedWorld
  readonly #peers: readonly Peer[]
  readonly #nodes: Node[]
  readonly #running = new Set<Running>()
  #owner: Running | undefined
  #starts = 0
  #isDiskFull = false
  /** Peer that stays with the previous owner. */
  #late: Peer | undefined
  #isHandingOver = false

  constructor(world: SimulatedWorld, peers: readonly Peer[]) {
    this.#world = world
    this.#peers = peers
    this.#nodes = Array.from({ length: world.nodes }, (_, at) => ({
      ...{ name: `node-${at}`, copies: new Map(), clockMs: 0 },
    }))
    this.#start(this.#nodes[0]!)
    world.scheduler.every(TROUBLE_EVERY_US, () => this.#trouble())
  }

  /** Returns the reason why the owner does not serve; empty if it serves. */
  health(): string {
    const owner = this.#owner
    if (owner === undefined || !owner.isStarted) return 'no owner'
    return owner.thread.health()
  }

  #start(node: Node): void {
    const { scheduler } = this.#world
    const life = newLife(`${node.name}.${++this.#starts}`)
    scheduler.trace(`start ${life.name}`)
    const { settings } = this.#world
    const data = { name: 'market-0', index: 0, settings, isTerminal: false } as ThreadData
    const thread = marketThread(data, this.#worldOf(node, life))
    const running: Running = { node, life, thread, links: new Map(), isStarted: false }
    this.#running.add(running)
    this.#owner = running
    thread.start(undefined as never).then(
      () => this.#started(running),
      (error) => scheduler.fail(error),
    )
  }

  #started(running: Running): void {
    if (!running.life.alive) return
    this.#world.scheduler.trace(`${running.life.name} serves`)
    running.isStarted = true
    const { random } = this.#world
    for (const peer of this.#peers) {
      // Some peers are linked to the new owner late.
      const isLate = peer === this.#late || random.chance(0.2)
      this.#linkSoon(peer, running, isLate ? 15_000_000 : 1_000_000)
    }
  }

  /** Breaks the old link of a peer whose process ended or restarted, and links the peer to the owner again. */
  relink(peer: Peer): void {
    for (const { links } of this.#running) {
      links.get(peer)?.cut(this.#world.random)
      links.delete(peer)
    }
    const owner = this.#owner
    if (owner?.isStarted === true) this.#linkSoon(peer, owner, 1_000_000)
  }

  #linkSoon(peer: Peer, running: Running, withinUs: number): void {
    const { scheduler, random } = this.#world
    scheduler.after(random.int(100, withinUs), () => {
      if (!running.life.alive || this.#owner !== running || peer.isReady === false) return
      for (const { links } of this.#running) links.delete(peer)
      const link = new Link(this.#world, [peer.life, running.life])
      running.links.set(peer, link)
      const [near, far] = link.ports
      running.thread.connect(peer.name, far)
      peer.connect(near)
    })
  }

  #worldOf(node: Node, life: Life): Parameters<typeof marketThread>[1] & object {
    const { scheduler, seed } = this.#world
    const random = randomFrom(Math.imul(seed ^ this.#starts, 0x45d9f3b))
    const loop = scheduler.loop(life)
    const after = (delayMs: number, act: () => void) => scheduler.after(delayMs * 1_000, act, life)
    const isDiskFull = () => this.#isDiskFull
    let wasFull = false
    return {
      clock: { nowMs: () => scheduler.nowMs + node.clockMs, after },
      monotonicMs: loop.monotonicMs,
      timers: { after, every: loop.every, soon: loop.soon },
      random: {
        int: (limit) => random.int(0, limit - 1),
        bytes: (count) => Buffer.from(random.hex(count).slice(2), 'hex'),
      },
      crash: (error) => scheduler.fail(error),
      openLog: async (_settings, _kit, { own }) => {
        const ports = {
          ...{ ...this.#world, life, copies: node.copies },
          kill: () => this.#end(life),
          fenced: () => void scheduler.after(1, () => this.#end(life), life),
        }
        return this.#world.between(await openSimulatedLog(ports, own), scheduler)
      },
      openDiskRoom: () => ({
        get isFull() {
          return isDiskFull()
        },
        look() {
          const changed = wasFull !== isDiskFull()
          wasFull = isDiskFull()
          return changed
        },
        spend() {},
      }),
    }
  }

  /** Ends a process at this instant. If the process was the owner, another owner starts within 3 s. */
  #end(life: Life): void {
    const running = [...this.#running].find((each) => each.life === life)
    if (running === undefined || !life.alive) return
    const { scheduler, random } = this.#world
    scheduler.trace(`end ${life.name}`)
    life.alive = false
    this.#running.delete(running)
    for (const link of running.links.values()) link.cut(random)
    if (this.#owner !== running) return
    this.#owner = undefined
    scheduler.after(random.int(10_000, 3_000_000), () => {
      if (this.#owner === undefined) this.#start(this.#freeNode())
    })
  }

  /** Ends the processes on a random node, and returns the node. */
  #freeNode(): Node {
    const node = this.#world.random.pick(this.#nodes)
    for (const each of this.#running) if (each.node === node) this.#end(each.life)
    return node
  }

  #trouble(): void {
    const { faults, scheduler } = this.#world
    const owner = this.#owner
    const others = [...this.#running].filter((each) => each !== owner)
    // After the faults have ended, only the owner runs, and no process is paused.
    if (faults.healed) for (const { life } of this.#running) life.pausedUntilUs = 0
    if (faults.healed) for (const { life } of others) this.#end(life)
    if (faults.strikes('kill') && owner !== undefined) this.#end(owner.life)
    if (faults.strikes('pause') && owner !== undefined) {
      owner.life.pausedUntilUs = scheduler.nowUs + faults.of('pause').int(10_000, 12_000_000)
    }
    if (faults.strikes('takeover') && this.#world.kind === 'server') this.#takeOver(owner)
    if (faults.strikes('hand-over')) void this.#handOver()
    if (faults.strikes('clock-back') && owner !== undefined) {
      const backMs = faults.of('clock-back').int(1, 20_000)
      owner.node.clockMs = Math.max(CLOCK_MS_MIN, owner.node.clockMs - backMs)
    }
    this.#cutLinks(owner)
    this.#fillDisk()
  }

  /**
   * Starts another owner while the current one still runs. In most cases the current one keeps the link to one front,
   * as in a network split.
   */
  #takeOver(owner: Running | undefined): void {
    const random = this.#world.faults.of('takeover')
    const used = new Set([...this.#running].map(({ node }) => node))
    const idle = this.#nodes.filter((node) => !used.has(node))
    if (idle.length === 0) return
    this.#late = undefined
    if (owner !== undefined && random.chance(0.7)) {
      const stays = random.pick(this.#peers.filter(({ name }) => name.startsWith('front')))
      this.#late = stays
      for (const [peer, link] of owner.links) {
        if (peer === stays) continue
        link.cut(random, 20_000_000)
        owner.links.delete(peer)
      }
    }
    this.#start(random.pick(idle))
  }

  #cutLinks(owner: Running | undefined): void {
    const { faults } = this.#world
    if (!faults.strikes('link-cut') || owner === undefined) return
    const [peer, link] = faults.of('link-cut').pick([...owner.links]) ?? []
    if (peer === undefined || link === undefined) return
    link.cut(faults.of('link-cut'))
    owner.links.delete(peer)
    this.#linkSoon(peer, owner, 6_000_000)
  }

  #fillDisk(): void {
    const { faults, scheduler } = this.#world
    if (!faults.strikes('disk-full') || this.#isDiskFull) return
    this.#isDiskFull = true
    scheduler.after(faults.of('disk-full').int(1_000_000, 15_000_000), () => {
      this.#isDiskFull = false
    })
  }

  /** Hands over as planned: the thread drains and stops, and a new one starts on a random node. */
  async #handOver(): Promise<void> {
    const owner = this.#owner
    if (owner === undefined || !owner.isStarted || this.#isHandingOver) return
    const { scheduler } = this.#world
    this.#isHandingOver = true
    // A process that has not ended after 20 s is killed.
    scheduler.after(20_000_000, () => {
      this.#isHandingOver = false
      this.#end(owner.life)
    })
    await owner.thread.drain()
    await owner.thread.stop()
    this.#end(owner.life)
  }

  /** Asserts, at the end of a run, that the owner serves. */
  assertServes(): void {
    const health = this.health()
    if (health !== '') throw new Violation('serves', `after healing: ${health}`)
  }
}
