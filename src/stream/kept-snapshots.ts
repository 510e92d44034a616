/**
 * The last snapshot of each feed, for clients that request it between two messages of its topic. Bounded in bytes:
 * the least recently used one is evicted.
 */

import type { Feed } from './feeds.ts'

type KeptSnapshots<M> = {
  /** Returns the snapshot written since the last message of the topic, or writes a new one. */
  of(feed: Feed<M>, write: () => string): string
  forget(feed: Feed<M>): void
}

type Kept = { readonly published: number; readonly text: string }

export function keepSnapshots<M>(bytesMax: number): KeptSnapshots<M> {
  /** Most recently used last. */
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
