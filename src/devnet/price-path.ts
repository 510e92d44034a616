/**
 * A price path that can be computed for any instant: the same seed gives the same price at the same time on any
 * machine, so that a past price can be checked. The price moves on several scales at the same time, from seconds to
 * hours.
 */

/** Each swing of the price: its period, and its maximum size as a fraction of the base price. */
const SWINGS: readonly (readonly [periodMs: number, share: number])[] = [
  [6 * 3_600_000, 0.02],
  [3_600_000, 0.008],
  [600_000, 0.003],
  [60_000, 0.000_8],
  [5_000, 0.000_15],
]

/** Base price of an asset in USD. */
const BASES: Readonly<Record<string, number>> = { BTC: 64_000, ETH: 3_200 }
const BASE_OTHERWISE = 100

/** Returns the price in USD cents at an instant. */
export function centsAt(seed: number, asset: string, atMs: number): number {
  const base = (BASES[asset] ?? BASE_OTHERWISE) * 100
  const own = mix(seed ^ textSeed(asset))
  let share = 0
  for (const [scale, [periodMs, reach]] of SWINGS.entries()) {
    const step = Math.floor(atMs / periodMs)
    const way = atMs / periodMs - step
    // Move smoothly from one step's value to the next. Use only sums and products, because other functions may give
    // different results on different machines.
    const eased = way * way * (3 - 2 * way)
    const from = lattice(own, scale, step)
    share += reach * (from + (lattice(own, scale, step + 1) - from) * eased)
  }
  return Math.max(1, Math.round(base * (1 + share)))
}

/** Returns the pseudo-random value, from -1 to 1, of one step of the swing with index `scale`. */
function lattice(own: number, scale: number, step: number): number {
  const high = Math.floor(step / 2 ** 32)
  const word = mix(mix(own + scale * 0x9e37_79b1) ^ mix(step | 0) ^ mix(high + 0x51ed))
  return (word / 2 ** 32) * 2 - 1
}

function mix(value: number): number {
  let bits = (value | 0) ^ 0x6a09_e667
  bits = Math.imul(bits ^ (bits >>> 16), 0x7feb_352d)
  bits = Math.imul(bits ^ (bits >>> 15), 0x846c_a68b)
  return (bits ^ (bits >>> 16)) >>> 0
}

function textSeed(text: string): number {
  let hash = 7
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash, 31) + text.charCodeAt(at)
  return hash | 0
}
