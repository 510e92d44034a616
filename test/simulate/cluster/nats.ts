/**
 * A simulated NATS server: nodes and strangers publish to subjects. Messages of one sender on one subject keep their
 * order. Messages are slow or lost, and nodes are cut off: one from another, in groups, or from the server.
 */

import type { NodeLine } from '#services/node/node-line.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { Faults } from '../faults.ts'
import type { Life, Scheduler } from '../scheduler.ts'

type Hear = (bytes: Uint8Array) => void

type Line = {
  readonly node: string
  readonly life: Life
  readonly subjects: Map<string, Hear>
  readonly lost: (why: string) => void
  isConnected: boolean
  isOpen: boolean
}

/** Maximum number of messages that a stranger records. */
const RECORDED_MAX = 400

export class Nats {
  readonly #scheduler: Scheduler
  readonly #faults: Faults
  readonly #random: Random
  readonly #lines = new Set<Line>()
  /** Time at which the newest message of a sender on a subject arrives at a receiver. */
  readonly #lastUs = new Map<string, number>()
  /** Times until which one node receives nothing from another. */
  readonly #cuts = new Map<string, number>()
  /** Messages that a stranger who can read all subjects has recorded. */
  readonly recorded: { readonly subject: string; readonly bytes: Uint8Array }[] = []

  constructor(world: { scheduler: Scheduler; faults: Faults; seed: number }) {
    this.#scheduler = world.scheduler
    this.#faults = world.faults
    this.#random = randomFrom(Math.imul(world.seed + 71, 0x2545f491))
  }

  connect(node: string, life: Life, lost: (why: string) => void): NodeLine {
    const line: Line = {
      ...{ node, life, lost, subjects: new Map() },
      ...{ isConnected: true, isOpen: true },
    }
    this.#lines.add(line)
    return {
      payloadMax: 1024 * 1024,
      get isConnected() {
        return line.isConnected && line.isOpen
      },
      publish: (subject, bytes) => {
        if (line.isConnected && line.isOpen && life.alive) this.#publish(node, subject, bytes)
      },
      subscribe: (subject, receive) => void line.subjects.set(subject, receive),
      request: async () => undefined,
      close: async () => {
        line.isOpen = false
        this.#lines.delete(line)
      },
    }
  }

  /** Publishes as a client that is not a node. */
  forge(subject: string, bytes: Uint8Array): void {
    this.#publish('stranger', subject, bytes)
  }

  #publish(from: string, subject: string, published: Uint8Array): void {
    const bytes = Uint8Array.from(published)
    if (from !== 'stranger') {
      this.recorded.push({ subject, bytes })
      if (this.recorded.length > RECORDED_MAX) this.recorded.shift()
    }
    for (const line of this.#lines) {
      const receive = line.subjects.get(subject)
      if (receive === undefined || !line.isConnected || !line.life.alive) continue
      if (this.#isCut(from, line.node) || this.#faults.strikes('nats-lost')) continue
      const way = `${from} ${subject} ${line.life.name}`
      const atUs = Math.max(this.#lastUs.get(way) ?? 0, this.#scheduler.nowUs + this.#delayUs())
      this.#lastUs.set(way, atUs)
      const arrive = () => {
        if (line.isOpen && line.isConnected) receive(bytes)
      }
      this.#scheduler.after(atUs - this.#scheduler.nowUs, arrive, line.life)
    }
  }

  #delayUs(): number {
    const isSlow = this.#faults.strikes('nats-slow')
    return isSlow
      ? this.#faults.of('nats-slow').int(10_000, 1_500_000)
      : this.#random.int(100, 5_000)
  }

  #isCut(from: string, to: string): boolean {
    return !this.#faults.healed && (this.#cuts.get(`${from}>${to}`) ?? 0) > this.#scheduler.nowUs
  }

  /** `to` receives nothing from `from` for a while. */
  cut(from: string, to: string, forUs: number): void {
    this.#scheduler.trace(`nats cuts ${from} > ${to} for ${forUs} us`)
    this.#cuts.set(`${from}>${to}`, this.#scheduler.nowUs + forUs)
  }

  /** The connection of a node is lost; the node notices at once, and connects again later. */
  disconnect(node: string, forUs: number): void {
    for (const line of this.#lines) {
      if (line.node !== node || !line.isConnected) continue
      this.#scheduler.trace(`nats loses ${line.life.name}`)
      line.isConnected = false
      line.lost('the connection to NATS is lost')
      const back = () => {
        line.isConnected = true
      }
      this.#scheduler.after(forUs, back)
    }
  }
}
