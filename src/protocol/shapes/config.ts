/** The answer of `GET /api/v1/config`: everything an integrator would otherwise hard-code. */

import Type from 'typebox'
import { type Answer, map } from './fields.ts'

export const SignatureScheme = Type.Object({
  domain: Type.Object({
    name: Type.String(),
    version: Type.String(),
    chainId: Type.Integer(),
    verifyingContract: Type.Optional(Type.String()),
  }),
  primaryType: Type.String(),
  types: Type.Record(
    Type.String(),
    Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
  ),
  nonce: Type.Optional(
    Type.Object(
      {
        contract: Type.Optional(
          Type.String({
            description:
              'Address of the contract on which the function is called; absent if it is the ' +
              'contract of the market',
          }),
        ),
        function: Type.String(),
        args: Type.Array(
          Type.String({
            description:
              'Name of a field of the signed message; the value of this field is the argument',
          }),
        ),
      },
      {
        description:
          'Function of a contract that returns the nonce for the signer’s next message; absent ' +
          'if the nonce of the message does not come from a contract',
      },
    ),
  ),
})
export type SignatureScheme = Answer<typeof SignatureScheme>

const limit = (description: string) => Type.Integer({ description })

/** Limits that every exchange has. */
const LIMITS = {
  priceMin: limit('Lowest price of an order, in millionths of a dollar'),
  priceMax: limit('Highest price of an order, in millionths of a dollar'),
  sizeMin: limit('Smallest size of an order, in millionths of a share'),
  sizeMax: limit('Largest size of an order, in millionths of a share'),
  expirationAheadSecondsMin: limit(
    'Minimum time from the arrival of an order to its expiration, in seconds',
  ),
  bodyBytesMax: limit('Maximum size of a request body, in bytes'),
  batchOrdersMax: limit('Maximum number of orders in one batch request'),
  openOrdersPerMarketMax: limit('Maximum number of open orders of a trader in a market'),
  tradesListedMax: limit('Maximum number of trades in a list'),
  makersPerOrderMax: limit(
    'Maximum number of resting orders that one order can match. If the order is not completely ' +
      'filled after that, the exchange cancels its remaining part',
  ),
  permitBeyondExpirationSecondsMin: limit(
    'Minimum time from the expiration of an order to the deadline of its permit, in seconds',
  ),
  notionalMin: limit(
    'Minimum value of an order (price × size), in millionths of the stablecoin; 0 means no minimum',
  ),
  pendingTradesPerTraderMax: limit(
    'Maximum number of unsettled trades of a trader; 0 means no limit',
  ),
  cooldownSeconds: limit(
    'Length of the pause after a trade that failed by the fault of a trader, in seconds. During ' +
      'the pause, the trader can place no orders. Each further failure doubles the pause. 0 ' +
      'means no pause',
  ),
  cooldownSecondsMax: limit(
    'Maximum length of the pause after failed trades (see `cooldownSeconds`), in seconds',
  ),
  requestDeadlineMs: limit('Maximum duration of a request, in milliseconds'),
  headerBytesMax: limit('Maximum total size of the headers of a request, in bytes'),
  headersMax: limit('Maximum number of headers of a request'),
  apiKeysPerAddressMax: limit('Maximum number of active API keys of a wallet address'),
  apiKeyNameLengthMax: limit('Maximum length of the name of an API key, in characters'),
  tokenAheadSecondsMax: limit(
    'Maximum number of seconds by which `ts` of a bearer token may be later than the exchange’s ' +
      'clock',
  ),
}

