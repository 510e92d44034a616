/**
 * The AsyncAPI 3 document of the stream, built from the schemas that validate client frames and describe server frames.
 */

import type { TSchema } from 'typebox'
import { type DocumentInfo, written } from '#http/openapi.ts'
import { SERVER_FRAMES } from '#protocol/shapes/stream.ts'
import { OP_FRAMES, SUBSCRIBE_FRAMES } from './frames.ts'

type Json = Record<string, unknown>

/** For each request: types of its replies, and of the messages that follow a subscription. */
const REPLIES: Readonly<Record<string, readonly (keyof typeof SERVER_FRAMES)[]>> = {
  'subscribe.book': ['subscribed', 'book.snapshot', 'book.delta', 'lag', 'error'],
  'subscribe.trades': ['subscribed', 'trades.snapshot', 'trade', 'trade.status', 'lag', 'error'],
  'subscribe.orders': ['subscribed', 'orders.snapshot', 'order', 'orders.ended', 'lag', 'error'],
  'subscribe.market': ['subscribed', 'market.snapshot', 'market', 'lag', 'error'],
  'subscribe.funds': ['subscribed', 'funds.snapshot', 'funds', 'lag', 'error'],
  'subscribe.ticker': ['subscribed', 'ticker.snapshot', 'ticker', 'lag', 'error'],
  'subscribe.price': ['subscribed', 'price.snapshot', 'price', 'lag', 'error'],
  'subscribe.quick-market': ['subscribed', 'quick-market.snapshot', 'quick-market', 'lag', 'error'],
  unsubscribe: ['unsubscribed', 'error'],
  snapshot: [
    'book.snapshot',
    'trades.snapshot',
    'orders.snapshot',
    'market.snapshot',
    'funds.snapshot',
    'ticker.snapshot',
    'price.snapshot',
    'quick-market.snapshot',
    'error',
  ],
  auth: ['authenticated', 'error'],
  place: ['placed', 'error'],
  cancel: ['cancelled', 'error'],
  cancelAll: ['cancelledAll', 'error'],
  deadman: ['deadman', 'error'],
  cancelOnDisconnect: ['cancelOnDisconnect', 'error'],
  ping: ['pong', 'error'],
}

const CHANNEL = '#/channels/stream'
const inChannel = (name: string): Json => ({ $ref: `${CHANNEL}/messages/${name}` })

export function asyncapiDocument(info: DocumentInfo): Json {
  const messages: Record<string, Json> = {}
  const schemas: Record<string, Json> = {}
  const add = (name: string, title: string, schema: TSchema): void => {
    messages[name] = { name, title, payload: written(schema, 'body', schemas) }
  }
  for (const [channel, schema] of Object.entries(SUBSCRIBE_FRAMES)) {
    add(`subscribe.${channel}`, `Subscribe to ${channel}`, schema)
  }
  for (const [op, schema] of Object.entries(OP_FRAMES)) add(op, `Client: ${op}`, schema)
  const asked = Object.keys(messages)
  for (const [type, schema] of Object.entries(SERVER_FRAMES)) {
    // A reply may have the same name as its request, so the two are listed as different messages.
    add(serverName(type), `Server: ${type}`, schema)
  }
  const operations: Record<string, Json> = {}
  for (const name of asked) {
    operations[`receive.${name}`] = {
      action: 'receive',
      channel: { $ref: CHANNEL },
      messages: [inChannel(name)],
      reply: {
        channel: { $ref: CHANNEL },
        messages: (REPLIES[name] ?? []).map((type) => inChannel(serverName(type))),
      },
    }
  }
  for (const type of ['hello', 'heartbeat', 'shutdown']) {
    operations[`send.${type}`] = {
      action: 'send',
      channel: { $ref: CHANNEL },
      messages: [inChannel(serverName(type))],
    }
  }
  return {
    asyncapi: '3.0.0',
    info: {
      title: `${info.title} stream`,
      version: info.version,
      description:
        'One WebSocket for order entry and for live books, trades, orders and markets. Every message of a channel ' +
        'names the previous message, so clients detect lost messages. A checksum verifies each book.',
    },
    defaultContentType: 'application/json',
    servers: {
      exchange: {
        host: '{host}',
        protocol: 'ws',
        description: 'Address of the exchange; the protocol is wss if the exchange uses TLS.',
        variables: { host: { default: '127.0.0.1:8080' } },
      },
    },
    channels: {
      stream: {
        address: '/api/v1/stream',
        description: 'Client and server send JSON text frames.',
        messages: Object.fromEntries(
          Object.keys(messages).map((name) => [name, { $ref: `#/components/messages/${name}` }]),
        ),
      },
    },
    operations,
    components: { messages, schemas },
  }
}

function serverName(type: string): string {
  return type in OP_FRAMES ? `told.${type}` : type
}
