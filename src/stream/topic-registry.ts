/**
 * Keeps a topic while it has subscribers, and for `lingerMs` after the last subscriber left. So a client that
 * reconnects within this time can get the messages that it missed. The total size of the messages kept by all topics is
 * limited.
 */

import { randomBytes } from 'node:crypto'
import type { Clock } from '#runtime/clock.ts'
import type { CountedFeed, Feed } from './feeds.ts'
import { type RingLimits, Topic } from './topic.ts'

export type ChannelLimits = {
  /**
   * Limits for the messages that are kept for subscribers that resume: messages and bytes per topic, and bytes of all
   * topics together.
   */
  readonly replayMessages: number
  readonly replayBytes: number
  readonly replayBytesTotal: number
  /** Time for which a topic without subscribers is kept. */
  readonly lingerMs: number
  /** Maximum number of topics without subscribers that are kept. */
  readonly lingeringMax: number
}

/**
 * Cursors in a message, if the topic counts its own positions: the cursor of this message, and the cursor of the
 * previous message.
 */
export type CursorStep = { readonly cursor: string; readonly prevCursor: string }

export type TopicRegistry<M> = {
  find(name: string): Feed<M> | undefined
  put<F extends Feed<M>>(feed: F): F
  /** Returns a topic that counts its own positions, with a new epoch. */
  counted(name: string): Topic<M>
  /** Adds a message to the topic of the feed, and sends it to up-to-date subscribers. */
  say(feed: Feed<M>, text: string, at: number): void
  sayNext(feed: CountedFeed<M>, write: (step: CursorStep) => string): void
  /** Records that an event was missed, so that no subscriber can resume from an earlier position. */
  skip(feed: CountedFeed<M>): void
  join(feed: Feed<M>, member: M): void
  leave(feed: Feed<M>, member: M): void
  tidy(): void
  topics(): number
  feeds(): Iterable<Feed<M>>
  lingering(): number
}

export function makeTopicRegistry<M>(ports: {
  readonly limits: ChannelLimits
  readonly clock: Clock
  readonly publish: (topic: string, text: string) => void
  /** Called after the feed was removed. */
  readonly forgotten: (feed: Feed<M>) => void
}): TopicRegistry<M> {
  const { limits, clock } = ports
  const feeds = new Map<string, Feed<M>>()
  /** Feeds without subscribers, each with the time at which its last subscriber left. The earliest comes first. */
  const lingering = new Map<Feed<M>, number>()
  const here = randomBytes(6).toString('hex')
  let epochs = 0
  const ring: { messages: number; bytes: number } & RingLimits = {
    messages: limits.replayMessages,
    bytes: limits.replayBytes,
  }

  function share(): void {
    const fair = Math.floor(limits.replayBytesTotal / Math.max(1, feeds.size))
    ring.bytes = Math.min(limits.replayBytes, fair)
  }

  function forget(feed: Feed<M>): void {
    lingering.delete(feed)
    feeds.delete(feed.topic.name)
    share()
    ports.forgotten(feed)
  }

  function say({ topic }: Feed<M>, text: string, at: number): void {
    topic.push(text, at, ring)
    if (topic.members.size > 0) ports.publish(topic.name, text)
  }

  return {
    find: (name) => feeds.get(name),
    put(feed) {
      feeds.set(feed.topic.name, feed)
      share()
      return feed
    },
    counted: (name) => new Topic<M>(name, 0, `${here}${(epochs++).toString(36)}`),
    say,
    sayNext(feed, write) {
      const { topic } = feed
      const at = topic.last + 1
      say(feed, write({ cursor: topic.cursor(at), prevCursor: topic.cursor(topic.last) }), at)
    },
    skip({ topic }) {
      topic.rebase(topic.last + 1)
      topic.published++
    },
    join(feed, member) {
      feed.topic.members.add(member)
      lingering.delete(feed)
    },
    leave(feed, member) {
      feed.topic.members.delete(member)
      if (feed.topic.members.size > 0 || feeds.get(feed.topic.name) !== feed) return
      // Clients can request any number of different market sets. So the feed of a set is dropped when its last
      // subscriber leaves.
      if (feed.kind === 'ticker' && feed.marketIds !== undefined) {
        forget(feed)
        return
      }
      lingering.set(feed, clock.nowMs())
      for (const oldest of lingering.keys()) {
        if (lingering.size <= limits.lingeringMax) break
        forget(oldest)
      }
    },
    tidy() {
      const since = clock.nowMs() - limits.lingerMs
      for (const [feed, forsakenAtMs] of lingering) {
        if (forsakenAtMs > since) break
        forget(feed)
      }
    },
    topics: () => feeds.size,
    feeds: () => feeds.values(),
    lingering: () => lingering.size,
  }
}
