/** `GET /api/v1/stream`: the WebSocket for live books, trades and orders. */

import { type UpgradeRoute, upgradeRoute } from '#http/route.ts'
import type { SocketData } from '../connection.ts'
import type { StreamHub, StreamSettings } from '../hub.ts'

/**
 * Maximum size of a frame that still gets an answer, as a multiple of `payloadBytesMax`. For a larger frame the
 * WebSocket library closes the connection.
 */
const PAYLOAD_GRACE = 4

export function stream(
  hub: StreamHub,
  settings: Pick<StreamSettings, 'payloadBytesMax' | 'idleTimeoutSec' | 'bufferBytesMax'>,
): UpgradeRoute {
  return upgradeRoute<SocketData, never>({
    kind: 'upgrade',
    method: 'GET',
    path: '/api/v1/stream',
    operationId: 'openStream',
    auth: 'public',
    cost: 'read',
    tag: 'stream',
    summary: 'Open the WebSocket stream',
    description:
      'A WebSocket for order entry and for live books, trades, orders and markets, in sequence. `/asyncapi.json` ' +
      'describes its messages.',
    readsIp: true,
    errors: ['RATE_LIMITED', 'OVERLOADED'],
    accept: ({ ip }) => hub.admit(ip),
    socket: {
      maxPayloadLength: PAYLOAD_GRACE * settings.payloadBytesMax,
      maxBackpressure: settings.bufferBytesMax,
      closeOnBackpressureLimit: false,
      idleTimeout: settings.idleTimeoutSec,
      sendPingsAutomatically: true,
      open: (ws) => hub.opened(ws),
      ping: (ws) => hub.pinged(ws),
      pong: (ws) => hub.pinged(ws),
      message: (ws, message, isBinary) => hub.received(ws, message, isBinary),
      dropped: (ws, message) => hub.dropped(ws, message),
      drain: (ws) => hub.drained(ws),
      close: (ws) => hub.closed(ws),
    },
  })
}
