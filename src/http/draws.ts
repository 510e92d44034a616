/**
 * What was drawn from the buckets of rate limits lately, by bucket, for fronts that do not share memory: each
 * tells the others now and then. What does not fit is not told, so an attacker's many addresses cost no memory.
 */

/** A bucket's name, what was drawn in milliseconds until it is full again, and how many it holds of these. */
export type Draw = readonly [name: string, spentMs: number, capacityMs: number]

export type Draws = {
  note(name: string, spentMs: number, capacityMs: number): void
  /** What was drawn since it was asked last. */
  take(): Draw[]
}

export function makeDraws(bucketsMax: number): Draws {
  let drawn = new Map<string, { spentMs: number; readonly capacityMs: number }>()
  return {
    note(name, spentMs, capacityMs) {
      const known = drawn.get(name)
      if (known !== undefined) known.spentMs += spentMs
      else if (drawn.size < bucketsMax) drawn.set(name, { spentMs, capacityMs })
    },
    take() {
      if (drawn.size === 0) return []
      const taken = [...drawn].map(([name, each]) => [name, each.spentMs, each.capacityMs] as const)
      drawn = new Map()
      return taken
    },
  }
}

/** What another machine says that was drawn there, without what cannot be meant so. */
export function readDraws(said: unknown): Draw[] {
  return Array.isArray(said) ? said.filter(isDraw) : []
}

function isDraw(said: unknown): said is Draw {
  if (!Array.isArray(said)) return false
  const [name, spentMs, capacityMs] = said as unknown[]
  return typeof name === 'string' && isSpan(spentMs) && isSpan(capacityMs)
}

function isSpan(ms: unknown): boolean {
  return typeof ms === 'number' && Number.isFinite(ms) && ms >= 0
}
