/**
 * Stores live updates until the next call of a `watch*` method. A feed stores at most `KEPT_MAX` updates between two
 * calls. A slow loop misses an update only if more than that many arrive. If several callers wait, all receive the same
 * updates.
 */

import type { StreamSubscription } from '#client/stream-types.ts'

/** Maximum number of updates that are stored between two calls; older ones are dropped. */
const KEPT_MAX = 1_000

export class Feed<Item> {
  #fresh: Item[] = []
  #waiting: PromiseWithResolvers<Item[]> | undefined

  /** Adds updates and wakes all callers. */
  push(items: readonly Item[]): void {
    if (items.length === 0) return
    this.#fresh.push(...items)
    if (this.#fresh.length > KEPT_MAX) this.#fresh.splice(0, this.#fresh.length - KEPT_MAX)
    if (this.#waiting === undefined) return
    const { resolve } = this.#waiting
    this.#waiting = undefined
    resolve(this.#take())
  }

  /**
   * Drops all updates that no caller has received yet, and stores this one, because only the newest state
   * matters.
   */
  replace(item: Item): void {
    this.#fresh = []
    this.push([item])
  }

  /** Returns all updates since the last call, or waits for the next update. */
  next(): Promise<Item[]> {
    if (this.#fresh.length > 0) return Promise.resolve(this.#take())
    this.#waiting ??= Promise.withResolvers<Item[]>()
    return this.#waiting.promise
  }

  fail(error: unknown): void {
    this.#waiting?.reject(error)
    this.#waiting = undefined
  }

  #take(): Item[] {
    const taken = this.#fresh
    this.#fresh = []
    return taken
  }
}

type Entry = { readonly feed: Feed<never>; readonly subscription: StreamSubscription }

/** The feeds of one exchange object. The key of a feed is, for example, `book` followed by an outcome id. */
export class Feeds {
  readonly #entries = new Map<string, Entry>()

  /**
   * Returns the next updates of a feed. The first call subscribes and waits until the subscription is ready, so that no
   * later update is missed.
   */
  async next<Item>(
    key: string,
    subscribe: (feed: Feed<Item>) => StreamSubscription,
  ): Promise<Item[]> {
    let entry = this.#entries.get(key)
    if (entry === undefined) {
      const feed = new Feed<Item>()
      entry = { feed: feed as unknown as Feed<never>, subscription: subscribe(feed) }
      this.#entries.set(key, entry)
    }
    const { feed, subscription } = entry
    try {
      await subscription.ready
    } catch (error) {
      if (this.#entries.get(key) === entry) this.#entries.delete(key)
      throw error
    }
    return (feed as unknown as Feed<Item>).next()
  }

  /** Ends a feed; callers that wait for it receive the error. */
  end(key: string, error: unknown): void {
    const entry = this.#entries.get(key)
    this.#entries.delete(key)
    entry?.subscription.close()
    entry?.feed.fail(error)
  }

  endAll(error: unknown): void {
    for (const key of [...this.#entries.keys()]) this.end(key, error)
  }
}
