/**
 * Heartbeats of connections. Each connection belongs to one of several timer slots. Each tick sends the heartbeats of
 * one slot, and checks all lagging connections.
 */

import type { Clock } from '#runtime/clock.ts'
import type { Channels } from './channels.ts'
import type { Connection, Subscription } from './connection.ts'
import type { Delivery } from './delivery.ts'

/** Number of slots among which the connections are divided. */
const SLOTS = 16

export function makeHeartbeats(
  {
    clock,
    settings,
  }: { readonly clock: Clock; readonly settings: { readonly heartbeatMs: number } },
  {
    connections,
    channels,
    delivery,
    turned,
  }: {
    readonly connections: ReadonlySet<Connection>
    readonly channels: Channels<Subscription>
    readonly delivery: Delivery
    /** Called at each tick. */
    readonly turned: () => void
  },
) {
  const wheel = Array.from({ length: SLOTS }, () => new Set<Connection>())
  let turn = 0
  let ticking = false

  const slotOf = ({ number }: Connection): Set<Connection> => wheel[number % SLOTS]!

  /** Runs one tick: sends the heartbeats of one slot, and checks all lagging connections. */
  function tick(): void {
    ticking = connections.size > 0 || channels.lingering() > 0
    if (ticking) clock.after(settings.heartbeatMs / SLOTS, tick)
    turn = (turn + 1) % SLOTS
    const nowMs = clock.nowMs()
    delivery.checkLagging(nowMs)
    turned()
    for (const connection of wheel[turn]!) {
      if (!delivery.isLagging(connection)) heartbeat(connection, nowMs)
    }
    channels.tidy()
  }

  function heartbeat(connection: Connection, nowMs: number): void {
    let subs = ''
    for (const [name, { live, feed }] of connection.subs) {
      if (!live) continue
      const position = JSON.stringify(channels.shownPosition(feed, feed.topic.last))
      subs += `${subs === '' ? '' : ','}"${name}":${position}`
    }
    delivery.send(connection, `{"type":"heartbeat","ts":${nowMs},"subs":{${subs}}}`)
  }

  return {
    begin(connection: Connection): void {
      slotOf(connection).add(connection)
      if (!ticking) tick()
    },
    end: (connection: Connection) => void slotOf(connection).delete(connection),
  }
}
