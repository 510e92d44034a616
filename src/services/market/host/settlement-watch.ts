/**
 * Detects an absent settlement. Settlement reports when it is behind, but cannot while it is away. If it is away for
 * longer than the maximum lag, it counts as behind: the markets of its chains accept cancels only until it reports
 * otherwise.
 */

export type SettlementWatch = {
  linked(): void
  gone(nowMs: number): void
  /** Returns the chains that count as behind from now on because their settlement is away. */
  look(nowMs: number): readonly number[]
}

export function makeSettlementWatch(
  { maxMs, chains }: { readonly maxMs: number; readonly chains: ReadonlySet<number> },
  startedAtMs: number,
): SettlementWatch {
  let links = 0
  let awaySinceMs = startedAtMs
  let told = false
  return {
    linked() {
      links++
      told = false
    },
    gone(nowMs) {
      links--
      awaySinceMs = nowMs
    },
    look(nowMs) {
      // No limit is set, or settlement is linked and reports its own lag.
      if (maxMs === 0 || links > 0 || told || nowMs - awaySinceMs <= maxMs) return []
      told = true
      return [...chains]
    },
  }
}
