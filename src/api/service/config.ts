/** `GET /api/v1/config`: everything an integrator would otherwise hard-code. */

import Type from 'typebox'
import { registerMessage, revokeMessage } from '#domain/api-key.ts'
import { API_VERSION } from '#domain/api-version.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address } from '#domain/ids.ts'
import {
  API_KEY_NAME_CHARS_MAX,
  API_KEYS_PER_ADDRESS_MAX,
  BATCH_ORDERS_MAX,
  BODY_BYTES_MAX,
  MAKERS_PER_ORDER_MAX,
  ORDER_EXPIRATION_AHEAD_SEC_MIN,
  ORDERS_PER_TRADER_MAX,
  RELAYED_CANCELLATIONS_MAX,
  TOKEN_AHEAD_SEC_MAX,
  TOKEN_LIFE_SEC,
  TRADES_LISTED_MAX,
} from '#domain/limits.ts'
import { PRICE_MAX, PRICE_MIN, SIZE_MAX } from '#domain/money.ts'
import { type SignatureScheme, type Stablecoin, signatureSchemes } from '#domain/typed-data.ts'
import type { LimitSettings } from '#http/limits.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import type { Clock } from '#runtime/clock.ts'

export type ConfigFacts = {
  readonly name: string
  readonly version: string
  readonly bearer: boolean
  /** Whether a token serves once only. */
  readonly singleUse: boolean
  /** How long a permit must stay valid after its order expires. */
  readonly settleSec: number
  readonly deadlineMs: number
  /** Rules that apply to traders regardless of their funds. */
  readonly risk: RiskFacts
  /** The rate limits in force, if any. */
  readonly rates: (LimitSettings & { readonly connectionsPerIpMax: number }) | undefined
  readonly stream: StreamFacts
  readonly chains: readonly ChainFacts[]
  /** What the relayer asks of those that it works for; none where there is no relayer. */
  readonly relayer: RelayerFacts | undefined
  /** The assets that have prices, and quick markets if an interval is said. */
  readonly quickMarkets?: { readonly assets: readonly string[]; readonly intervalSeconds?: number }
}

type RiskFacts = {
  readonly funds: 'off' | 'reserve'
  readonly minNotional: number
  readonly pendingTradesMax: number
  readonly cooldownSeconds: number
  readonly cooldownSecondsMax: number
}

/** What a client of the stream has to know of its settings. */
type StreamFacts = {
  readonly connectionsPerIp: number
  readonly subscriptionsMax: number
  readonly subscriptionsPerIp: number
  readonly messagesPerSecond: number
  readonly messagesBurst: number
  readonly payloadBytesMax: number
  readonly malformedMax: number
  readonly windowMs: number
  readonly requestsInFlightMax: number
  readonly heldOrdersMax: number
  readonly heartbeatMs: number
  readonly idleTimeoutSec: number
  readonly bufferBytesMax: number
  readonly lagMsMax: number
}

export type ChainFacts = {
  readonly chainId: number
  readonly role: 'main' | 'test'
  /** Shown where every client may use it: on the devnet. */
  readonly rpcUrl?: string
  readonly blockExplorer?: string
  readonly contracts: {
    readonly settlement: Address
    readonly conditionalTokens: Address
    readonly stablecoin: Address
    readonly marketFactory: Address
    readonly multicall: Address
    readonly oracle: Address
  }
  readonly stablecoin: Stablecoin & { readonly symbol: string; readonly decimals: number }
}

type RelayerFacts = {
  readonly deadlineAheadSecMax: number
  readonly redemptionsMax: number
  readonly ownerPerMinute: number
  readonly ownerBurst: number
  readonly ownerGasPerDay: number
}

/** What the library takes of a request before its body. */
const HEADER_BYTES_MAX = 4_096
const HEADERS_MAX = 100

const Signature = Type.Object({
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
} as const

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
} as const

/** What a client of the stream can meet. */
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
} as const

function streamLimits({ stream, rates }: ConfigFacts) {
  return {
    ...(rates === undefined
      ? {}
      : {
          streamConnectionsPerIpMax: stream.connectionsPerIp,
          streamSubscriptionsPerIpMax: stream.subscriptionsPerIp,
        }),
    streamSubscriptionsMax: stream.subscriptionsMax,
    streamMessagesPerSecond: stream.messagesPerSecond,
    streamMessagesBurst: stream.messagesBurst,
    streamPayloadBytesMax: stream.payloadBytesMax,
    streamMalformedMax: stream.malformedMax,
    streamWindowMs: stream.windowMs,
    streamRequestsInFlightMax: stream.requestsInFlightMax,
    streamHeldOrdersMax: stream.heldOrdersMax,
    streamHeartbeatMs: stream.heartbeatMs,
    streamIdleSeconds: stream.idleTimeoutSec,
    streamBufferBytesMax: stream.bufferBytesMax,
    streamLagMsMax: stream.lagMsMax,
  }
}

