/**
 * Simulated connections to price providers. Messages keep their order, may be slow, and are lost when the connection
 * breaks.
 */

import type { Pushed, SimulatedSocket } from '#devnet/providers/provider.ts'
import type { FeedSocket } from '#services/prices/feeds/feed.ts'
import type { Random } from '../../support/random.ts'
import type { Faults } from '../faults.ts'
import type { Life, Scheduler } from '../scheduler.ts'

/** The network of one process. */
export type Network = {
  readonly scheduler: Scheduler
  readonly faults: Faults
  readonly random: Random
  readonly life: Life
}

/** Delivers in order. */
class Wire {
  readonly #network: Network
  #lastUs = 0

  constructor(network: Network) {
    this.#network = network
  }

  carry(act: () => void): void {
    const { scheduler, faults, random, life } = this.#network
    const isSlow = faults.strikes('price-slow')
    const us = isSlow ? faults.of('price-slow').int(100_000, 8_000_000) : random.int(500, 40_000)
    this.#lastUs = Math.max(this.#lastUs, scheduler.nowUs + us)
    scheduler.after(this.#lastUs - scheduler.nowUs, act, life)
  }
}

type Listener = (event: { data: unknown }) => void

/** A WebSocket. */
export class Connection {
  readonly #wire: Wire
  readonly #life: Life
  readonly #listeners = new Map<string, Listener[]>()
  #accepted: SimulatedSocket | undefined
  #isOver = false

  constructor(network: Network) {
    this.#wire = new Wire(network)
    this.#life = network.life
  }

  ends(): { readonly socket: FeedSocket; readonly to: Pushed } {
    const socket = {
      addEventListener: (type: string, listener: Listener) => {
        this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener])
      },
      send: (text: string) => this.#wire.carry(() => this.#accepted?.message(text)),
      close: () => this.#end(),
    }
    const to: Pushed = {
      send: (text) => {
        if (!this.#life.alive) this.#end()
        else if (!this.#isOver) this.#wire.carry(() => this.#tell('message', text))
      },
      close: () => this.#wire.carry(() => this.#end()),
    }
    return { socket, to }
  }

  opened(accepted: SimulatedSocket): void {
    this.#accepted = accepted
    if (this.#isOver) accepted.closed()
    else this.#tell('open', undefined)
  }

  fail(): void {
    this.#tell('error', undefined)
    this.#end()
  }

  #tell(type: string, data: unknown): void {
    if (this.#isOver) return
    for (const listener of this.#listeners.get(type) ?? []) listener({ data })
  }

  #end(): void {
    if (this.#isOver) return
    this.#accepted?.closed()
    if (this.#life.alive) this.#tell('close', undefined)
    this.#isOver = true
  }
}

/**
 * Makes a streamed answer. `body` yields the texts that the provider sends to `to`. It ends when the provider closes
 * the stream, or fails when the reader aborts.
 */
export function streamOf(
  network: Network,
  signal: AbortSignal,
): { readonly to: Pushed; readonly body: AsyncIterable<Uint8Array> } {
  const wire = new Wire(network)
  const waiting: Uint8Array[] = []
  let isOver = false
  let wake = () => {}
  signal.addEventListener('abort', () => wake(), { once: true })
  async function* body(): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (signal.aborted) throw new Error('aborted')
      const next = waiting.shift()
      if (next !== undefined) {
        yield next
        continue
      }
      if (isOver) return
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  const to: Pushed = {
    send: (text) =>
      wire.carry(() => {
        waiting.push(Buffer.from(text))
        wake()
      }),
    close: () =>
      wire.carry(() => {
        isOver = true
        wake()
      }),
  }
  return { to, body: body() }
}