/** Limits that an exchange has only if it uses rate limits or a relayer. */
const SOME_LIMITS = {
  ipUnitsPerSecond: Type.Optional(limit('Rate limit of an IP address, in units per second')),
  ipUnitsBurst: Type.Optional(
    limit('Maximum number of units that an IP address can spend in one burst'),
  ),
  siteTimes: Type.Optional(
    limit(
      'Factor for the rate limit of an IPv6 /48 network: the network can use this many times the ' +
        'limit of one IP address',
    ),
  ),
  keyUnitsPerSecond: Type.Optional(limit('Rate limit of an API key, in units per second')),
  keyUnitsBurst: Type.Optional(
    limit('Maximum number of units that an API key can spend in one burst'),
  ),
  readUnits: Type.Optional(limit('Cost of a read, in units of the rate limit')),
  writeUnits: Type.Optional(limit('Cost of a write, in units of the rate limit')),
  registrationUnits: Type.Optional(
    limit('Cost of registering an API key, in units of the rate limit'),
  ),
  unfundedOrdersPerSecond: Type.Optional(
    limit(
      'Rate limit for rejected orders of one client, in orders per second. It counts orders that ' +
        'are rejected for missing funds, a pause of the trader, a spent gas budget or the limits ' +
        'of a delegate. A client above the limit must wait before it can place orders',
    ),
  ),
  unfundedOrdersBurst: Type.Optional(
    limit('Maximum number of orders in one burst for the limit `unfundedOrdersPerSecond`'),
  ),
  connectionUnits: Type.Optional(limit('Cost of a new connection, in units of the rate limit')),
  connectionsPerIpMax: Type.Optional(limit('Maximum number of open connections of an IP address')),
  relayerDeadlineAheadSecondsMax: Type.Optional(
    limit('Maximum time from the request to the deadline of a relayed operation, in seconds'),
  ),
  relayerRedemptionsMax: Type.Optional(
    limit('Maximum number of redemptions in one relayed operation'),
  ),
  relayerCancellationsMax: Type.Optional(
    limit('Maximum number of orders that one relayed operation can withdraw'),
  ),
  relayerOwnerGasPerDay: Type.Optional(
    limit(
      'Maximum gas that the relayer spends on one owner’s operations per UTC day; 0 means no limit',
    ),
  ),
  relayerOwnerOperationsPerMinute: Type.Optional(
    limit('Maximum number of relayed operations of one owner per minute'),
  ),
  relayerOwnerOperationsBurst: Type.Optional(
    limit('Maximum number of relayed operations of one owner in one burst'),
  ),
}

/** Limits of the stream. */
const STREAM_LIMITS = {
  streamConnectionsPerIpMax: Type.Optional(
    limit(
      'Maximum number of stream connections of one IP address; the server answers a further connection with ' +
        '429',
    ),
  ),
  streamSubscriptionsMax: limit(
    'Maximum number of subscriptions of one stream connection. A ticker subscription counts as ' +
      'one subscription for every five of its markets, or as 20 if it covers all markets',
  ),
  streamSubscriptionsPerIpMax: Type.Optional(
    limit(
      'Maximum number of subscriptions of one IP address, in all of its stream connections ' +
        'together. A ticker subscription counts as one subscription for every five of its ' +
        'markets, or as 20 if it covers all markets',
    ),
  ),
  streamMessagesPerSecond: limit('Maximum number of frames that a client can send per second'),
  streamMessagesBurst: limit('Maximum number of frames that a client can send in one burst'),
  streamPayloadBytesMax: limit(
    'Maximum size of a client’s frame, in bytes; a larger frame closes the connection with code 1009',
  ),
  streamMalformedMax: limit(
    'Maximum number of malformed frames within `streamWindowMs`; a further one closes the connection with code ' +
      '4400',
  ),
  streamWindowMs: limit(
    'Window in which the server counts malformed frames and frames above the rate limit, in milliseconds',
  ),
  streamRequestsInFlightMax: limit(
    'Maximum number of unanswered requests (orders, cancels, authentications) of one stream connection',
  ),
  streamHeldOrdersMax: limit(
    'Maximum number of orders that one stream connection can have with `cancelOnDisconnect`, ' +
      'which cancels them when the connection ends. Open orders and filled orders with unsettled ' +
      'trades count. Each thread that runs markets counts its orders separately',
  ),
  streamHeartbeatMs: limit('Time between two heartbeats, in milliseconds'),
  streamIdleSeconds: limit(
    'Time after which the server closes a stream connection whose client answers no ping, in seconds',
  ),
  streamBufferBytesMax: limit(
    'Maximum number of bytes that wait to be sent to one client. If more bytes wait, the server ' +
      'drops messages to that client. When the client has caught up, the server sends new ' +
      'snapshots',
  ),
  streamLagMsMax: limit(
    'Maximum time for which a client may be behind with reading, in milliseconds. After this ' +
      'time, the server closes the connection with code 4008',
  ),
}

