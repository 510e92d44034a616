/**
 * Traders who pause because a trade failed, or would have failed, by their fault. Each further fault doubles the pause; trades
 * that fail while it lasts are of the same fault, since nothing new was ordered meanwhile. Every market
 * thread has all pauses of a chain, of whatever market they come from: the thread that logs a failure
 * knows it at once, settlement passes it on to the others. What two threads know is put together by
 * taking the later pause, so it does not matter how often or in which order they are told.
 */

import type { Address } from './ids.ts'
import { PAUSED_TRADERS_MAX } from './limits.ts'

export class TraderPauses {
  readonly #firstMs: number
  readonly #maxMs: number
  /** By chain; those of the newest faults are last. */
  readonly #chains = new Map<number, Map<Address, TraderPause>>()

  constructor({ firstMs, maxMs }: { readonly firstMs: number; readonly maxMs: number }) {
    this.#firstMs = Math.min(firstMs, maxMs)
    this.#maxMs = maxMs
  }

  /** A trade failed by the fault of this trader. */
  fault(chainId: number, trader: Address, atMs: number): void {
    const known = this.of(chainId, trader)
    if (known !== undefined && atMs < known.untilMs) return
    const goesOn = known !== undefined && atMs - known.atMs <= 2 * this.#maxMs
    const faults = goesOn ? known.faults + 1 : 1
    const untilMs = atMs + Math.min(this.#maxMs, this.#firstMs * 2 ** (faults - 1))
    this.#put({ chainId, trader, faults, atMs, untilMs })
  }

  /** Takes over what another thread knows; answers what of it is new. */
  merge(pauses: readonly TraderPause[]): TraderPause[] {
    return pauses.filter((pause) => {
      const known = this.of(pause.chainId, pause.trader)
      if (known !== undefined && known.untilMs >= pause.untilMs) return false
      this.#put(pause)
      return true
    })
  }

  /** The last pause of a trader, also when it is over. */
  of(chainId: number, trader: Address): TraderPause | undefined {
    return this.#chains.get(chainId)?.get(trader)
  }

  all(): TraderPause[] {
    return [...this.#chains.values()].flatMap((traders) => [...traders.values()])
  }

  /** Forgets faults that count no more. */
  sweep(nowMs: number): void {
    for (const traders of this.#chains.values()) {
      for (const [trader, { atMs }] of traders) {
        if (nowMs - atMs > 2 * this.#maxMs) traders.delete(trader)
      }
    }
  }

  #put(pause: TraderPause): void {
    const { chainId, trader } = pause
    const traders = this.#chains.get(chainId) ?? new Map<Address, TraderPause>()
    this.#chains.set(chainId, traders)
    traders.delete(trader)
    if (traders.size >= PAUSED_TRADERS_MAX) {
      for (const oldest of traders.keys()) {
        traders.delete(oldest)
        break
      }
    }
    traders.set(trader, pause)
  }
}

export type TraderPause = {
  readonly chainId: number
  readonly trader: Address
  /** How many faults have led to it. */
  readonly faults: number
  /** When the last one was. */
  readonly atMs: number
  readonly untilMs: number
}
