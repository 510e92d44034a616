/**
 * Detects that no settlement thread is linked. A linked settlement thread reports its own lag. If none has been linked
 * for longer than the maximum lag, settlement counts as behind. The markets of its chains then accept cancels only,
 * until a linked settlement thread reports that it is not behind.
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
