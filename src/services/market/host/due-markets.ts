/**
 * A heap of the markets in which something expires, ordered by the second of the next check, so that a tick does not
 * scan all markets. A market may be in the heap several times. Only the entry whose second equals the market’s `dueSec`
 * is valid.
 */

import type { MarketId } from '#domain/ids.ts'
import type { MarketState } from '../state.ts'

/** An item of the heap, with the second of its next check. */
export type Due = {
  /** Second at which the market is checked next; infinite while no check is planned. */
  dueSec: number
}

export class DueMarkets<Item extends Due> {
  readonly #seconds: number[] = []
  readonly #items: Item[] = []

  /** Plans a check at this second, unless an earlier one is planned. */
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

  /** True if a check is due. */
  isDue(nowSec: number): boolean {
    return (this.#seconds[0] ?? Number.POSITIVE_INFINITY) <= nowSec
  }

  /** Removes and returns a market that is due for a check; the caller plans its next check. */
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

/** Returns the first second at which an order of the market or the market itself may expire. */
function nextExpirySec({ closed, market, books: [yes, no] }: MarketState): number {
  const never = Number.POSITIVE_INFINITY
  if (closed !== undefined) return never
  return Math.min(market.expiration, yes.nextExpirySec ?? never, no.nextExpirySec ?? never)
}

/**
 * Plans a check for the market's next expiration, unless an earlier check is planned. Called after the market's orders
 * have changed.
 */
export function planExpiry<Item extends Due & { readonly state: MarketState }>(
  expiring: DueMarkets<Item>,
  item: Item,
): void {
  expiring.plan(item, nextExpirySec(item.state))
}

/** Maximum number of markets that one call checks for expired orders. */
const LOOKS_MAX = 4_096
const EXPIRING_MAX = 64

/** Returns markets with expired orders, at most `EXPIRING_MAX`; the next call finds the others. */
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
    // Plan another check, because the `Expire` command that the caller sends may be refused if too many commands wait.
    expiring.plan(item, Math.max(nextSec, nowSec + 1))
  }
  return due
}
