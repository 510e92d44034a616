/** Random numbers from a seed (mulberry32), so that a failing run can be repeated. */
export type Random = {
  /** An integer from 0 to `limit` − 1. */
  below(limit: number): number
  chance(probability: number): boolean
  pick<T>(list: readonly T[]): T
}

export function seeded(seed: number): Random {
  let state = seed | 0
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * limit)
  }
  return {
    below,
    chance: (probability) => below(1_000_000) < probability * 1_000_000,
    pick: (list) => list[below(list.length)]!,
  }
}
