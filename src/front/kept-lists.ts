/**
 * Lists that many read and that seldom change, kept for a moment as the database gave them, so that
 * a crowd costs one query. What changes by the second is added to them for each answer. Who asks
 * while one is being read waits for that one. The oldest go first when there are too many.
 */

import type { Clock } from '#runtime/clock.ts'

export type KeptLists<T> = {
  read(name: string, make: () => Promise<T>): Promise<T>
}

export function keepLists<T>(options: {
  /** How long a list is good for; with 0 only those who ask at the same time share one. */
  readonly keepMs: number
  readonly listsMax: number
  readonly clock: Pick<Clock, 'nowMs'>
}): KeptLists<T> {
  const { keepMs, listsMax, clock } = options
  const kept = new Map<string, { readonly list: Promise<T>; untilMs: number }>()

  return {
    read(name, make) {
      const known = kept.get(name)
      if (known !== undefined && clock.nowMs() < known.untilMs) return known.list
      const entry = { list: make(), untilMs: Number.POSITIVE_INFINITY }
      const drop = () => {
        if (kept.get(name) === entry) kept.delete(name)
      }
      kept.delete(name)
      kept.set(name, entry)
      for (const oldest of kept.keys()) {
        if (kept.size <= listsMax) break
        kept.delete(oldest)
      }
      entry.list.then(() => {
        entry.untilMs = clock.nowMs() + keepMs
        if (keepMs === 0) drop()
      }, drop)
      return entry.list
    },
  }
}
