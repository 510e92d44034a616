/**
 * A simulated pair of message ports. Like real ports, they clone each message and keep the order of the messages.
 * Messages that were sent before a regular close are still delivered. A cut loses the messages in transit.
 */

import type { MessagePort } from 'node:worker_threads'
import type { Random } from '../support/random.ts'
import type { Faults } from './faults.ts'
import type { Life, Scheduler } from './scheduler.ts'

type Listener = (message: unknown) => void

class Port {
  readonly #link: Link
  readonly life: Life
  peer: Port | undefined
  isOpen = true
  #lastUs = 0
  readonly #listeners = { message: [] as Listener[], close: [] as Listener[] }

  constructor(link: Link, life: Life) {
    this.#link = link
    this.life = life
  }

  on(event: 'message' | 'close', listener: Listener): this {
    this.#listeners[event].push(listener)
    return this
  }

  postMessage(message: unknown): void {
    const { peer } = this
    if (!this.isOpen || !this.life.alive || peer === undefined) return
    const { scheduler } = this.#link
    const copy = structuredClone(message)
    peer.#lastUs = Math.max(peer.#lastUs, scheduler.nowUs + this.#link.delayUs())
    scheduler.after(peer.#lastUs - scheduler.nowUs, () => peer.#receive(copy), peer.life)
  }

  close(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.peer?.end(this.#link.delayUs())
  }

  #receive(message: unknown): void {
    if (!this.isOpen) return
    for (const listener of this.#listeners.message) listener(message)
  }

  /**
   * Notifies this end that the other end has closed. The notice arrives after the delay, and after all messages sent
   * before it.
   */
  end(delayUs: number): void {
    const { scheduler } = this.#link
    this.#lastUs = Math.max(this.#lastUs, scheduler.nowUs + delayUs)
    const closed = () => {
      if (!this.isOpen) return
      this.isOpen = false
      for (const listener of this.#listeners.close) listener(undefined)
    }
    scheduler.after(this.#lastUs - scheduler.nowUs, closed, this.life)
  }

  /** Loses the messages in transit. */
  cut(delayUs: number): void {
    if (!this.isOpen) return
    this.#link.scheduler.after(
      delayUs,
      () => {
        for (const listener of this.#listeners.close) listener(undefined)
      },
      this.life,
    )
    this.isOpen = false
  }
}

/** Two processes and the connection between them. */
export class Link {
  readonly scheduler: Scheduler
  readonly #faults: Faults
  readonly #random: Random
  readonly #ends: readonly [Port, Port]

  constructor(
    world: { readonly scheduler: Scheduler; readonly faults: Faults; readonly random: Random },
    lives: readonly [Life, Life],
  ) {
    this.scheduler = world.scheduler
    this.#faults = world.faults
    this.#random = world.random
    this.#ends = [new Port(this, lives[0]), new Port(this, lives[1])]
    this.#ends[0].peer = this.#ends[1]
    this.#ends[1].peer = this.#ends[0]
  }

  get ports(): readonly [MessagePort, MessagePort] {
    return this.#ends as unknown as readonly [MessagePort, MessagePort]
  }

  delayUs(): number {
    if (this.#faults.strikes('message-slow'))
      return this.#faults.of('message-slow').int(1_000, 2_000_000)
    return this.#random.int(20, 2_000)
  }

  /** Breaks the link. Each end is notified within `withinUs`. */
  cut(random: Random, withinUs = 3_000_000): void {
    for (const end of this.#ends) end.cut(random.int(100, withinUs))
  }
}
