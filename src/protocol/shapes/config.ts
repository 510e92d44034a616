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
          Type.String({ description: 'The market’s own contract if omitted' }),
        ),
        function: Type.String(),
        args: Type.Array(Type.String({ description: 'Fields of the message' })),
      },
      { description: 'The contract function that returns the current nonce' },
    ),
  ),
})
export type SignatureScheme = Answer<typeof SignatureScheme>

const limit = (description: string) => Type.Integer({ description })

/** Limits that every exchange has. */
const LIMITS = {
  priceMin: limit('Millionths of a dollar'),
  priceMax: limit('Millionths of a dollar'),
  sizeMin: limit('Millionths of a share'),
  sizeMax: limit('Millionths of a share'),
  expirationAheadSecondsMin: limit('Minimum time from arrival to expiration of an order'),
  bodyBytesMax: limit('Maximum bytes of a request body'),
  batchOrdersMax: limit('Maximum orders in a batch'),
  openOrdersPerMarketMax: limit('Maximum open orders of a trader in a market'),
  tradesListedMax: limit('Maximum trades in a list'),
  makersPerOrderMax: limit(
    'Maximum resting orders that one order matches; the rest of it is cancelled',
  ),
  permitBeyondExpirationSecondsMin: limit(
    'Minimum time from the expiration of an order to the deadline of its permit',
  ),
  notionalMin: limit('Minimum of price × size of an order, 6 decimals; 0 means no minimum'),
  pendingTradesPerTraderMax: limit('Maximum unsettled trades of a trader; 0 means no limit'),
  cooldownSeconds: limit('First pause of a trader after a failed trade; 0 means none'),
  cooldownSecondsMax: limit('Longest such pause'),
  requestDeadlineMs: limit('Maximum duration of a request'),
  headerBytesMax: limit('Maximum bytes of all headers of a request'),
  headersMax: limit('Maximum number of headers of a request'),
  apiKeysPerAddressMax: limit('Maximum active API keys of an address'),
  apiKeyNameLengthMax: limit('Maximum characters of the name of an API key'),
  tokenAheadSecondsMax: limit('Maximum time that a token may be ahead of the exchange’s clock'),
}

/** Limits that an exchange has only if it has rate limits or a relayer. */
const SOME_LIMITS = {
  ipUnitsPerSecond: Type.Optional(limit('Units that an address earns per second')),
  ipUnitsBurst: Type.Optional(limit('Units that an address may spend at once')),
  siteTimes: Type.Optional(limit('An IPv6 /48 may spend this many times the units of one address')),
  keyUnitsPerSecond: Type.Optional(limit('Units that an API key earns per second')),
  keyUnitsBurst: Type.Optional(limit('Units that an API key may spend at once')),
  readUnits: Type.Optional(limit('Cost of a read, in units')),
  writeUnits: Type.Optional(limit('Cost of a write, in units')),
  registrationUnits: Type.Optional(limit('Cost of registering an API key, in units')),
  unfundedOrdersPerSecond: Type.Optional(
    limit('Rejections for lack of funds that refill per second'),
  ),
  unfundedOrdersBurst: Type.Optional(limit('Maximum burst of rejections for lack of funds')),
  connectionUnits: Type.Optional(limit('Cost of a new connection, in units')),
  connectionsPerIpMax: Type.Optional(limit('Maximum connections of an address')),
  relayerDeadlineAheadSecondsMax: Type.Optional(
    limit('Maximum time until a relayed operation expires'),
  ),
  relayerRedemptionsMax: Type.Optional(limit('Maximum redemptions in one operation')),
  relayerCancellationsMax: Type.Optional(limit('Maximum orders that one operation withdraws')),
  relayerOwnerGasPerDay: Type.Optional(
    limit('Maximum gas of one owner’s operations per day; 0 means no limit'),
  ),
  relayerOwnerOperationsPerMinute: Type.Optional(
    limit('Maximum operations of one owner per minute'),
  ),
  relayerOwnerOperationsBurst: Type.Optional(limit('Maximum burst of operations of one owner')),
}

