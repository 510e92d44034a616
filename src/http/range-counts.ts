/**
 * Counts the resources that the clients of each IP range use at present, such as requests in flight. An IP
 * range is an IPv4 address or IPv6 /64; each IPv6 /48 is counted too. Unlike connection limits, these counts
 * also apply to clients of a trusted proxy.
 */

import { limitedRange, siteOf } from './client-ip.ts'

export type RangeCounts = {
  /** Adds `by` to the counts of the ranges that contain the address. An empty address is not counted. */
  add(ip: string, by: number): void
  /** Returns whether a range of the address has reached its maximum. */
  isFull(ip: string): boolean
}

/** While the total of all ranges has reached `totalMax`, a range may use only this share of its own maximum. */
const CROWDED_SHARE = 1 / 64

export function makeRangeCounts({
  perRangeMax,
  totalMax = Number.POSITIVE_INFINITY,
  siteTimes = Number.POSITIVE_INFINITY,
}: {
  readonly perRangeMax: number
  /**
   * Maximum count of all ranges together; unlimited by default. Once it is reached, each range may use only
   * `CROWDED_SHARE` of its own maximum.
   */
  readonly totalMax?: number | undefined
  /** Maximum count of an IPv6 /48, as a multiple of `perRangeMax`; unlimited by default. */
  readonly siteTimes?: number | undefined
}): RangeCounts {
  const counts = new Map<string, number>()
  let total = 0

  function change(range: string, by: number): void {
    const count = (counts.get(range) ?? 0) + by
    if (count > 0) counts.set(range, count)
    else counts.delete(range)
  }

  return {
    add(ip, by) {
      if (ip === '') return
      const range = limitedRange(ip)
      const site = siteOf(range)
      total += by
      change(range, by)
      if (site !== undefined) change(site, by)
    },
    isFull(ip) {
      if (counts.size === 0) return false
      const range = limitedRange(ip)
      const rangeMax = total >= totalMax ? perRangeMax * CROWDED_SHARE : perRangeMax
      if ((counts.get(range) ?? 0) >= rangeMax) return true
      const site = siteOf(range)
      return site !== undefined && (counts.get(site) ?? 0) >= rangeMax * siteTimes
    },
  }
}
