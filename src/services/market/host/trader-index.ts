/**
 * Index of the books in which each trader has open orders. So the cost of listing a trader's orders depends
 * on the orders of that trader, not on all orders. The books update the index themselves, during commands,
 * replays and loads of snapshots.
 *
 * A closing market ends all its orders at once, possibly a million. Its traders are then removed from the
 * index in short steps. Until that is done, the index may still return the market’s empty books.
 */

import type { TraderWatch } from '#book/book.ts'
import type { Address } from '#domain/ids.ts'

/** One book in the index. `home` is a value that the caller chooses for the book, and that look-ups return. */
export class Residence<Home> implements TraderWatch {
  readonly home: Home
  /** Number of traders with orders in the book. */
  traders = 0
  readonly #index: TraderIndex<Home>

  constructor(home: Home, index: TraderIndex<Home>) {
    this.home = home
    this.#index = index
  }

  entered(trader: Address): void {
    this.traders++
    this.#index.enter(trader, this)
  }

  left(trader: Address): void {
    this.traders--
    this.#index.leave(trader, this)
  }

  cleared(traders: readonly Address[]): void {
    this.traders = 0
    this.#index.clear(traders, this)
  }
}

/**
 * The index is split into many small maps. A map that grows is rebuilt as a whole, which takes little time for a small
 * map.
 */
const SHARDS = 64

export class TraderIndex<Home> {
  /** For each trader, the book with the trader’s orders, or a set of such books. */
  readonly #shards = Array.from(
    { length: SHARDS },
    () => new Map<Address, Residence<Home> | Set<Residence<Home>>>(),
  )
  readonly #busy = new Set<Residence<Home>>()
  /** Books that lost their last order since the last `takeEmptied`. */
  #emptied = new Set<Residence<Home>>()
  readonly #leaving: {
    readonly residence: Residence<Home>
    readonly traders: readonly Address[]
    at: number
  }[] = []

  /** Returns the books in which the trader may have orders. */
  of(trader: Address): Iterable<Residence<Home>> {
    const places = this.#shardOf(trader).get(trader)
    if (places === undefined) return []
    return places instanceof Set ? places : [places]
  }

  /** Books with orders. */
  get busy(): ReadonlySet<Residence<Home>> {
    return this.#busy
  }

  /** Returns books that lost their last order since the last call. Some of these books may have new orders. */
  takeEmptied(): ReadonlySet<Residence<Home>> {
    const emptied = this.#emptied
    if (emptied.size > 0) this.#emptied = new Set()
    return emptied
  }

  /** True if traders of cleared books must still be removed from the index. */
  get isLeaving(): boolean {
    return this.#leaving.length > 0
  }

  /** Removes some traders of cleared books. */
  step(tradersMax: number): void {
    for (let left = tradersMax; left > 0; ) {
      const next = this.#leaving[0]
      if (next === undefined) return
      const end = Math.min(next.at + left, next.traders.length)
      left -= end - next.at
      for (; next.at < end; next.at++) this.#remove(next.traders[next.at]!, next.residence)
      if (next.at === next.traders.length) this.#leaving.shift()
    }
  }

  /** Removes books that were unloaded without having been cleared. */
  drop(isGone: (home: Home) => boolean): void {
    for (const shard of this.#shards) {
      for (const [trader, places] of shard) {
        for (const residence of places instanceof Set ? [...places] : [places]) {
          if (isGone(residence.home)) this.#remove(trader, residence)
        }
      }
    }
    for (const residences of [this.#busy, this.#emptied]) {
      for (const residence of residences) if (isGone(residence.home)) residences.delete(residence)
    }
  }

  enter(trader: Address, residence: Residence<Home>): void {
    if (residence.traders === 1) this.#busy.add(residence)
    const shard = this.#shardOf(trader)
    const places = shard.get(trader)
    if (places === undefined) shard.set(trader, residence)
    else if (places instanceof Set) places.add(residence)
    else shard.set(trader, new Set([places, residence]))
  }

  leave(trader: Address, residence: Residence<Home>): void {
    if (residence.traders === 0) {
      this.#busy.delete(residence)
      this.#emptied.add(residence)
    }
    this.#remove(trader, residence)
  }

  clear(traders: readonly Address[], residence: Residence<Home>): void {
    this.#busy.delete(residence)
    this.#leaving.push({ residence, traders, at: 0 })
  }

  #remove(trader: Address, residence: Residence<Home>): void {
    const shard = this.#shardOf(trader)
    const places = shard.get(trader)
    if (places === residence) shard.delete(trader)
    else if (places instanceof Set && places.delete(residence) && places.size === 1) {
      for (const last of places) shard.set(trader, last)
    }
  }

  #shardOf(trader: Address): Map<Address, Residence<Home> | Set<Residence<Home>>> {
    return this.#shards[((trader.charCodeAt(40) & 7) << 3) | (trader.charCodeAt(41) & 7)]!
  }
}
