/**
 * Simulates the directory, with the real code of `services/node`: several nodes decide which of them serves each slot.
 * The threads of the nodes are models. When a market's thread opens the log of its partition, it fences earlier owners
 * of the log. Links between threads are not simulated.
 */

import type { Bridge } from '#services/node/bridge.ts'
import { openBridge } from '#services/node/bridge.ts'
import type { Beat } from '#services/node/directory.ts'
import type { NodeLine } from '#services/node/node-line.ts'
import { signLine } from '#services/node/signed-line.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { Faults } from '../faults.ts'
import { type Life, newLife, type Scheduler, Violation } from '../scheduler.ts'
import { Nats } from './nats.ts'

const CLUSTER = 'simulated'
const KEY = '5b'.repeat(32)
const SILENCE_MS = 1_000
const MARKETS = ['market-0', 'market-1', 'market-2', 'market-3'] as const
/** Slots whose threads write no log that could fence an earlier owner. Instead, a lease decides which owner may act. */
const OTHERS = ['store', 'settlement'] as const
const SLOTS: readonly string[] = [...MARKETS, ...OTHERS]
const TROUBLE_EVERY_US = 500_000
/**
 * Maximum time from the last fault until every slot has kept one owner for `RESTED_US`. Before that, nodes copy data,
 * wait after failures, and move slots.
 */
const RESTING_US = 240_000_000
const RESTED_US = 30_000_000
/** Maximum time until other nodes forget a dead node. It exceeds the allowed silence plus the interval of checks. */
const FORGOTTEN_US = 3_000_000

type World = { readonly seed: number; readonly scheduler: Scheduler; readonly faults: Faults }

/** One run of a slot's thread. */
type Run = {
  readonly slot: string
  /** Epoch of the log; each opening raises it. */
  readonly fence: number
  isDraining: boolean
  readonly ended: PromiseWithResolvers<string>
}

/** The log of a slot. Only the owner that opened the log last may append. */
type SlotLog = { fence: number; owner: string; rows: number }

/** Messages that a process of a node has received. */
type Heard = {
  /**
   * Times of this node's own beats (heartbeats) that came back to it through NATS. `lastUs`: when the newest came back.
   * `sinceUs`: when they began to come back without interruption.
   */
  sinceUs: number | undefined
  lastUs: number
  /** Highest claim of each slot. */
  readonly epochs: Map<string, number>
  /** Number and arrival time of the newest beat of each incarnation. */
  readonly newest: Map<string, { readonly number: number; readonly atUs: number }>
}

class ClusterNode {
  readonly name: string
  readonly #cluster: Cluster
  readonly #random: Random
  #starts = 0
  life: Life
  bridge: Bridge | undefined
  isWarm = false
  readonly runs = new Map<string, Run>()
  readonly #starting = new Map<string, Promise<void>>()
  #received: Heard = newHeard()

  constructor(name: string, cluster: Cluster, index: number) {
    this.name = name
    this.#cluster = cluster
    this.#random = randomFrom(Math.imul(cluster.world.seed + 83, 0x1b56c4e9) + index)
    this.life = newLife(`${name}.0`)
    this.life.alive = false
  }

  get isRunning(): boolean {
    return this.life.alive
  }

