/** `GET /api/v1/config`: everything that an integrator would otherwise hard-code. */

import { registerMessage, revokeMessage } from '#domain/api-key.ts'
import { API_VERSION } from '#domain/api-version.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import { delegatesOf } from '#domain/delegate.ts'
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
import { ConfigAnswer } from '#protocol/shapes/config.ts'
import type { Clock } from '#runtime/clock.ts'

export type ConfigFacts = {
  readonly name: string
  readonly version: string
  readonly bearer: boolean
  /** True if a token can be used only once. */
  readonly singleUse: boolean
  /** Seconds for which a permit must stay valid after its order expires. */
  readonly settleSec: number
  readonly deadlineMs: number
  /** Risk rules: reservation of funds, minimum order value, limits and pauses of traders. */
  readonly risk: RiskFacts
  /** The rate limits in force; undefined if there are none. */
  readonly rates: (LimitSettings & { readonly connectionsPerIpMax: number }) | undefined
  readonly stream: StreamFacts
  readonly chains: readonly ChainFacts[]
  /** Conditions of the relayer; undefined without a relayer. */
  readonly relayer: RelayerFacts | undefined
  /**
   * Assets whose prices the exchange shows. If `intervalSeconds` is set, the exchange also has quick markets on them.
   */
  readonly quickMarkets?: { readonly assets: readonly string[]; readonly intervalSeconds?: number }
}

type RiskFacts = {
  readonly funds: 'off' | 'reserve'
  readonly minNotional: number
  readonly pendingTradesMax: number
  readonly cooldownSeconds: number
  readonly cooldownSecondsMax: number
}

/** Limits of the stream that clients need to know. */
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
  /** URL of the chain's node; set only on the devnet, where every client may use the node. */
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

/** Limits of the HTTP library on the headers of a request: maximum bytes, and maximum number of headers. */
const HEADER_BYTES_MAX = 4_096
const HEADERS_MAX = 100

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
    summary: 'Get the chains, contracts, types for signing, and all limits',
    responses: { 200: ConfigAnswer },
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
    contracts: mapped({ ...contracts, delegates: delegatesOf(settlement) }, checksumAddress),
    stablecoin: {
      symbol: stablecoin.symbol,
      decimals: stablecoin.decimals,
      address: checksumAddress(stablecoin.address),
    },
    signatures: mapped(schemes, signatureBody),
  }
}

function mapped<Name extends string, Before, After>(
  record: Readonly<Record<Name, Before>>,
  change: (value: Before) => After,
): Record<Name, After> {
  const entries = Object.entries<Before>(record).map(([name, value]) => [name, change(value)])
  return Object.fromEntries(entries) as Record<Name, After>
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
