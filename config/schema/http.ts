/** Settings for clients: connections, tokens, limits, event streams and WebSockets. */

import Type from 'typebox'
import { ProxyRange } from './patterns.ts'

export const front = Type.Object({
  host: Type.String({
    env: 'SIBYL_HOST',
    minLength: 1,
    description: 'The address to listen on. 0.0.0.0 or :: is every address.',
  }),
  port: Type.Integer({
    env: 'SIBYL_PORT',
    minimum: 0,
    maximum: 65_535,
    description: 'The port of HTTP and WebSocket. 0 picks a free one.',
  }),
  adminHost: Type.String({
    env: 'SIBYL_ADMIN_HOST',
    minLength: 1,
    description: 'The address that the port of operation listens on.',
  }),
  adminPort: Type.Integer({
    env: 'SIBYL_ADMIN_PORT',
    minimum: 0,
    maximum: 65_535,
    description:
      'The port of /metrics, /readyz and /healthz, without rate limits; then the other port has ' +
      '/healthz only. 0 serves all of them on the main port, where /readyz names its parts only if ' +
      'it listens on a loopback address without proxies.',
  }),
  threads: Type.Integer({
    env: 'SIBYL_FRONT_THREADS',
    minimum: 0,
    maximum: 64,
    unit: 'threads',
    description: 'Threads that share the port. 0 follows the cores: a quarter of them.',
  }),
  corsOrigins: Type.Array(Type.String(), {
    env: 'SIBYL_CORS_ORIGINS',
    maxItems: 100,
    description: 'Origins that browsers may call from, separated by commas; * is any.',
  }),
  readCacheMs: Type.Integer({
    env: 'SIBYL_READ_CACHE_MS',
    minimum: 0,
    maximum: 60_000,
    unit: 'ms',
    description: 'How long sums that are the same for all clients are cached.',
  }),
  metricsCacheMs: Type.Integer({
    env: 'SIBYL_METRICS_CACHE_MS',
    minimum: 0,
    maximum: 60_000,
    unit: 'ms',
    description: 'How long metrics are cached: they are collected at most once in this time.',
  }),
  deadlineMs: Type.Integer({
    env: 'SIBYL_REQUEST_DEADLINE_MS',
    minimum: 100,
    maximum: 120_000,
    unit: 'ms',
    description: 'A request without an answer after this time gets 503.',
  }),
  requestsInFlightMax: Type.Integer({
    env: 'SIBYL_REQUESTS_IN_FLIGHT_MAX',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'requests',
    description: 'Maximum requests in progress in one front thread; one more gets 503.',
  }),
  connectionsMax: Type.Integer({
    env: 'SIBYL_CONNECTIONS_MAX',
    minimum: 1,
    maximum: 10_000_000,
    unit: 'connections',
    description: 'Connections to one front thread; one more gets 503 and is closed.',
  }),
  connectionsPerIpMax: Type.Integer({
    env: 'SIBYL_CONNECTIONS_PER_IP_MAX',
    minimum: 1,
    maximum: 10_000_000,
    unit: 'connections',
    description:
      'Connections of one IPv4 address or IPv6 /64 to all threads, while limits are on and the ' +
      'system is Linux; detected within seconds. Then new ones get 429 and are closed. The clients ' +
      'of a proxy may each have as many requests in progress, and price streams, in one thread.',
  }),
  trustedProxies: Type.Array(Type.String({ pattern: ProxyRange }), {
    env: 'SIBYL_TRUSTED_PROXIES',
    maxItems: 100,
    description: 'Addresses or ranges of proxies with a trusted X-Forwarded-For.',
  }),
})

export const web = Type.Object({
  enabled: Type.Boolean({
    env: 'SIBYL_WEB',
    description: 'Whether the trading page is served at /.',
  }),
  reload: Type.Boolean({
    env: 'SIBYL_WEB_RELOAD',
    description: 'Whether the page is built again at each visit, for developers of the page.',
  }),
})

export const auth = Type.Object({
  bearer: Type.Boolean({
    env: 'SIBYL_AUTH_BEARER',
    description: 'Whether writes need a bearer token of a registered API key.',
  }),
  allowOpenWrites: Type.Boolean({
    env: 'SIBYL_ALLOW_OPEN_WRITES',
    description:
      'Allows a start without bearer tokens on an address that others can reach, or behind a trusted proxy.',
  }),
  singleUseNonce: Type.Boolean({
    env: 'SIBYL_SINGLE_USE_NONCE',
    description: 'Whether a token can be used once only.',
  }),
  nonces: Type.Enum(['memory', 'database'], {
    env: 'SIBYL_NONCES',
    description:
      'Where used tokens are remembered: in the memory of this process, or in the database too, so that each is ' +
      'used once among all exchanges that share it.',
  }),
  noncesMax: Type.Integer({
    env: 'SIBYL_NONCES_MAX',
    minimum: 1_000,
    maximum: 100_000_000,
    unit: 'tokens',
    description: 'Used tokens of the last five minutes that are remembered, 48 bytes each.',
  }),
})

