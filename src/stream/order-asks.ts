/**
 * Requests a trader's open orders from the market threads, for the snapshot of a subscription. The number of concurrent
 * requests is limited.
 */

import type { Address } from '#domain/ids.ts'
import { OPEN_ORDERS_SNAPSHOT_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Connection, Subscription } from './connection.ts'

/** Maximum number of concurrent requests for open orders. */
const ASKS_MAX = 32
const ASK_AGAIN_MS = 250

const isGone = ({ connection, feed }: Subscription): boolean =>
  connection.subs.get(feed.topic.name)?.feed !== feed || connection.ws === undefined

/**
 * Returns a function that requests the orders for a subscription, unless a request for that subscription is in
 * progress.
 */
export function makeOrderAsks({
  gateway,
  clock,
  deadlineMs,
  pump,
}: {
  readonly gateway: Pick<MarketGateway, 'openOrdersPage'>
  readonly clock: Clock
  readonly deadlineMs: number
  /** Sends the connection's waiting snapshots. Called when the orders for one of them have arrived. */
  readonly pump: (connection: Connection) => void
}): (sub: Subscription) => void {
  const asks: Subscription[] = []
  let asking = 0

  function ask(sub: Subscription): void {
    if (sub.asking) return
    sub.asking = true
    sub.taken = undefined
    asks.push(sub)
    askNext()
  }

  function askNext(): void {
    while (asking < ASKS_MAX) {
      const sub = asks.shift()
      if (sub === undefined) return
      if (isGone(sub) || sub.feed.kind !== 'orders') {
        sub.asking = false
        continue
      }
      asking++
      void askOrders(sub, sub.feed.trader).finally(() => {
        asking--
        askNext()
      })
    }
  }

  async function askOrders(sub: Subscription, trader: Address) {
    // Read the topic's position before requesting the orders. So the list is at least as new as this position. The
    // topic keeps all later events, so the list and these events together are complete.
    const at = sub.feed.topic.last
    const deadlineAtMs = clock.nowMs() + deadlineMs
    const asked = { trader, limit: OPEN_ORDERS_SNAPSHOT_MAX }
    const page = await gateway.openOrdersPage(asked, { deadlineAtMs })
    sub.asking = false
    if (isGone(sub)) return
    if (isRejection(page)) {
      clock.after(ASK_AGAIN_MS, () => {
        if (!isGone(sub) && !sub.live) ask(sub)
      })
      return
    }
    sub.taken = { ...page, at }
    pump(sub.connection)
  }

  return ask
}
