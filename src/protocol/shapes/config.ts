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
        contract: Type.Optional(Type.String({ description: "The market's own where left out" })),
        function: Type.String(),
        args: Type.Array(Type.String({ description: 'Fields of the message' })),
      },
      { description: 'How to read the nonce of the message' },
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
  expirationAheadSecondsMin: limit('Shortest time from arrival to expiration of an order'),
  bodyBytesMax: limit('Bytes of a body'),
  batchOrdersMax: limit('Orders of a batch'),
  openOrdersPerMarketMax: limit('Open orders of a trader in a market'),
  tradesListedMax: limit('Trades of a list'),
  makersPerOrderMax: limit('Resting orders that one order can match; the rest of it is cancelled'),
  permitBeyondExpirationSecondsMin: limit(
    'Shortest time from the expiration of an order to the deadline of its permit',
  ),
  notionalMin: limit('Smallest price × size of an order, 6 decimals; 0 for no minimum'),
  pendingTradesPerTraderMax: limit('Unsettled trades of a trader; 0 for no limit'),
  cooldownSeconds: limit('First pause of a trader whose trade failed; 0 for none'),
  cooldownSecondsMax: limit('Longest such pause'),
  requestDeadlineMs: limit('Longest time of a request'),
  headerBytesMax: limit('Bytes of all headers of a request'),
  headersMax: limit('Headers of a request'),
  apiKeysPerAddressMax: limit('API keys of an address'),
  apiKeyNameLengthMax: limit('Characters of the name of an API key'),
  tokenAheadSecondsMax: limit('How far the time of a token may be ahead of the exchange'),
}

/** Limits that an exchange has only where rates are limited, or where it relays. */
const SOME_LIMITS = {
  ipUnitsPerSecond: Type.Optional(limit('Units that an address earns per second')),
  ipUnitsBurst: Type.Optional(limit('Units that an address may spend at once')),
  siteTimes: Type.Optional(limit('Units of an IPv6 /48, as a multiple of those of one address')),
  keyUnitsPerSecond: Type.Optional(limit('Units that an API key earns per second')),
  keyUnitsBurst: Type.Optional(limit('Units that an API key may spend at once')),
  readUnits: Type.Optional(limit('Units of a read')),
  writeUnits: Type.Optional(limit('Units of a write')),
  registrationUnits: Type.Optional(limit('Units of the registration of an API key')),
  unfundedOrdersPerSecond: Type.Optional(
    limit('Orders refused for lack of funds that are forgiven per second'),
  ),
  unfundedOrdersBurst: Type.Optional(limit('Orders that may be refused for lack of funds at once')),
  connectionUnits: Type.Optional(limit('Units of a new connection')),
  connectionsPerIpMax: Type.Optional(limit('Connections of an address')),
  relayerDeadlineAheadSecondsMax: Type.Optional(
    limit('Longest time until a relayed operation expires'),
  ),
  relayerRedemptionsMax: Type.Optional(limit('Redemptions of one operation')),
  relayerCancellationsMax: Type.Optional(limit('Orders that one operation withdraws')),
  relayerOwnerGasPerDay: Type.Optional(
    limit('Gas of one owner’s operations per day; 0 for no limit'),
  ),
  relayerOwnerOperationsPerMinute: Type.Optional(limit('Operations of one owner per minute')),
  relayerOwnerOperationsBurst: Type.Optional(limit('Operations of one owner at once')),
}

/** Limits of the stream. */
const STREAM_LIMITS = {
  streamConnectionsPerIpMax: Type.Optional(limit('Streams of one address; one more gets 429')),
  streamSubscriptionsMax: limit(
    'Subscriptions of one stream; a ticker counts as one for every five markets that it names',
  ),
  streamSubscriptionsPerIpMax: Type.Optional(
    limit('Subscriptions of all streams of one address, counted in the same way'),
  ),
  streamMessagesPerSecond: limit('Frames that a stream may send per second'),
  streamMessagesBurst: limit('Frames that a stream may send at once'),
  streamPayloadBytesMax: limit('Bytes of one frame; a larger one ends the stream with 1009'),
  streamMalformedMax: limit('Malformed frames in the window; one more ends the stream with 4400'),
  streamWindowMs: limit('The window in which malformed frames, and frames too many, are counted'),
  streamRequestsInFlightMax: limit('Orders, cancels and tokens that wait for their answer'),
  streamHeldOrdersMax: limit('Orders, open or not settled, that go with their stream'),
  streamHeartbeatMs: limit('Between two heartbeats'),
  streamIdleSeconds: limit('How long a stream that answers no ping stays open'),
  streamBufferBytesMax: limit('Bytes that wait for a reader before messages are dropped'),
  streamLagMsMax: limit('How long a reader may lag before its stream is ended with 4008'),
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
  }),
})
export type ChainConfig = Answer<typeof ChainConfig>

/** The configuration as this version writes it; `Config` of the SDK also reads that of others. */
export const ConfigAnswer = Type.Object({
  service: Type.Object({
    name: Type.String(),
    version: Type.String({ description: 'Of the program' }),
    apiVersion: Type.String({
      description:
        'Of the API, `major.minor`: a new minor version only adds, a new major one may break',
    }),
  }),
  serverTime: Type.Integer({ description: 'Unix seconds' }),
  auth: Type.Object({
    bearer: Type.Boolean(),
    tokenSeconds: Type.Integer(),
    singleUse: Type.Boolean({ description: 'Whether a token serves for one request only' }),
    registerMessage: Type.String(),
    revokeMessage: Type.String(),
  }),
  risk: Type.Object({
    funds: Type.Enum(['off', 'reserve'], {
      description: 'Whether an order needs its funds reserved before it is matched',
    }),
  }),
  quickMarkets: Type.Optional(
    Type.Object({
      assets: Type.Array(Type.String(), { description: 'Those that have prices' }),
      intervalSeconds: Type.Optional(
        Type.Integer({
          description: 'How long a quick market lasts; none where there are none',
        }),
      ),
    }),
  ),
  // All limits are named: client generators mishandle `additionalProperties` beside optional properties.
  limits: Type.Object({ ...LIMITS, ...SOME_LIMITS, ...STREAM_LIMITS }),
  chains: Type.Array(ChainConfig),
})
export type ConfigAnswer = Answer<typeof ConfigAnswer>