  start(): void {
    const { scheduler } = this.#cluster.world
    const life = newLife(`${this.name}.${++this.#starts}`)
    this.life = life
    this.isWarm = false
    this.#received = newHeard()
    scheduler.trace(`start ${life.name}`)
    const random = randomFrom(Math.imul(this.#cluster.world.seed ^ this.#starts, 0x45d9f3b))
    const loop = scheduler.loop(life)
    const after = (delayMs: number, act: () => void) => scheduler.after(delayMs * 1_000, act, life)
    const plain = this.#cluster.nats.connect(this.name, life, (why) => {
      this.#received.sinceUs = undefined
      this.bridge?.lost(why)
    })
    const line = this.#watched(signLine(plain, KEY, () => {}))
    const bridge = openBridge(
      {
        ...{ cluster: CLUSTER, node: this.name, shape: 'same', slots: SLOTS, offers: SLOTS },
        ...{ threads: [], silenceMs: SILENCE_MS, moves: MARKETS },
        moveAfterMs: this.#cluster.moveAfterMs,
      },
      {
        line,
        world: {
          monotonicMs: loop.monotonicMs,
          timers: { after, every: loop.every, soon: loop.soon },
          random: {
            int: (limit) => random.int(0, limit - 1),
            bytes: (count) => Buffer.from(this.#random.hex(count).slice(2), 'hex'),
          },
        },
        log: { info() {}, warn() {} },
        taken: (slot, epoch) => this.#taken(slot, epoch),
        begin: (slot, isWanted) => this.#begin(slot, isWanted),
        ended: async (slot) =>
          (await this.runs.get(slot)?.ended.promise) ?? 'the thread is not running',
        handOver: (slot) => this.#handOver(slot),
        end: (slot) => this.#end(slot),
        connect: async () => false,
        unfit: (why) => this.kill(why),
        broadcast() {},
      },
    )
    this.bridge = bridge
    bridge.joined.catch((error: Error) => this.kill(error.message))
    const copiedMs = this.#random.int(100, this.#random.chance(0.5) ? 3_000 : 40_000)
    after(copiedMs, () => {
      this.isWarm = true
      bridge.warmed()
    })
  }

  /**
   * Checks that this node forgets every node that sends nothing new. Recorded messages that a stranger sends again must
   * not count.
   */
  assertForgets(): void {
    const { nowUs } = this.#cluster.world.scheduler
    const { pausedUntilUs, waiting } = this.life
    if (waiting.length > 0 || nowUs - pausedUntilUs < FORGOTTEN_US) return
    for (const { node, incarnation } of this.bridge?.nodes().slice(1) ?? []) {
      const silentUs = nowUs - (this.#received.newest.get(incarnation)?.atUs ?? 0)
      if (silentUs < FORGOTTEN_US) continue
      const silent = `${node}, which has sent nothing new for ${silentUs} us`
      throw new Violation('forgets-dead', `${this.life.name} knows ${silent}`)
    }
  }

  /** Ends the process at this instant; it starts again later. */
  kill(why: string): void {
    const { scheduler } = this.#cluster.world
    if (!this.life.alive) return
    scheduler.trace(`end ${this.life.name}: ${why}`)
    this.life.alive = false
    this.runs.clear()
    this.#starting.clear()
    scheduler.after(this.#random.int(200_000, 20_000_000), () => this.start())
  }

  /** Stops the node as planned: its slots are handed over. */
  async leave(): Promise<void> {
    const { life, bridge } = this
    this.#cluster.world.scheduler.trace(`${life.name} leaves`)
    await bridge?.leave()
    if (this.life !== life || !life.alive) return
    if (this.runs.size > 0) throw new Violation('drained', `${life.name} has left with threads`)
    bridge?.stop()
    this.kill('it has left')
  }

  /** Wraps a line, and records the beats whose signature is valid. */
  #watched(line: NodeLine): NodeLine {
    const { scheduler } = this.#cluster.world
    const { life } = this
    return {
      ...line,
      get isConnected() {
        return line.isConnected
      },
      subscribe: (subject, receive) =>
        line.subscribe(subject, (bytes) => {
          if (subject.endsWith('.beat') && life === this.life) {
            this.#note(JSON.parse(Buffer.from(bytes).toString()) as Beat, scheduler.nowUs)
          }
          receive(bytes)
        }),
    }
  }

  #note({ node, incarnation, number = 0, claims }: Beat, atUs: number): void {
    const received = this.#received
    // A recorded beat that is sent again does not count.
    if (number <= (received.newest.get(incarnation)?.number ?? 0)) return
    received.newest.set(incarnation, { number, atUs })
    if (node === this.name) {
      if (atUs - received.lastUs >= SILENCE_MS * 1_000) received.sinceUs = undefined
      received.sinceUs ??= atUs
      received.lastUs = atUs
      return
    }
    for (const { slot, epoch } of claims) {
      received.epochs.set(slot, Math.max(epoch, received.epochs.get(slot) ?? 0))
    }
  }

  #taken(slot: string, epoch: number): void {
    const { scheduler } = this.#cluster.world
    scheduler.trace(`${this.life.name} takes ${slot} at epoch ${epoch}`)
    this.#cluster.takes++
    const fail = (invariant: string, detail: string) =>
      scheduler.fail(new Violation(invariant, `${this.life.name} takes ${slot}: ${detail}`))
    const { sinceUs, lastUs, epochs } = this.#received
    const known = epochs.get(slot) ?? 0
    if (epoch <= known) fail('epoch-rises', `epoch ${epoch}, and ${known} is claimed`)
    const [sinceMs, silentMs] = [sinceUs, lastUs].map((us) => (scheduler.nowUs - (us ?? 0)) / 1_000)
    if (sinceUs === undefined || sinceMs! < SILENCE_MS || silentMs! >= SILENCE_MS) {
      fail('listens-first', `it has not received its own beats for ${SILENCE_MS} ms`)
    }
    const warm = this.bridge
      ?.nodes()
      .find(
        ({ node, warm, offers }) => warm === true && node !== this.name && offers.includes(slot),
      )
    if (known > 0 && !this.isWarm && warm !== undefined) {
      fail('warm-first', `it has no copy of the log, and ${warm.node} has one`)
    }
  }

