/** The subscriptions of all connections, and their limits: per connection, per range of IP addresses, and in total. */

import { type Rejection, reject } from '#domain/rejection.ts'
import type { Channels } from './channels.ts'
import { type Connection, rangesOf, type Subscription } from './connection.ts'
import type { ConnectionCount } from './connection-count.ts'
import type { Feed } from './feeds.ts'
import type { RequestPorts } from './request-ports.ts'

export type SubscriptionTable = ReturnType<typeof makeSubscriptionTable>

export function makeSubscriptionTable(
  settings: RequestPorts['settings'],
  count: ConnectionCount,
  channels: Channels<Subscription>,
) {
  let subscriptions = 0
  /** Sum of the weights of all subscriptions. */
  let subscribed = 0

  function countSubscribed(connection: Connection, by: number): void {
    subscribed += by
    connection.subscribed += by
    for (const range of rangesOf(connection)) count.add(keyOf(range), by)
  }

  return {
    size: () => subscriptions,
    /** Returns a rejection if a further subscription of weight `size` would exceed a limit; otherwise undefined. */
    noRoomFor(connection: Connection, size: number): Rejection | undefined {
      const { subscriptionsMax, subscriptionsPerIp, subscriptionsTotal, siteTimes } = settings
      if (connection.subscribed + size > subscriptionsMax) {
        const detail = `a stream connection can have at most ${subscriptionsMax} subscriptions: unsubscribe from some first`
        return reject('RATE_LIMITED', 'channel', detail)
      }
      const [range = '', site] = rangesOf(connection)
      const siteMax = subscriptionsPerIp * (siteTimes ?? Number.POSITIVE_INFINITY)
      const isFull = count.of(keyOf(range)) + size > subscriptionsPerIp
      if (isFull || (site !== undefined && count.of(keyOf(site)) + size > siteMax)) {
        const detail =
          `all stream connections of an IP address can have at most ${subscriptionsPerIp} subscriptions together: ` +
          'unsubscribe from some first'
        return reject('RATE_LIMITED', 'channel', detail)
      }
      return subscribed + size > subscriptionsTotal ? reject('OVERLOADED') : undefined
    },
    add(connection: Connection, feed: Feed<Subscription>, size: number): Subscription {
      const sub: Subscription = {
        feed,
        connection,
        size,
        live: false,
        ack: undefined,
        since: undefined,
        reset: false,
        lagged: false,
        lagAt: 0,
        missed: 0,
        paid: true,
        taken: undefined,
        asking: false,
      }
      connection.subs.set(feed.topic.name, sub)
      channels.join(feed, sub)
      subscriptions++
      countSubscribed(connection, size)
      return sub
    },
    drop(sub: Subscription): void {
      const { connection, feed } = sub
      connection.subs.delete(feed.topic.name)
      connection.waiting.delete(sub)
      if (sub.live) connection.ws?.unsubscribe(feed.topic.name)
      sub.live = false
      channels.leave(feed, sub)
      subscriptions--
      countSubscribed(connection, -sub.size)
    },
  }
}

/**
 * Returns the key under which `count` has the subscriptions of a range of IP addresses. Under the range itself as key,
 * `count` has the connections of the range.
 */
const keyOf = (range: string): string => `subscribed ${range}`