export const limits = Type.Object({
  enabled: Type.Boolean({
    env: 'SIBYL_LIMITS',
    description: 'Whether requests are limited by rate.',
  }),
  bucketsMax: Type.Integer({
    env: 'SIBYL_LIMIT_BUCKETS_MAX',
    minimum: 1_000,
    maximum: 100_000_000,
    unit: 'buckets',
    description: 'Maximum IP ranges and keys with a rate limit at once, 48 bytes each.',
  }),
  ipPerSecond: Type.Integer({
    env: 'SIBYL_LIMIT_IP_PER_SECOND',
    minimum: 1,
    maximum: 10_000_000,
    unit: 'units/s',
    description: 'Units that an IPv4 address or an IPv6 /64 may spend per second.',
  }),
  ipBurst: Type.Integer({
    env: 'SIBYL_LIMIT_IP_BURST',
    minimum: 1,
    maximum: 100_000_000,
    unit: 'units',
    description: 'Units that it may spend at once.',
  }),
  siteTimes: Type.Integer({
    env: 'SIBYL_LIMIT_SITE_TIMES',
    minimum: 1,
    maximum: 65_536,
    unit: 'times',
    description:
      'How many times as much all of an IPv6 /48 may spend, and have open, as one /64 of it.',
  }),
  keyPerSecond: Type.Integer({
    env: 'SIBYL_LIMIT_KEY_PER_SECOND',
    minimum: 1,
    maximum: 10_000_000,
    unit: 'units/s',
    description: 'Units that an API key may spend per second.',
  }),
  keyBurst: Type.Integer({
    env: 'SIBYL_LIMIT_KEY_BURST',
    minimum: 1,
    maximum: 100_000_000,
    unit: 'units',
    description: 'Units that it may spend at once.',
  }),
  readCost: Type.Integer({
    env: 'SIBYL_COST_READ',
    minimum: 0,
    maximum: 1_000_000,
    unit: 'units',
    description: 'The price of a read.',
  }),
  writeCost: Type.Integer({
    env: 'SIBYL_COST_WRITE',
    minimum: 0,
    maximum: 1_000_000,
    unit: 'units',
    description: 'The price of a write, of a check, and of each order of a batch.',
  }),
  registrationCost: Type.Integer({
    env: 'SIBYL_COST_REGISTRATION',
    minimum: 0,
    maximum: 1_000_000,
    unit: 'units',
    description: 'The price of registering or revoking a key.',
  }),
  unfundedPerSecond: Type.Integer({
    env: 'SIBYL_LIMIT_UNFUNDED_PER_SECOND',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'orders/s',
    description:
      'Orders per second of one client that may be rejected because the trader lacks funds, is ' +
      'paused, or has reached a gas budget or the limit of a delegate. After more such ' +
      'rejections, the client can place no orders for a while. A client is an IPv4 address, an ' +
      'IPv6 /64 network or an API key.',
  }),
  unfundedBurst: Type.Integer({
    env: 'SIBYL_LIMIT_UNFUNDED_BURST',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'orders',
    description: 'Maximum burst of these orders.',
  }),
  connectionCost: Type.Integer({
    env: 'SIBYL_COST_CONNECTION',
    minimum: 0,
    maximum: 1_000_000,
    unit: 'units',
    description:
      'The price of opening a connection. Connections have their own bucket, as large as that of requests.',
  }),
})

export const sse = Type.Object({
  readersMax: Type.Integer({
    env: 'SIBYL_SSE_READERS_MAX',
    minimum: 1,
    maximum: 10_000_000,
    unit: 'readers',
    description: 'Readers of price streams of one front thread; one more gets 503.',
  }),
  keepAliveMs: Type.Integer({
    env: 'SIBYL_SSE_KEEP_ALIVE_MS',
    minimum: 100,
    maximum: 600_000,
    unit: 'ms',
    description: 'Interval of comments to a reader while there is no new price.',
  }),
  lagMsMax: Type.Integer({
    env: 'SIBYL_SSE_LAG_MS_MAX',
    minimum: 100,
    maximum: 3_600_000,
    unit: 'ms',
    description: 'A reader that accepts nothing for this long is disconnected.',
  }),
  replayEvents: Type.Integer({
    env: 'SIBYL_SSE_REPLAY_EVENTS',
    minimum: 1,
    maximum: 100_000,
    unit: 'events',
    description: 'Prices of one asset kept for readers that reconnect.',
  }),
})

