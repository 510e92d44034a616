/**
 * Which markets have something that expires, by the second from which on they have to be looked at: a
 * heap, so that no look at the clock asks all markets. A market may stand in it more than once; the
 * place that counts is the one that it knows itself.
 */

import type { MarketId } from '#domain/ids.ts'
import type { MarketState } from '../state.ts'

/** What can be due. */
export type Due = {
  /** The second at which it is looked at next; infinite while it is not in the heap. */
  dueSec: number
}

export class DueMarkets<Item extends Due> {
  readonly #seconds: number[] = []
  readonly #items: Item[] = []

  /** It has to be looked at by then; an earlier look that is planned stays. */
  plan(item: Item, sec: number): void {
    if (sec >= item.dueSec) return
    item.dueSec = sec
    let at = this.#seconds.length
    this.#seconds.push(sec)
    this.#items.push(item)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (this.#seconds[parent]! <= sec) break
      this.#swap(at, parent)
      at = parent
    }
  }

  /** Whether the second of one has come. */
  isDue(nowSec: number): boolean {
    return (this.#seconds[0] ?? Number.POSITIVE_INFINITY) <= nowSec
  }

  /** Takes one out whose second has come; it is to be planned anew. */
  take(nowSec: number): Item | undefined {
    while (this.isDue(nowSec)) {
      const [sec, item] = [this.#seconds[0]!, this.#items[0]!]
      this.#removeFirst()
      if (item.dueSec !== sec) continue
      item.dueSec = Number.POSITIVE_INFINITY
      return item
    }
    return undefined
  }

  #removeFirst(): void {
    this.#swap(0, this.#seconds.length - 1)
    this.#seconds.pop()
    this.#items.pop()
    const { length } = this.#seconds
    for (let at = 0; ; ) {
      let first = at
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < length && this.#seconds[child]! < this.#seconds[first]!) first = child
      }
      if (first === at) return
      this.#swap(at, first)
      at = first
    }
  }

  #swap(a: number, b: number): void {
    const [sec, item] = [this.#seconds[a]!, this.#items[a]!]
    this.#seconds[a] = this.#seconds[b]!
    this.#items[a] = this.#items[b]!
    this.#seconds[b] = sec
    this.#items[b] = item
  }
}

/** Before this second nothing of the market expires. */
function nextExpirySec({ closed, market, books: [yes, no] }: MarketState): number {
  const never = Number.POSITIVE_INFINITY
  if (closed !== undefined) return never
  return Math.min(market.expiration, yes.nextExpirySec ?? never, no.nextExpirySec ?? never)
}

/** Something may have come to a market that expires before everything else in it. */
export function planExpiry<Item extends Due & { readonly state: MarketState }>(
  expiring: DueMarkets<Item>,
  item: Item,
): void {
  expiring.plan(item, nextExpirySec(item.state))
}

/** Markets that are looked at, and that are told to expire what they have, in one go. */
const LOOKS_MAX = 4_096
const EXPIRING_MAX = 64

/** Some markets that have something to expire now; the others are found at the next call. */
export function marketsToExpire<Item extends Due & { readonly state: MarketState }>(
  {
    expiring,
    markets,
  }: {
    readonly expiring: DueMarkets<Item>
    readonly markets: ReadonlyMap<MarketId, Item>
  },
  nowMs: number,
): MarketId[] {
  const nowSec = Math.floor(nowMs / 1_000)
  const due: MarketId[] = []
  for (let looks = 0; looks < LOOKS_MAX && due.length < EXPIRING_MAX; looks++) {
    const item = expiring.take(nowSec)
    if (item === undefined) return due
    const marketId = item.state.market.id
    if (markets.get(marketId) !== item) continue
    const nextSec = nextExpirySec(item.state)
    if (nextSec <= nowSec) due.push(marketId)
    // What is told may get lost where too much waits, so it is looked at again.
    expiring.plan(item, Math.max(nextSec, nowSec + 1))
  }
  return due
}