  async #wait(fromUs: number, toUs: number): Promise<void> {
    const { scheduler } = this.#cluster.world
    await new Promise<void>((resolve) => {
      scheduler.after(this.#random.int(fromUs, toUs), resolve, this.life)
    })
  }

  async #begin(slot: string, isWanted: () => boolean): Promise<void> {
    await this.#wait(10_000, this.isWarm ? 500_000 : 8_000_000)
    if (!isWanted())
      throw new Error('this node released the thread to another node before the thread had started')
    const { life } = this
    const started = this.#started(slot)
    this.#starting.set(slot, started)
    try {
      await started
    } finally {
      if (life === this.life) this.#starting.delete(slot)
    }
  }

  async #started(slot: string): Promise<void> {
    const { faults } = this.#cluster.world
    await this.#wait(20_000, 1_500_000)
    if (faults.strikes('slot-fails')) throw new Error('the thread did not start')
    if (this.runs.has(slot)) throw new Violation('one-thread', `${slot} runs twice at ${this.name}`)
    const log = this.#cluster.logs.get(slot)!
    const ended = Promise.withResolvers<string>()
    const run: Run = { slot, fence: ++log.fence, isDraining: false, ended }
    log.owner = this.life.name
    this.runs.set(slot, run)
    this.#cluster.world.scheduler.trace(`${this.life.name} opens ${slot} at ${run.fence}`)
    this.#appendSoon(run)
  }

  #appendSoon(run: Run): void {
    const { scheduler } = this.#cluster.world
    const { life } = this
    const append = () => {
      if (this.life !== life || this.runs.get(run.slot) !== run) return
      if (!run.isDraining) this.#append(run)
      this.#appendSoon(run)
    }
    scheduler.after(this.#random.int(50_000, 400_000), append, life)
  }

  /**
   * Appends to the log of a market. Only the log's newest owner can append; an earlier owner learns that it was
   * replaced.
   */
  #append(run: Run): void {
    const log = this.#cluster.logs.get(run.slot)!
    const isFenced = (MARKETS as readonly string[]).includes(run.slot) && log.fence !== run.fence
    if (isFenced) this.#over(run, 'it was taken over')
    else log.rows++
  }

  #over(run: Run, why: string): void {
    if (this.runs.get(run.slot) === run) this.runs.delete(run.slot)
    run.ended.resolve(why)
  }

  async #handOver(slot: string): Promise<void> {
    await this.#starting.get(slot)?.catch(() => {})
    const run = this.runs.get(slot)
    if (run === undefined) return
    await this.#wait(1_000, 1_000_000)
    run.isDraining = true
    // No log fences this slot. So its thread must end before another node starts the slot's next thread.
    if ((OTHERS as readonly string[]).includes(slot)) this.#over(run, 'it was ended')
  }

  async #end(slot: string): Promise<void> {
    await this.#starting.get(slot)?.catch(() => {})
    const run = this.runs.get(slot)
    if (run === undefined) return
    await this.#wait(1_000, 2_000_000)
    this.#over(run, 'it was ended')
  }
}

function newHeard(): Heard {
  return { sinceUs: undefined, lastUs: 0, epochs: new Map(), newest: new Map() }
}

class Cluster {
  readonly world: World
  readonly nats: Nats
  readonly nodes: readonly ClusterNode[]
  readonly logs = new Map<string, SlotLog>(
    SLOTS.map((slot) => [slot, { fence: 0, owner: '', rows: 0 }]),
  )
  readonly moveAfterMs: number
  /** Slots taken so far. */
  takes = 0