export const stream = Type.Object({
  heartbeatMs: Type.Integer({
    env: 'SIBYL_STREAM_HEARTBEAT_MS',
    minimum: 100,
    maximum: 600_000,
    unit: 'ms',
    description: 'Interval of heartbeats on each WebSocket.',
  }),
  connectionsMax: Type.Integer({
    env: 'SIBYL_STREAM_CONNECTIONS_MAX',
    minimum: 1,
    maximum: 10_000_000,
    unit: 'sockets',
    description: 'WebSockets of one front thread; one more gets 503.',
  }),
  connectionsPerIp: Type.Integer({
    env: 'SIBYL_STREAM_CONNECTIONS_PER_IP',
    minimum: 1,
    maximum: 10_000_000,
    unit: 'sockets',
    description: 'WebSockets of one IPv4 address or IPv6 /64; one more gets 429.',
  }),
  subscriptionsMax: Type.Integer({
    env: 'SIBYL_STREAM_SUBSCRIPTIONS_MAX',
    minimum: 1,
    maximum: 100_000,
    unit: 'subscriptions',
    description:
      'Subscriptions of one WebSocket. A ticker counts as one for every five markets that it names, and as 20 ' +
      'without names.',
  }),
  subscriptionsPerIp: Type.Integer({
    env: 'SIBYL_STREAM_SUBSCRIPTIONS_PER_IP',
    minimum: 1,
    maximum: 10_000_000,
    unit: 'subscriptions',
    description:
      'Subscriptions of all WebSockets of one IPv4 address or IPv6 /64, counted in the same way.',
  }),
  subscriptionsTotal: Type.Integer({
    env: 'SIBYL_STREAM_SUBSCRIPTIONS_TOTAL',
    minimum: 1,
    maximum: 100_000_000,
    unit: 'subscriptions',
    description: 'Subscriptions of all WebSockets of one front thread, counted in the same way.',
  }),
  messagesPerSecond: Type.Integer({
    env: 'SIBYL_STREAM_MESSAGES_PER_SECOND',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'messages/s',
    description: 'Frames that one WebSocket may send per second.',
  }),
  messagesBurst: Type.Integer({
    env: 'SIBYL_STREAM_MESSAGES_BURST',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'messages',
    description: 'Frames that it may send at once.',
  }),
  payloadBytesMax: Type.Integer({
    env: 'SIBYL_STREAM_PAYLOAD_BYTES_MAX',
    minimum: 1_024,
    maximum: 1_048_576,
    unit: 'bytes',
    description: 'The largest frame that a client may send.',
  }),
  idleTimeoutSec: Type.Integer({
    env: 'SIBYL_STREAM_IDLE_TIMEOUT_SEC',
    minimum: 8,
    maximum: 960,
    unit: 's',
    description: 'A WebSocket that answers no ping for this long is closed.',
  }),
  bufferBytesMax: Type.Integer({
    env: 'SIBYL_STREAM_BUFFER_BYTES_MAX',
    minimum: 4_096,
    maximum: 1_073_741_824,
    unit: 'bytes',
    description:
      'Maximum bytes that wait for a slow reader; beyond that it loses messages and is notified.',
  }),
  lagMsMax: Type.Integer({
    env: 'SIBYL_STREAM_LAG_MS_MAX',
    minimum: 100,
    maximum: 3_600_000,
    unit: 'ms',
    description: 'A reader that lags longer is closed with 4008.',
  }),
  requestsInFlightMax: Type.Integer({
    env: 'SIBYL_STREAM_REQUESTS_IN_FLIGHT_MAX',
    minimum: 1,
    maximum: 100_000,
    unit: 'requests',
    description: 'Orders and cancels of one WebSocket that wait for their answer.',
  }),
  heldOrdersMax: Type.Integer({
    env: 'SIBYL_STREAM_HELD_ORDERS_MAX',
    minimum: 1,
    maximum: 100_000,
    unit: 'orders',
    description:
      'Orders, open or filled by trades that are not settled, that are cancelled when one WebSocket ' +
      'disconnects. The limit applies on each market thread.',
  }),
  reconnectSpreadMs: Type.Integer({
    env: 'SIBYL_STREAM_RECONNECT_SPREAD_MS',
    minimum: 1,
    maximum: 600_000,
    unit: 'ms',
    description: 'Clients are asked to reconnect within this time after a shutdown.',
  }),
  replayMessages: Type.Integer({
    env: 'SIBYL_STREAM_REPLAY_MESSAGES',
    minimum: 0,
    maximum: 1_000_000,
    unit: 'messages',
    description: 'Messages of one topic kept for clients that reconnect.',
  }),
  replayBytes: Type.Integer({
    env: 'SIBYL_STREAM_REPLAY_BYTES',
    minimum: 0,
    maximum: 1_073_741_824,
    unit: 'bytes',
    description: 'Maximum bytes of these messages.',
  }),
  replayBytesTotal: Type.Integer({
    env: 'SIBYL_STREAM_REPLAY_BYTES_TOTAL',
    minimum: 0,
    maximum: 68_719_476_736,
    unit: 'bytes',
    description: 'Bytes kept by all topics of one front thread together.',
  }),
  lingerMs: Type.Integer({
    env: 'SIBYL_STREAM_LINGER_MS',
    minimum: 0,
    maximum: 86_400_000,
    unit: 'ms',
    description: 'How long a topic is kept after its last subscriber left.',
  }),
  lingeringMax: Type.Integer({
    env: 'SIBYL_STREAM_LINGERING_MAX',
    minimum: 0,
    maximum: 10_000_000,
    unit: 'topics',
    description: 'Topics without subscribers that are kept at once.',
  }),
})
