/**
 * Detects that no settlement thread is linked. A linked settlement thread reports its own lag. If none was linked for
 * longer than the maximum lag, every chain whose trades the exchange settles counts as behind. Markets on these chains
 * then accept cancels only. This ends when a settlement thread is linked and reports that the chain is not behind.
 */

export type SettlementWatch = {
  linked(): void
  gone(nowMs: number): void
  /** Returns the chains that count as behind from now on because no settlement thread is linked. */
  look(nowMs: number): readonly number[]
}

export function makeSettlementWatch(
  { maxMs, chains }: { readonly maxMs: number; readonly chains: ReadonlySet<number> },
  startedAtMs: number,
): SettlementWatch {
  let links = 0
  let awaySinceMs = startedAtMs
  let isReported = false
  return {
    linked() {
      links++
      isReported = false
    },
    gone(nowMs) {
      links--
      awaySinceMs = nowMs
    },
    look(nowMs) {
      // Report no chains if no limit is set, if a settlement thread is linked (it reports its own lag), or if the
      // chains were reported before.
      if (maxMs === 0 || links > 0 || isReported || nowMs - awaySinceMs <= maxMs) return []
      isReported = true
      return [...chains]
    },
  }
}