const address = Type.String()

export const ChainConfig = Type.Object({
  chainId: Type.Integer(),
  role: Type.Enum(['main', 'test']),
  rpcUrl: Type.Optional(Type.String()),
  blockExplorer: Type.Optional(Type.String()),
  stablecoin: Type.Object({
    symbol: Type.String(),
    decimals: Type.Integer(),
    address: Type.String(),
  }),
  contracts: map(Type.String(), {
    settlement: address,
    conditionalTokens: address,
    stablecoin: address,
    marketFactory: address,
    multicall: address,
    oracle: address,
    delegates: address,
  }),
  signatures: map(SignatureScheme, {
    order: SignatureScheme,
    cancelOrders: SignatureScheme,
    cancelAllBefore: SignatureScheme,
    ctfApproval: SignatureScheme,
    ctfRedemption: SignatureScheme,
    stablecoinPermit: SignatureScheme,
    proposeResolution: SignatureScheme,
    settleMarket: SignatureScheme,
    setDelegate: SignatureScheme,
  }),
})
export type ChainConfig = Answer<typeof ChainConfig>

/**
 * The configuration as this version of the exchange sends it. The type `Config` of the SDK can also read the
 * configuration of other versions.
 */
export const ConfigAnswer = Type.Object({
  service: Type.Object({
    name: Type.String(),
    version: Type.String({ description: 'Version of the exchange’s program' }),
    apiVersion: Type.String({
      description:
        'Version of the API, `major.minor`: a new minor version only adds to the API, a new major version ' +
        'may break clients',
    }),
  }),
  serverTime: Type.Integer({ description: 'Current time of the exchange, in Unix seconds' }),
  auth: Type.Object({
    bearer: Type.Boolean(),
    tokenSeconds: Type.Integer(),
    singleUse: Type.Boolean({
      description: 'True if each bearer token is valid for one request only',
    }),
    registerMessage: Type.String(),
    revokeMessage: Type.String(),
  }),
  risk: Type.Object({
    funds: Type.Enum(['off', 'reserve'], {
      description:
        '`reserve`: the exchange reserves the funds of an order before matching it; `off`: it does not check ' +
        'funds',
    }),
  }),
  quickMarkets: Type.Optional(
    Type.Object({
      assets: Type.Array(Type.String(), {
        description: 'Symbols of the assets that have prices, such as `BTC`',
      }),
      intervalSeconds: Type.Optional(
        Type.Integer({
          description:
            'Duration of a quick market, in seconds; absent if the exchange has no quick markets',
        }),
      ),
    }),
  ),
  // List all limits by name: client generators mishandle `additionalProperties` beside optional properties.
  limits: Type.Object({ ...LIMITS, ...SOME_LIMITS, ...STREAM_LIMITS }),
  chains: Type.Array(ChainConfig),
})
export type ConfigAnswer = Answer<typeof ConfigAnswer>

/** The answer of `GET /api/v1/time`. */
export const TimeAnswer = Type.Object({
  serverTime: Type.Integer({ description: 'Current time of the exchange, in Unix seconds' }),
  serverTimeMs: Type.Integer({ description: 'Current time of the exchange, in Unix milliseconds' }),
})
export type TimeAnswer = Answer<typeof TimeAnswer>

/** The answer of `GET /api/v1/changes`, a feed in the format of https://jsonfeed.org. */
export const ChangesAnswer = Type.Object({
  version: Type.String({ description: 'Version of the JSON Feed format' }),
  title: Type.String(),
  items: Type.Array(
    Type.Object({
      id: Type.String({
        description:
          'Id of the change, computed from its version and its text; it changes if the text is ' +
          'edited',
      }),
      content_text: Type.String(),
      tags: Type.Array(Type.String(), {
        description: 'Version of the exchange’s program in which the API changed',
      }),
      date_published: Type.Optional(
        Type.String({
          description:
            'Release day of the version in `tags`; absent if this version is not released yet',
        }),
      ),
    }),
    { description: 'Changes of the API, newest first' },
  ),
})
export type ChangesAnswer = Answer<typeof ChangesAnswer>
