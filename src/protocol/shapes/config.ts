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
              'Address of the contract that has this function; if omitted, the contract of the market',
          }),
        ),
        function: Type.String(),
        args: Type.Array(
          Type.String({
            description: 'Names of the message’s fields that are passed as arguments',
          }),
        ),
      },
      { description: 'The function of a contract on the chain that returns the current nonce' },
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
  bodyBytesMax: limit('Maximum number of bytes of a request body'),
  batchOrdersMax: limit('Maximum number of orders in a batch'),
  openOrdersPerMarketMax: limit('Maximum number of open orders of a trader in a market'),
  tradesListedMax: limit('Maximum number of trades in a list'),
  makersPerOrderMax: limit(
    'Maximum number of resting orders that one order matches; the rest of this order is cancelled',
  ),
  permitBeyondExpirationSecondsMin: limit(
    'Minimum time from the expiration of an order to the deadline of its permit',
  ),
  notionalMin: limit('Minimum of price × size of an order, 6 decimals; 0 means no minimum'),
  pendingTradesPerTraderMax: limit(
    'Maximum number of unsettled trades of a trader; 0 means no limit',
  ),
  cooldownSeconds: limit(
    'Time for which a trader can place no orders after the first trade that failed by their fault; it doubles with each further one. 0 means none',
  ),
  cooldownSecondsMax: limit('Maximum of `cooldownSeconds` after repeated faults'),
  requestDeadlineMs: limit('Maximum duration of a request'),
  headerBytesMax: limit('Maximum number of bytes of all headers of a request together'),
  headersMax: limit('Maximum number of headers of a request'),
  apiKeysPerAddressMax: limit('Maximum number of active API keys of a wallet address'),
  apiKeyNameLengthMax: limit('Maximum number of characters of the name of an API key'),
  tokenAheadSecondsMax: limit(
    'Maximum time by which the `ts` of a bearer token may be ahead of the exchange’s clock',
  ),
}

/** Limits that an exchange has only if it has rate limits or a relayer. */
const SOME_LIMITS = {
  ipUnitsPerSecond: Type.Optional(limit('Units that an IP address earns per second')),
  ipUnitsBurst: Type.Optional(
    limit('Maximum number of units that an IP address may spend in a moment'),
  ),
  siteTimes: Type.Optional(
    limit('An IPv6 /48 may spend this many times the units of one IP address'),
  ),
  keyUnitsPerSecond: Type.Optional(limit('Units that an API key earns per second')),
  keyUnitsBurst: Type.Optional(
    limit('Maximum number of units that an API key may spend in a moment'),
  ),
  readUnits: Type.Optional(limit('Cost of a read, in units')),
  writeUnits: Type.Optional(limit('Cost of a write, in units')),
  registrationUnits: Type.Optional(limit('Cost of registering an API key, in units')),
  unfundedOrdersPerSecond: Type.Optional(
    limit('Rejections for lack of funds that a client may cause per second'),
  ),
  unfundedOrdersBurst: Type.Optional(
    limit('Maximum number of rejections for lack of funds that a client may cause in a moment'),
  ),
  connectionUnits: Type.Optional(limit('Cost of a new connection, in units')),
  connectionsPerIpMax: Type.Optional(limit('Maximum number of connections of an IP address')),
  relayerDeadlineAheadSecondsMax: Type.Optional(
    limit('Maximum time from now to the deadline of a relayed operation'),
  ),
  relayerRedemptionsMax: Type.Optional(limit('Maximum number of redemptions in one operation')),
  relayerCancellationsMax: Type.Optional(
    limit('Maximum number of orders that one operation withdraws'),
  ),
  relayerOwnerGasPerDay: Type.Optional(
    limit('Maximum gas of one owner’s operations per day; 0 means no limit'),
  ),
  relayerOwnerOperationsPerMinute: Type.Optional(
    limit('Maximum number of operations of one owner per minute'),
  ),
  relayerOwnerOperationsBurst: Type.Optional(
    limit('Maximum number of operations of one owner in a moment'),
  ),
}

/** Limits of the stream. */
const STREAM_LIMITS = {
  streamConnectionsPerIpMax: Type.Optional(
    limit('Maximum number of streams of one IP address; one more gets 429'),
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
  streamMessagesBurst: limit('Maximum number of frames that a client may send in a moment'),
  streamPayloadBytesMax: limit(
    'Maximum number of bytes of one frame; a larger one ends the stream with close code 1009',
  ),
  streamMalformedMax: limit(
    'Maximum number of malformed frames in `streamWindowMs`; one more ends the stream with close code 4400',
  ),
  streamWindowMs: limit('Time in which malformed frames, and frames above the rate, are counted'),
  streamRequestsInFlightMax: limit(
    'Maximum number of requests (orders, cancels, authentications) of a stream that wait for their answer',
  ),
  streamHeldOrdersMax: limit(
    'Maximum number of orders of a stream, open or unsettled, that are cancelled when it ends',
  ),
  streamHeartbeatMs: limit('Time between two heartbeats'),
  streamIdleSeconds: limit('Time after which a stream is closed if the client answers no ping'),
  streamBufferBytesMax: limit(
    'Maximum number of bytes that wait to be sent to one client; further messages to it are dropped',
  ),
  streamLagMsMax: limit(
    'Maximum time that messages may wait for a slow client; after it the stream ends with close code 4008',
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
  serverTimeMs: Type.Integer({ description: 'Current time of the exchange in Unix milliseconds' }),
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
