/**
 * Cache of the last snapshot of each feed. The cached snapshot serves clients until the next message of the feed's
 * topic. The cache is bounded in bytes: the least recently used snapshot is evicted.
 */

import type { Feed } from './feeds.ts'

type KeptSnapshots<M> = {
  /**
   * Returns the cached snapshot if the feed's topic has published no message since the snapshot was written. Otherwise
   * calls `write` and caches the result.
   */
  of(feed: Feed<M>, write: () => string): string
  forget(feed: Feed<M>): void
}

type Kept = { readonly published: number; readonly text: string }

export function keepSnapshots<M>(bytesMax: number): KeptSnapshots<M> {
  /** Snapshots by feed, the least recently used first. */
  const kept = new Map<Feed<M>, Kept>()
  let bytes = 0

  function forget(feed: Feed<M>): void {
    bytes -= kept.get(feed)?.text.length ?? 0
    kept.delete(feed)
  }

  return {
    of(feed, write) {
      const { published } = feed.topic
      const known = kept.get(feed)
      const text = known?.published === published ? known.text : write()
      forget(feed)
      kept.set(feed, { published, text })
      bytes += text.length
      for (const oldest of kept.keys()) {
        if (bytes <= bytesMax) break
        forget(oldest)
      }
      return text
    },
    forget,
  }
}
