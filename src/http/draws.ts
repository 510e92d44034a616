/**
 * Collects draws: the amounts that requests recently took from rate-limit buckets. Fronts that do not share memory
 * publish their draws to each other at intervals. Refused draws are not collected. Only `bucketsMax` buckets are
 * tracked, so an attacker with many IP addresses cannot use up the memory.
 */

/**
 * A draw from a bucket: the name of the bucket, the amount, and the capacity of the bucket. Amount and capacity are
 * given as the time in milliseconds in which the bucket refills them.
 */
export type Draw = readonly [name: string, spentMs: number, capacityMs: number]

export type Draws = {
  note(name: string, spentMs: number, capacityMs: number): void
  /** Returns and clears the draws since the last call. */
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

/** Parses the draws of another machine and drops malformed ones. */
export function readDraws(message: unknown): Draw[] {
  return Array.isArray(message) ? message.filter(isDraw) : []
}

function isDraw(message: unknown): message is Draw {
  if (!Array.isArray(message)) return false
  const [name, spentMs, capacityMs] = message as unknown[]
  return typeof name === 'string' && isSpan(spentMs) && isSpan(capacityMs)
}

function isSpan(ms: unknown): boolean {
  return typeof ms === 'number' && Number.isFinite(ms) && ms >= 0
}
