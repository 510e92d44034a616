/**
 * Faults of a simulation. Each kind has its own rate and its own random numbers, both drawn from the seed, so that
 * removing one fault does not change the others. A fault that happens gets a name, such as `append-lost#3`.
 */

import { type Random, randomFrom } from '../support/random.ts'
import type { Scheduler } from './scheduler.ts'

/**
 * Kinds of faults, each with the maximum rate that a seed may draw. A rate of 0.02 means that the fault happens at 2 %
 * of its opportunities.
 */
const RATE_MAX = {
  /** The row never reaches the disk, and the append fails. */
  'append-lost': 0.02,
  /** The row is durable, but the append fails. */
  'append-unknown': 0.02,
  /** The append fails, but its row is stored later. Only with a log in a database server. */
  'append-late': 0.01,
  'append-slow': 0.05,
  /** An attempt to reopen a log fails. */
  'reopen-fails': 0.3,
  /**
   * The server does not confirm that a node still owns its partitions (`confirm-fails`), or confirms it up to 3 s late
   * (`confirm-slow`).
   */
  'confirm-fails': 0.02,
  'confirm-slow': 0.02,
  'snapshot-fails': 0.1,
  'snapshot-slow': 0.3,
  /** A node's copy of the log is lost when it starts. */
  'copy-lost': 0.2,
  'message-slow': 0.02,
  /** A link between two processes breaks. */
  'link-cut': 0.15,
  kill: 0.15,
  /** The process ends during an append, before or after the write; only with a log in files. */
  'kill-in-append': 0.01,
  /** A process stands still. */
  pause: 0.1,
  /** Another node takes the partitions while their owner still runs. */
  takeover: 0.1,
  /** A planned hand-over. */
  'hand-over': 0.03,
  'disk-full': 0.05,
  /** A wall clock that jumps back. */
  'clock-back': 0.05,
  /**
   * Blocks are replaced. `reorg-deep` replaces more blocks than the number of confirmations that settlement waits for.
   */
  reorg: 0.1,
  'reorg-deep': 0.01,
  /** A pooled transaction is forgotten. */
  'tx-dropped': 0.1,
  /** The base fee rises for some seconds, perhaps above the highest fee that a transaction offers. */
  'fee-spike': 0.03,
  /** A request does not reach its node, or its answer is lost. */
  'rpc-fails': 0.05,
  'rpc-lost': 0.01,
  /** A node stays behind the chain. */
  'rpc-lag': 0.05,
  'receipt-missing': 0.05,
  /** A node answers without some logs of its newest blocks. */
  'logs-partial': 0.05,
  /** A transaction or query of the database fails before or after its commit, or takes long. */
  'sql-before': 0.02,
  'sql-after': 0.02,
  'sql-slow': 0.02,
  /** The process of a service other than the markets ends, or stands still. */
  'service-kill': 0.05,
  'service-pause': 0.05,
  /** A client asks hundreds of times at once for a trader's funds. */
  'funds-flood': 0.02,
  /** A message between nodes is late or lost. */
  'nats-slow': 0.02,
  'nats-lost': 0.02,
  /**
   * A node receives nothing from another node (`nats-cut`), or the nodes split into two groups without contact
   * (`nats-split`).
   */
  'nats-cut': 0.15,
  'nats-split': 0.05,
  /** A node's connection to NATS is lost. */
  'nats-away': 0.05,
  /** A stranger sends messages in the name of nodes. */
  forged: 0.5,
  'node-kill': 0.03,
  'node-leave': 0.03,
  'node-pause': 0.05,
  /** The thread of a slot does not start. */
  'slot-fails': 0.3,
  /** A service's wall clock is wrong for some seconds. */
  'service-clock': 0.05,
  /**
   * Faults of a price provider: it has no prices, hangs up, reports a price that is slightly or far off, or sends
   * something that is no price.
   */
  'price-stall': 0.03,
  'price-drop': 0.03,
  'price-lie': 0.05,
  'price-wild': 0.03,
  'price-garbage': 0.03,
  /** It sends old reports again. */
  'price-replay': 0.03,
  /** The provider's history refuses requests, a request gets no answer, or a message is late. */
  'price-history': 0.03,
  'price-away': 0.05,
  'price-slow': 0.005,
} as const

export type FaultKind = keyof typeof RATE_MAX
export const FAULT_KINDS = Object.keys(RATE_MAX) as FaultKind[]

export class Faults {
  readonly #scheduler: Scheduler
  readonly #randoms: Record<FaultKind, Random>
  readonly #rates: Record<FaultKind, number>
  readonly #counts = new Map<FaultKind, number>()
  readonly #suppressed: ReadonlySet<string>
  /** Faults that struck. */
  readonly struck: string[] = []
  healed = false

  /** `suppressed` contains the faults that do not happen: names of single faults, or whole kinds. */
  constructor(seed: number, scheduler: Scheduler, suppressed: ReadonlySet<string> = new Set()) {
    this.#scheduler = scheduler
    this.#suppressed = suppressed
    const rates = randomFrom(seed ^ 0x5eed)
    const entries = FAULT_KINDS.map((kind, at) => {
      // In each run about a third of the kinds have rate 0. Otherwise frequent faults would hide rare combinations of a
      // few kinds.
      const rate = rates.chance(1 / 3) ? 0 : RATE_MAX[kind] * rates.next()
      return { kind, rate, random: randomFrom(Math.imul(seed + 1, 0x9e3779b1) ^ (at * 0x85ebca6b)) }
    })
    this.#rates = Object.fromEntries(entries.map(({ kind, rate }) => [kind, rate])) as never
    this.#randoms = Object.fromEntries(entries.map(({ kind, random }) => [kind, random])) as never
  }

  /** Returns whether the fault happens at this opportunity. */
  strikes(kind: FaultKind): boolean {
    const draws = this.#randoms[kind].chance(this.#rates[kind])
    if (!draws || this.healed) return false
    const count = (this.#counts.get(kind) ?? 0) + 1
    this.#counts.set(kind, count)
    const name = `${kind}#${count}`
    if (this.#suppressed.has(name) || this.#suppressed.has(kind)) return false
    this.struck.push(name)
    this.#scheduler.trace(`fault ${name}`)
    return true
  }

  /** Random numbers for the details of a fault of this kind. */
  of(kind: FaultKind): Random {
    return this.#randoms[kind]
  }
}