/** Limits of the stream. */
const STREAM_LIMITS = {
  streamConnectionsPerIpMax: Type.Optional(
    limit('Maximum streams of one address; one more gets 429'),
  ),
  streamSubscriptionsMax: limit(
    'Maximum subscriptions of one stream; a ticker counts as one per five markets',
  ),
  streamSubscriptionsPerIpMax: Type.Optional(
    limit(
      'Maximum subscriptions of all streams of one address; a ticker counts as one per five markets',
    ),
  ),
  streamMessagesPerSecond: limit('Frames that a client may send per second'),
  streamMessagesBurst: limit('Maximum burst of frames from a client'),
  streamPayloadBytesMax: limit(
    'Maximum bytes of one frame; a larger one ends the stream with 1009',
  ),
  streamMalformedMax: limit(
    'Maximum malformed frames in the window; one more ends the stream with 4400',
  ),
  streamWindowMs: limit('Window in which malformed and excess frames are counted'),
  streamRequestsInFlightMax: limit('Maximum orders, cancels and tokens that wait for their answer'),
  streamHeldOrdersMax: limit(
    'Maximum orders, open or not settled, that are cancelled with their stream',
  ),
  streamHeartbeatMs: limit('Time between two heartbeats'),
  streamIdleSeconds: limit('Time after which a stream that answers no ping is closed'),
  streamBufferBytesMax: limit('Bytes that may wait for a reader before messages are dropped'),
  streamLagMsMax: limit('Time that a reader may lag before its stream ends with 4008'),
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

/** The configuration of this version; `Config` of the SDK can also read other versions. */
export const ConfigAnswer = Type.Object({
  service: Type.Object({
    name: Type.String(),
    version: Type.String({ description: 'Version of the program' }),
    apiVersion: Type.String({
      description:
        'Version of the API, `major.minor`: a new minor version only adds, a new major one may break clients',
    }),
  }),
  serverTime: Type.Integer({ description: 'Unix seconds' }),
  auth: Type.Object({
    bearer: Type.Boolean(),
    tokenSeconds: Type.Integer(),
    singleUse: Type.Boolean({ description: 'True if a token can be used for one request only' }),
    registerMessage: Type.String(),
    revokeMessage: Type.String(),
  }),
  risk: Type.Object({
    funds: Type.Enum(['off', 'reserve'], {
      description: 'True if an order needs its funds reserved before it is matched',
    }),
  }),
  quickMarkets: Type.Optional(
    Type.Object({
      assets: Type.Array(Type.String(), { description: 'Assets with prices' }),
      intervalSeconds: Type.Optional(
        Type.Integer({
          description: 'Duration of a quick market; absent without quick markets',
        }),
      ),
    }),
  ),
  // All limits are named: client generators mishandle `additionalProperties` beside optional properties.
  limits: Type.Object({ ...LIMITS, ...SOME_LIMITS, ...STREAM_LIMITS }),
  chains: Type.Array(ChainConfig),
})
export type ConfigAnswer = Answer<typeof ConfigAnswer>

/** The answer of `GET /api/v1/time`. */
export const TimeAnswer = Type.Object({
  serverTime: Type.Integer({ description: 'Unix seconds' }),
  serverTimeMs: Type.Integer({ description: 'The same in milliseconds' }),
})
export type TimeAnswer = Answer<typeof TimeAnswer>

/** The answer of `GET /api/v1/changes`, a feed in the format of https://jsonfeed.org. */
export const ChangesAnswer = Type.Object({
  version: Type.String({ description: 'Version of the JSON Feed format' }),
  title: Type.String(),
  items: Type.Array(
    Type.Object({
      id: Type.String({
        description: 'Identifies the change; the same while its sentence is unchanged',
      }),
      content_text: Type.String(),
      tags: Type.Array(Type.String(), { description: 'The version of the program' }),
      date_published: Type.Optional(Type.String({ description: 'The day of the version' })),
    }),
    { description: 'The newest first' },
  ),
})
export type ChangesAnswer = Answer<typeof ChangesAnswer>
