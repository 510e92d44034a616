/** Handles requests to subscribe, to unsubscribe, or to send the snapshot of a subscription again. */

import { isRejection, reject } from '#domain/rejection.ts'
import type { Channels } from './channels.ts'
import type { Connection, Subscription } from './connection.ts'
import type { Delivery } from './delivery.ts'
import type { Feed } from './feeds.ts'
import type { Asked, RequestPorts } from './request-ports.ts'
import type { RequestWork } from './request-work.ts'
import type { SubscriptionTable } from './subscription-table.ts'
import { replayWeight, snapshotWeight, subscriptionSize, tickersWeight } from './weights.ts'

export function makeSubscriptionRequests(
  { eventMarkets }: Pick<RequestPorts, 'eventMarkets'>,
  { pays, later }: RequestWork,
  within: {
    readonly channels: Channels<Subscription>
    readonly delivery: Delivery
    readonly table: SubscriptionTable
  },
) {
  const { channels, delivery, table } = within
  const { answer, answerError } = delivery

  /** Subscribes to the tickers of an event, after reading the event's markets from the database. */
  function followEvent(
    connection: Connection,
    request: Asked<'subscribe'>,
    event: Parameters<typeof eventMarkets>[0],
  ): void {
    if (!pays(connection, request, { snapshot: EVENT_WEIGHT })) return
    later(connection, request.id, async () => {
      const found = await eventMarkets(event)
      if (found === undefined) return NO_EVENT
      if (connection.ws === undefined) return undefined
      const feed = channels.eventFeedOf(found)
      follow(connection, request, { feed, namedWeight: EVENT_WEIGHT })
      return undefined
    })
  }

  /** Adds a subscription to a feed. `namedWeight` is the part of the snapshot's cost that is already charged. */
  function follow(
    connection: Connection,
    request: Asked<'subscribe'>,
    { feed, namedWeight }: { readonly feed: Feed<Subscription>; readonly namedWeight: number },
  ): void {
    const { id, since } = request
    const known = connection.subs.get(feed.topic.name)
    const size = subscriptionSize(feed)
    const refused = known === undefined ? table.noRoomFor(connection, size) : undefined
    if (refused !== undefined) answerError(connection, id, refused)
    const snapshot = Math.max(0, subscribeWeight(feed, since) - namedWeight)
    if (refused !== undefined || !pays(connection, request, { snapshot })) {
      // Removes a topic that was created only for this request.
      if (known === undefined) channels.leave(feed, NOBODY)
      return
    }
    const sub = known ?? table.add(connection, feed, size)
    delivery.wait(sub)
    sub.paid = true
    sub.ack = { id }
    sub.since = since
    delivery.pump(connection)
  }

  function subscribeWeight(feed: Feed<Subscription>, since: number | string | undefined): number {
    const replay = since === undefined ? undefined : channels.resume(feed, since)
    return replay === undefined ? snapshotWeight(feed) : replayWeight(replay.texts)
  }

  return {
    subscribe(connection: Connection, request: Asked<'subscribe'>): void {
      const { id, wanted } = request
      if (wanted.channel === 'ticker' && wanted.event !== undefined) {
        followEvent(connection, request, wanted.event)
        return
      }
      // Finding or creating the topic for a set of markets costs as much as writing the snapshot of these markets. So
      // this cost is charged first.
      const namedWeight =
        wanted.channel === 'ticker' ? tickersWeight(wanted.marketIds?.length ?? 0) : 0
      if (!pays(connection, request, { snapshot: namedWeight })) return
      const feed = channels.feedOf(wanted)
      if (isRejection(feed)) answerError(connection, id, feed)
      else follow(connection, request, { feed, namedWeight })
    },
    unsubscribe(connection: Connection, { id, sub: name }: Asked<'unsubscribe'>): void {
      const sub = connection.subs.get(name)
      if (sub === undefined) answerError(connection, id, NO_SUBSCRIPTION)
      else {
        table.drop(sub)
        answer(connection, { type: 'unsubscribed', id, sub: name })
      }
    },
    snapshot(connection: Connection, request: Asked<'snapshot'>): void {
      const sub = connection.subs.get(request.sub)
      if (sub === undefined) answerError(connection, request.id, NO_SUBSCRIPTION)
      else if (pays(connection, request, { snapshot: snapshotWeight(sub.feed) })) {
        delivery.wait(sub)
        sub.paid = true
        sub.since = undefined
        delivery.pump(connection)
      }
    },
  }
}

const NOBODY = {} as Subscription
/** Cost of reading the markets of an event, in reads. */
const EVENT_WEIGHT = 4
const NO_EVENT = reject('EVENT_NOT_FOUND', 'event')
const NO_SUBSCRIPTION = reject(
  'NOT_FOUND',
  'sub',
  'sub must be the name of a subscription of this connection',
)
