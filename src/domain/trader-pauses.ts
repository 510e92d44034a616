/**
 * Pauses of traders. A trader can place no orders for a time after a trade failed, or would have failed, by the
 * trader's fault. Each further fault doubles the pause. Trades that fail during a pause do not count as further faults,
 * because they were matched before the pause. Every market thread knows all pauses of a chain. The thread that logs a
 * failed trade records the pause immediately, and settlement forwards the pause to the other threads. If a thread
 * receives two different pauses of a trader, it keeps the one that ends later. So repeated or reordered messages do no
 * harm.
 */

import type { Address } from './ids.ts'
import { PAUSED_TRADERS_MAX } from './limits.ts'
import { remember } from './remember.ts'

export class TraderPauses {
  readonly #firstMs: number
  readonly #maxMs: number
  /** Pauses of traders, by chain. In each chain, traders with the newest faults are last. */
  readonly #chains = new Map<number, Map<Address, TraderPause>>()

  constructor({ firstMs, maxMs }: { readonly firstMs: number; readonly maxMs: number }) {
    this.#firstMs = Math.min(firstMs, maxMs)
    this.#maxMs = maxMs
  }

  /** Records a trade that failed by this trader's fault. */
  fault(chainId: number, trader: Address, atMs: number): void {
    const known = this.of(chainId, trader)
    if (known !== undefined && atMs < known.untilMs) return
    const goesOn = known !== undefined && atMs - known.atMs <= 2 * this.#maxMs
    const faults = goesOn ? known.faults + 1 : 1
    const untilMs = atMs + Math.min(this.#maxMs, this.#firstMs * 2 ** (faults - 1))
    this.#put({ chainId, trader, faults, atMs, untilMs })
  }

  /**
   * Merges pauses from another thread. Records a pause if its trader has none, or one that ends earlier. Returns the
   * recorded pauses.
   */
  merge(pauses: readonly TraderPause[]): TraderPause[] {
    return pauses.filter((pause) => {
      const known = this.of(pause.chainId, pause.trader)
      if (known !== undefined && known.untilMs >= pause.untilMs) return false
      this.#put(pause)
      return true
    })
  }

  /** Returns the newest pause of a trader, even if it is over. */
  of(chainId: number, trader: Address): TraderPause | undefined {
    return this.#chains.get(chainId)?.get(trader)
  }

  all(): TraderPause[] {
    return [...this.#chains.values()].flatMap((traders) => [...traders.values()])
  }

  /** Removes pauses whose last fault is so old that a new fault would start with the shortest pause again. */
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
    remember(traders, trader, pause, PAUSED_TRADERS_MAX)
  }
}

export type TraderPause = {
  readonly chainId: number
  readonly trader: Address
  /** Number of faults so far. */
  readonly faults: number
  /** Time of the last fault. */
  readonly atMs: number
  readonly untilMs: number
}