  constructor(world: World, nodes: number | undefined) {
    this.world = world
    const random = randomFrom(Math.imul(world.seed + 97, 0x3c6ef372))
    this.nats = new Nats(world)
    this.moveAfterMs = random.pick([0, 5_000])
    const count = nodes ?? random.int(2, 5)
    this.nodes = Array.from(
      { length: count },
      (_, index) => new ClusterNode(`node-${index}`, this, index),
    )
    for (const node of this.nodes) {
      world.scheduler.after(random.int(0, random.chance(0.5) ? 100_000 : 30_000_000), () => {
        if (!node.isRunning) node.start()
      })
    }
    world.scheduler.every(TROUBLE_EVERY_US, () => this.#trouble())
  }

  #trouble(): void {
    const { faults, scheduler } = this.world
    const running = this.nodes.filter(({ isRunning }) => isRunning)
    if (faults.healed) for (const { life } of running) life.pausedUntilUs = 0
    if (faults.healed || running.length === 0) return
    const { nats } = this
    for (const node of running) node.assertForgets()
    for (const node of running) {
      if (faults.strikes('node-kill')) node.kill('it was killed')
      else if (faults.strikes('node-leave')) {
        node.leave().catch((error) => scheduler.fail(error))
      } else if (faults.strikes('node-pause')) {
        node.life.pausedUntilUs = scheduler.nowUs + faults.of('node-pause').int(50_000, 6_000_000)
      } else if (faults.strikes('nats-away')) {
        nats.disconnect(node.name, faults.of('nats-away').int(100_000, 6_000_000))
      }
    }
    const names = this.nodes.map(({ name }) => name)
    if (faults.strikes('nats-cut')) {
      const random = faults.of('nats-cut')
      nats.cut(random.pick(names), random.pick(names), random.int(200_000, 10_000_000))
    }
    if (faults.strikes('nats-split')) {
      const random = faults.of('nats-split')
      const forUs = random.int(500_000, 10_000_000)
      const side = new Set(names.filter(() => random.chance(0.5)))
      for (const from of names) {
        for (const to of names) if (side.has(from) !== side.has(to)) nats.cut(from, to, forUs)
      }
    }
    if (faults.strikes('forged')) this.#forge(faults.of('forged'))
  }

  /** Invents, changes or repeats a message as a stranger without the key of the cluster. */
  #forge(random: Random): void {
    const { recorded } = this.nats
    const subject = `${CLUSTER}.beat`
    const old = recorded.length === 0 ? undefined : random.pick(recorded)
    const dice = random.int(0, 3)
    if (dice <= 1 && old !== undefined) this.nats.forge(old.subject, old.bytes)
    else if (dice === 2 && old !== undefined) {
      const bytes = Uint8Array.from(old.bytes)
      bytes[random.int(0, bytes.length - 1)]! ^= 1 << random.int(0, 7)
      this.nats.forge(old.subject, bytes)
    } else {
      const node = random.pick(this.nodes).name
      const claims = SLOTS.map((slot) => ({ slot, epoch: random.int(1, 1_000_000), serving: true }))
      const beat = { node, incarnation: random.hex(8), shape: 'same', offers: SLOTS, claims }
      const more = { leaving: false, warm: true, settled: true, gone: random.chance(0.3) }
      this.nats.forge(subject, Buffer.from(JSON.stringify({ ...beat, ...more })))
    }
  }

  /**
   * Returns the first broken invariant as text; undefined if none is broken. Each slot must run on exactly one node.
   * This node must own the slot's log, and all nodes must name it as the owner.
   */
  flaw(): string | undefined {
    for (const slot of SLOTS) {
      const at = this.nodes.filter(({ isRunning, runs }) => isRunning && runs.has(slot))
      if (at.length !== 1)
        return `${slot} runs at ${at.map(({ name }) => name).join(', ') || 'no node'}`
      const [owner] = at
      const isLogged = (MARKETS as readonly string[]).includes(slot)
      if (isLogged && this.logs.get(slot)!.owner !== owner!.life.name) {
        return `${slot} was taken from ${owner!.name}`
      }
      for (const { name, bridge } of this.nodes) {
        const told = bridge?.owners().find((each) => each.slot === slot)?.node
        if (told !== owner!.name)
          return `${name} finds ${slot} at ${told}, but ${owner!.name} has it`
      }
    }
    return undefined
  }
}

/** Runs a cluster with faults, then without. */
export async function runCluster(
  world: World,
  { minutes, nodes }: { readonly minutes: number; readonly nodes?: number | undefined },
): Promise<number> {
  const { scheduler, faults } = world
  const cluster = new Cluster(world, nodes)
  await scheduler.run(scheduler.nowUs + minutes * 60e6)
  scheduler.trace('the faults end')
  faults.healed = true
  const untilUs = scheduler.nowUs + RESTING_US
  // Once each slot is served, slots may still move to their preferred nodes. So the run waits until none moves.
  let restingSinceUs = scheduler.nowUs
  let { takes } = cluster
  for (;;) {
    await scheduler.run(scheduler.nowUs + 1e6)
    const flaw = cluster.flaw()
    if (flaw !== undefined || takes !== cluster.takes) restingSinceUs = scheduler.nowUs
    takes = cluster.takes
    if (scheduler.nowUs - restingSinceUs >= RESTED_US) return takes
    if (scheduler.nowUs > untilUs) {
      throw new Violation('one-owner', flaw ?? 'slots do not stop to move')
    }
  }
}
