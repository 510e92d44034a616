/**
 * Whether settlement can be heard. It tells the markets when it is behind; while it is away it tells
 * nothing. So a settlement that has been away for as long as it may be behind counts as behind, and the
 * markets of its chains take cancels only until it is back and says otherwise.
 */

export type SettlementWatch = {
  linked(): void
  gone(nowMs: number): void
  /** The chains that are behind from now on, because of a settlement that is away. */
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
      // No limit is set, or settlement is there to say by itself how far it is.
      if (maxMs === 0 || links > 0 || told || nowMs - awaySinceMs <= maxMs) return []
      told = true
      return [...chains]
    },
  }
}
