/**
 * Repeatable randomness: a small generator made from a seed, and a wrapper that names the seed of a failed run.
 * `TEST_SEED=…` runs that seed again.
 */

import { seedsOf } from './sample.ts'

export type Random = {
  readonly seed: number
  /** Returns a random number from 0 up to, but not including, 1. */
  next(): number
  /** Returns a whole number from `from` to `to`, both included. */
  int(from: number, to: number): number
  chance(share: number): boolean
  pick<Item>(items: readonly Item[]): Item
  /** Returns `0x` and this many random bytes in hex. */
  hex(bytes: number): string
}

const DIGITS = Buffer.from('0123456789abcdef')

/** Returns a generator: a 32-bit counter whose values are scrambled by shifts and multiplications. */
export function randomFrom(seed: number): Random {
  let counter = seed | 0
  function word(): number {
    counter = (counter + 0x6d2b79f5) | 0
    let bits = Math.imul(counter ^ (counter >>> 16), 0x21f0aaad)
    bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97)
    return (bits ^ (bits >>> 15)) >>> 0
  }
  const next = () => (word() * 2 ** 21 + (word() >>> 11)) / 2 ** 53
  return {
    seed,
    next,
    int: (from, to) => from + Math.floor(next() * (to - from + 1)),
    chance: (share) => word() < share * 2 ** 32,
    pick: (items) => items[word() % items.length]!,
    hex(bytes) {
      // Writes digits into a buffer, because concatenating strings is slower.
      const text = Buffer.from('0x'.padEnd(2 + 2 * bytes))
      for (let at = 2; at < text.length; at += 8) {
        const bits = word()
        const end = Math.min(at + 8, text.length)
        for (let digit = at; digit < end; digit++) {
          text[digit] = DIGITS[(bits >>> (28 - 4 * (digit - at))) & 15]!
        }
      }
      return text.toString('latin1')
    },
  }
}

/** Returns this many of the items in random order. No item is repeated before every item has occurred once. */
export function dealt<Item>(random: Random, items: readonly Item[], count: number): Item[] {
  const all: Item[] = []
  let deck: Item[] = []
  while (all.length < count) {
    if (deck.length === 0) deck = [...items]
    all.push(...deck.splice(random.int(0, deck.length - 1), 1))
  }
  return all
}

/** Runs the body with a random one of these seeds, or with all of them if `TEST_WHOLE=1`. A failure names its seed. */
export function withSeeds(seeds: readonly number[], body: (random: Random) => void): void {
  for (const seed of seedsOf(...seeds)) {
    try {
      body(randomFrom(seed))
    } catch (error) {
      if (error instanceof Error) error.message = `TEST_SEED=${seed}: ${error.message}`
      throw error
    }
  }
}
