/** Handles the requests of clients on the stream, with one handler per kind of request. */

import { traced } from '#api/orders/order-trace.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import { isRejection } from '#domain/rejection.ts'
import type { Channels } from './channels.ts'
import type { Connection, Subscription } from './connection.ts'
import type { ConnectionCount } from './connection-count.ts'
import type { Delivery } from './delivery.ts'
import type { Request } from './frames.ts'
import { makeOrderRequests } from './order-requests.ts'
import type { Asked, RequestPorts } from './request-ports.ts'
import { makeRequestWork } from './request-work.ts'
import type { Sessions } from './sessions.ts'
import { makeSubscriptionRequests } from './subscription-requests.ts'
import { makeSubscriptionTable } from './subscription-table.ts'

type Requests = {
  act(connection: Connection, request: Request): void
  /** Ends a subscription. */
  drop(sub: Subscription): void
  subscriptions(): number
}

type Handlers = {
  readonly [Op in Request['op']]: (connection: Connection, request: Asked<Op>) => void
}

export function makeRequests(
  ports: RequestPorts,
  within: {
    readonly channels: Channels<Subscription>
    readonly delivery: Delivery
    readonly sessions: Sessions
    readonly count: ConnectionCount
    /** Called when the work of a request has ended and its answer is sent. */
    readonly answered: (connection: Connection) => void
  },
): Requests {
  const { own, settings, clock, tracer } = ports
  const { delivery, sessions, channels, count } = within
  const work = makeRequestWork(ports, within)
  const table = makeSubscriptionTable(settings, count, channels)
  const subscriptions = makeSubscriptionRequests(ports, work, { channels, delivery, table })
  const orders = makeOrderRequests(ports, within)
  const { pays, later, write, ownWrite } = work

  const handlers: Handlers = {
    ...subscriptions,
    auth(connection, request) {
      if (!pays(connection, request)) return
      later(connection, request.id, async () => {
        const principal = await sessions.authenticate(connection, request.token)
        if (isRejection(principal)) return principal
        return { type: 'authenticated', address: checksumAddress(principal.address) }
      })
    },
    place(connection, request) {
      write(connection, request, () =>
        traced(tracer, request, (stages) => orders.place(connection, request, stages)),
      )
    },
    cancel(connection, request) {
      write(connection, request, () =>
        traced(tracer, request, (stages) => orders.cancel(connection, request, stages)),
      )
    },
    cancelAll(connection, request) {
      ownWrite(connection, request, async (principal, deadlineAtMs) => {
        const { marketId: market, group, trader } = request
        const cancelled = await own.cancelAll(principal, { market, group, trader }, deadlineAtMs)
        return isRejection(cancelled) ? cancelled : { ...cancelled, type: 'cancelledAll' }
      })
    },
    deadman(connection, request) {
      ownWrite(connection, request, async (principal, deadlineAtMs) => {
        const set = await own.deadman(principal, request, deadlineAtMs)
        return isRejection(set) ? set : { ...set, type: 'deadman' }
      })
    },
    cancelOnDisconnect: orders.cancelOnDisconnect,
    ping: (connection, { id }) =>
      delivery.answer(connection, { type: 'pong', id, ts: clock.nowMs() }),
  }

  function act<Op extends Request['op']>(connection: Connection, request: Asked<Op>): void {
    handlers[request.op](connection, request as never)
  }

  return { act, drop: table.drop, subscriptions: table.size }
}