export function config(facts: ConfigFacts, clock: Clock): AnswerRoute {
  const chains = facts.chains.map(chainBody)
  const limits = {
    priceMin: PRICE_MIN,
    priceMax: PRICE_MAX,
    sizeMin: 1,
    sizeMax: SIZE_MAX,
    expirationAheadSecondsMin: ORDER_EXPIRATION_AHEAD_SEC_MIN,
    bodyBytesMax: BODY_BYTES_MAX,
    batchOrdersMax: BATCH_ORDERS_MAX,
    openOrdersPerMarketMax: ORDERS_PER_TRADER_MAX,
    tradesListedMax: TRADES_LISTED_MAX,
    makersPerOrderMax: MAKERS_PER_ORDER_MAX,
    permitBeyondExpirationSecondsMin: facts.settleSec,
    notionalMin: facts.risk.minNotional,
    pendingTradesPerTraderMax: facts.risk.pendingTradesMax,
    cooldownSeconds: facts.risk.cooldownSeconds,
    cooldownSecondsMax: facts.risk.cooldownSecondsMax,
    requestDeadlineMs: facts.deadlineMs,
    headerBytesMax: HEADER_BYTES_MAX,
    headersMax: HEADERS_MAX,
    apiKeysPerAddressMax: API_KEYS_PER_ADDRESS_MAX,
    apiKeyNameLengthMax: API_KEY_NAME_CHARS_MAX,
    tokenAheadSecondsMax: TOKEN_AHEAD_SEC_MAX,
    ...(facts.rates === undefined ? {} : rateLimits(facts.rates)),
    ...streamLimits(facts),
    ...(facts.relayer === undefined ? {} : relayerLimits(facts.relayer, facts.rates !== undefined)),
  }
  const auth = {
    bearer: facts.bearer,
    tokenSeconds: TOKEN_LIFE_SEC,
    singleUse: facts.singleUse,
    registerMessage: registerMessage(facts.name, '<address>'),
    revokeMessage: revokeMessage(facts.name, '<id>', '<address>'),
  }
  const service = { name: facts.name, version: facts.version, apiVersion: API_VERSION }
  const quick = facts.quickMarkets
  const more = quick === undefined ? {} : { quickMarkets: { ...quick, assets: [...quick.assets] } }
  const risk = { funds: facts.risk.funds }
  const bodyAt = (serverTime: number) => ({
    ...{ service, serverTime, auth, risk, limits, chains },
    ...more,
  })
  return route({
    method: 'GET',
    path: '/api/v1/config',
    operationId: 'getConfig',
    auth: 'public',
    cost: 'read',
    tag: 'operation',
    summary: 'Chains, contracts, what is signed, and every limit',
    responses: {
      200: Type.Object({
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
        chains: Type.Array(
          Type.Object({
            chainId: Type.Integer(),
            role: Type.Enum(['main', 'test']),
            rpcUrl: Type.Optional(Type.String()),
            blockExplorer: Type.Optional(Type.String()),
            stablecoin: Type.Object({
              symbol: Type.String(),
              decimals: Type.Integer(),
              address: Type.String(),
            }),
            contracts: Type.Record(Type.String(), Type.String()),
            signatures: Type.Record(Type.String(), Signature),
          }),
        ),
      }),
    },
    examples: { responses: { 200: { 'this exchange': { value: bodyAt(1_800_000_000) } } } },
    handle: () => ({ status: 200, body: bodyAt(Math.floor(clock.nowMs() / 1_000)) }),
  })
}

function chainBody(chain: ChainFacts) {
  const { chainId, role, contracts, stablecoin } = chain
  const { settlement, conditionalTokens } = contracts
  const schemes = signatureSchemes({ chainId, settlement, conditionalTokens, stablecoin })
  return {
    chainId,
    role,
    ...(chain.rpcUrl === undefined ? {} : { rpcUrl: chain.rpcUrl }),
    ...(chain.blockExplorer === undefined ? {} : { blockExplorer: chain.blockExplorer }),
    contracts: Object.fromEntries(
      Object.entries(contracts).map(([name, address]) => [name, checksumAddress(address)]),
    ),
    stablecoin: {
      symbol: stablecoin.symbol,
      decimals: stablecoin.decimals,
      address: checksumAddress(stablecoin.address),
    },
    signatures: Object.fromEntries(
      Object.entries(schemes).map(([name, scheme]) => [name, signatureBody(scheme)]),
    ),
  }
}

function signatureBody({ domain, primaryType, types, nonce }: SignatureScheme) {
  const { verifyingContract, ...rest } = domain
  const at =
    verifyingContract === undefined
      ? {}
      : { verifyingContract: checksumAddress(verifyingContract as string as Address) }
  const contract =
    nonce?.contract === undefined ? {} : { contract: checksumAddress(nonce.contract) }
  return {
    domain: { ...rest, ...at },
    primaryType,
    types: Object.fromEntries(Object.entries(types).map(([name, fields]) => [name, [...fields]])),
    ...(nonce === undefined
      ? {}
      : { nonce: { ...contract, function: nonce.function, args: [...nonce.args] } }),
  }
}

function relayerLimits(relayer: RelayerFacts, limited: boolean) {
  return {
    relayerDeadlineAheadSecondsMax: relayer.deadlineAheadSecMax,
    relayerRedemptionsMax: relayer.redemptionsMax,
    relayerCancellationsMax: RELAYED_CANCELLATIONS_MAX,
    relayerOwnerGasPerDay: relayer.ownerGasPerDay,
    ...(limited
      ? {
          relayerOwnerOperationsPerMinute: relayer.ownerPerMinute,
          relayerOwnerOperationsBurst: relayer.ownerBurst,
        }
      : {}),
  }
}

function rateLimits(rates: NonNullable<ConfigFacts['rates']>) {
  return {
    ipUnitsPerSecond: rates.ipPerSecond,
    ipUnitsBurst: rates.ipBurst,
    siteTimes: rates.siteTimes,
    keyUnitsPerSecond: rates.keyPerSecond,
    keyUnitsBurst: rates.keyBurst,
    readUnits: rates.readCost,
    writeUnits: rates.writeCost,
    registrationUnits: rates.registrationCost,
    unfundedOrdersPerSecond: rates.unfundedPerSecond,
    unfundedOrdersBurst: rates.unfundedBurst,
    connectionUnits: rates.connectionCost,
    connectionsPerIpMax: rates.connectionsPerIpMax,
  }
}
