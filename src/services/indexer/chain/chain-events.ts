/**
 * Translates logs of our contracts into domain events. Ignores logs that do not concern this exchange: of other
 * contracts, of outcome tokens with another collateral, and of conditions without a market. If a log of our contract
 * cannot be decoded or has impossible values, it is set aside: it is listed, but not applied. All other logs become
 * events.
 */

import { AbiDecodingZeroDataError, BaseError, ContractFunctionRevertedError, keccak256 } from 'viem'
import { type Header, hasCode } from '#chain/block-reads.ts'
import { type ChainLog, topicsOf } from '#chain/chain-log.ts'
import type { ChainClient } from '#chain/clients.ts'
import { type TokenEvent, tokenEvent } from '#chain/conditional-tokens.ts'
import { delegatesEvent } from '#chain/delegates-contract.ts'
import { MARKET_EVENTS, marketContract, resolutionEvent } from '#chain/market-contract.ts'
import {
  type FactoryEvent,
  factoryEvent,
  quickDescription,
  quickQuestion,
} from '#chain/market-factory.ts'
import { positionIdOf } from '#chain/position-id.ts'
import { settlementEvent } from '#chain/settlement-contract.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { delegatesAbi } from '#contracts/artifacts/Delegates.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import type { At, ChainEvent, MoveKind, SetAside } from '#domain/chain-event.ts'
import { readEventInfo } from '#domain/event-info.ts'
import { type Address, type MarketId, ZERO_ADDRESS } from '#domain/ids.ts'
import { MARKET_NAME_CHARS_MAX, MARKET_TEXT_CHARS_MAX } from '#domain/limits.ts'
import { isConversion, isWithoutParent, outcomeSetsOf, tokensNamed } from './followed-tokens.ts'

type KnownMarket = { readonly contract: Address; readonly marketId: MarketId }

export type ChainReaderOptions = {
  readonly client: ChainClient
  readonly contracts: {
    readonly marketFactory: Address
    readonly conditionalTokens: Address
    readonly settlement: Address
    readonly delegates: Address
    readonly stablecoin: Address
  }
  /** Returns those of the given addresses at which the factory created a market before the range of blocks. */
  readonly knownMarkets: (addresses: readonly Address[]) => Promise<readonly KnownMarket[]>
  /** Returns those of the given tokens that were already followed before the range of blocks. */
  readonly knownTokens: (positionIds: readonly string[]) => Promise<readonly string[]>
  /** Returns the addresses of unresolved markets' contracts, at most `limit`. */
  readonly openMarkets: (limit: number) => Promise<readonly Address[]>
}

type Translated = {
  readonly events: readonly ChainEvent[]
  readonly setAside: readonly SetAside[]
}

/** Events that the indexer reads, by contract. Logs of other events are ignored. */
const READ = {
  factory: topicsOf(marketFactoryAbi, [
    'MarketCreated',
    'QuickMarketCreated',
    'ComplementaryMarket',
    'QuickMarketResolved',
    'EventMarketCreated',
  ]),
  tokens: topicsOf(conditionalTokensAbi, [
    'TransferSingle',
    'TransferBatch',
    'PositionSplit',
    'PositionsMerge',
    'PayoutRedemption',
    'ConditionResolution',
  ]),
  settlement: topicsOf(settlementAbi, [
    'TradeSettled',
    'TradeRejected',
    'OrderCancelled',
    'AllOrdersCancelled',
  ]),
  delegates: topicsOf(delegatesAbi, ['DelegateSet']),
  market: topicsOf(marketAbi, MARKET_EVENTS),
} as const

/** Reason why an event is set aside. */
type Refusal = { readonly why: string }

type Meaning = readonly ChainEvent[] | Refusal

const UNREADABLE: Refusal = { why: 'the event of the contract cannot be decoded' }

/** Context that is needed to translate a log, collected from all logs of the range. */
type Scene = {
  readonly options: ChainReaderOptions
  readonly node: ChainClient
  readonly logs: readonly ChainLog[]
  /** For each log, by its index: the outcome token event that it contains; undefined if it contains none. */
  readonly tokenEvents: readonly (TokenEvent | undefined)[]
  readonly markets: ReadonlySet<string>
  readonly marketContracts: ReadonlySet<Address>
  /** Markets that the logs of the range create as complementary markets. */
  readonly complementary: ReadonlySet<MarketId>
  readonly tokens: ReadonlySet<string>
}

export async function eventsOf(
  options: ChainReaderOptions,
  node: ChainClient,
  logs: readonly ChainLog[],
  headers: ReadonlyMap<number, Header>,
): Promise<Translated> {
  const scene = await sceneOf(options, node, logs)
  const events: ChainEvent[] = []
  const setAside: SetAside[] = []
  for (const [index, log] of logs.entries()) {
    const atSec = headers.get(log.blockNumber)?.atSec ?? 0
    const { read, meaning } = await meaningOf(scene, index, log, atSec)
    if (!('why' in meaning)) events.push(...meaning)
    else {
      const event = read.get(log.topics[0] ?? '') ?? ''
      setAside.push({ ...atOf(log, atSec), event, why: meaning.why })
    }
  }
  return { events, setAside }
}

/** Returns the contracts of markets that the given logs create. */
export function createdIn(marketFactory: Address, logs: readonly ChainLog[]): KnownMarket[] {
  return logs.flatMap((log) => {
    const event = log.address === marketFactory ? factoryEvent(log) : undefined
    return event?.type === 'MarketCreated' || event?.type === 'QuickMarketCreated'
      ? [{ contract: event.market, marketId: event.marketId }]
      : []
  })
}

async function sceneOf(
  options: ChainReaderOptions,
  node: ChainClient,
  logs: readonly ChainLog[],
): Promise<Scene> {
  const { marketFactory, conditionalTokens, settlement, delegates, stablecoin } = options.contracts
  const tokenEvents = logs.map((log) =>
    log.address === conditionalTokens ? tokenEvent(log) : undefined,
  )
  const created = createdIn(marketFactory, logs)

  const asked = new Set(logs.map(({ address }) => address))
  for (const fixed of [marketFactory, conditionalTokens, settlement, delegates]) asked.delete(fixed)
  for (const event of tokenEvents) if (event?.type === 'ConditionResolved') asked.add(event.oracle)
  const factoryEvents = logs.flatMap((log) =>
    log.address === marketFactory ? (factoryEvent(log) ?? []) : [],
  )
  for (const event of factoryEvents) {
    if (event.type === 'QuickMarketResolved') asked.add(event.market)
  }
  const markets = [...created, ...(await options.knownMarkets([...asked]))]

  const moved = new Set<string>()
  for (const event of tokenEvents) {
    if (event?.type !== 'TokensMoved') continue
    for (const { positionId, amount } of event.moves) if (amount > 0n) moved.add(positionId)
  }
  const tokens = new Set(await options.knownTokens([...moved]))
  if ([...moved].some((id) => !tokens.has(id))) {
    for (const { marketId } of created) {
      for (const id of positionsOf(stablecoin, marketId)) tokens.add(id)
    }
    const said = tokenEvents.filter((event) => event !== undefined)
    for (const id of tokensNamed(stablecoin, said)) tokens.add(id)
  }
  return {
    options,
    node,
    logs,
    tokenEvents,
    markets: new Set(markets.map(({ contract, marketId }) => `${contract}/${marketId}`)),
    marketContracts: new Set(markets.map(({ contract }) => contract)),
    complementary: new Set(
      factoryEvents.flatMap((event) =>
        event.type === 'ComplementaryMarket' ? [event.marketId] : [],
      ),
    ),
    tokens,
  }
}

async function meaningOf(
  scene: Scene,
  index: number,
  log: ChainLog,
  atSec: number,
): Promise<{ read: ReadonlyMap<string, string>; meaning: Meaning }> {
  const { marketFactory, conditionalTokens, settlement, delegates } = scene.options.contracts
  const { address } = log
  const topic = log.topics[0] ?? ''
  if (address === marketFactory) {
    const event = factoryEvent(log)
    if (!READ.factory.has(topic)) return { read: READ.factory, meaning: [] }
    const meaning = event === undefined ? UNREADABLE : await fromFactory(scene, log, event, atSec)
    return { read: READ.factory, meaning }
  }
  if (address === conditionalTokens) {
    const meaning = READ.tokens.has(topic) ? fromTokens(scene, index, log, atSec) : []
    return { read: READ.tokens, meaning }
  }
  if (address === settlement) {
    const meaning = READ.settlement.has(topic) ? fromSettlement(log, atSec) : []
    return { read: READ.settlement, meaning }
  }
  if (address === delegates) {
    const meaning = READ.delegates.has(topic) ? fromDelegates(log, atSec) : []
    return { read: READ.delegates, meaning }
  }
  const isOurs = scene.marketContracts.has(address) && READ.market.has(topic)
  return { read: READ.market, meaning: isOurs ? fromMarket(scene, log, atSec) : [] }
}

function atOf({ blockNumber, logIndex, txHash }: ChainLog, atSec: number): At {
  return { blockNumber, logIndex, txHash, atSec }
}

function positionsOf(stablecoin: Address, marketId: MarketId): readonly [yes: string, no: string] {
  return [positionIdOf(stablecoin, marketId, 0), positionIdOf(stablecoin, marketId, 1)]
}

async function fromFactory(
  { options, node, markets, complementary }: Scene,
  log: ChainLog,
  event: FactoryEvent,
  atSec: number,
): Promise<Meaning> {
  const at = atOf(log, atSec)
  if (event.type === 'QuickMarketResolved') {
    const { marketId, market, winningOutcome, startPrice, endPrice } = event
    const source = textOf(event.source)
    if (!markets.has(`${market}/${marketId}`)) return { why: 'no market has this id and contract' }
    if (!isOutcome(winningOutcome)) return noOutcome(winningOutcome)
    if (isTooLong(MARKET_NAME_CHARS_MAX, source))
      return { why: 'the name of the price source is too long' }
    return [{ type: event.type, ...at, marketId, winningOutcome, startPrice, endPrice, source }]
  }
  if (event.type === 'EventMarketCreated') return fromEventMarket(markets, event, at)
  if (event.type !== 'MarketCreated' && event.type !== 'QuickMarketCreated') return []
  const positions = positionsOf(options.contracts.stablecoin, event.marketId)
  const common = {
    id: event.marketId,
    contractAddress: event.market,
    chainId: options.client.chainId,
    createdAt: atSec,
    ...(complementary.has(event.marketId) ? { matching: 'complementary' as const } : {}),
  }
  if (event.type === 'MarketCreated') {
    const { category, maker, expirationSec: expiration } = event
    const [question, description] = [textOf(event.question), textOf(event.description)]
    if (isTooLong(MARKET_TEXT_CHARS_MAX, question, description)) {
      return { why: 'the question or description is too long' }
    }
    const words = { question, description, category, maker, expiration, quick: false }
    return [{ type: 'MarketCreated', ...at, market: { ...common, ...words }, positions }]
  }
  const { startSec, endSec, startPrice } = event
  const [asset, source] = [textOf(event.asset), textOf(event.source)]
  if (isTooLong(MARKET_NAME_CHARS_MAX, asset, source))
    return { why: 'the asset or source name is too long' }
  const maker = await makerOf(node, event.market, log.blockNumber)
  if (maker === undefined) return { why: 'the market has no contract at this block' }
  const quick = { asset, startSec, endSec, startPrice, source }
  const words = {
    question: quickQuestion(asset),
    description: quickDescription(quick),
    category: 'general',
    maker,
    expiration: endSec,
    quick: true,
  } as const
  return [{ type: 'MarketCreated', ...at, market: { ...common, ...words }, positions, quick }]
}

/**
 * Checks the metadata of an event’s market. The contract has checked only the operator’s signature of the metadata’s
 * hash.
 */
function fromEventMarket(
  markets: ReadonlySet<string>,
  event: FactoryEvent & { readonly type: 'EventMarketCreated' },
  at: At,
): Meaning {
  const { marketId, market, eventHash, signer, metadata } = event
  if (!markets.has(`${market}/${marketId}`)) return { why: 'no market has this id and contract' }
  if (keccak256(metadata) !== eventHash) return { why: 'the hash does not match the metadata' }
  const info = readEventInfo(metadata)
  if ('why' in info) return info
  return [{ type: event.type, ...at, marketId, eventHash, signer, info }]
}

/**
 * Returns the creator of a quick market, read from the market's contract because the event does not contain
 * it. Returns undefined if the contract does not exist.
 */
async function makerOf(
  node: ChainClient,
  market: Address,
  blockNumber: number,
): Promise<Address | undefined> {
  try {
    return (await marketContract(node, market).terms()).maker
  } catch (error) {
    // A node that lags answers as if the contract did not exist. `hasCode` asks for the code at the exact block, so it
    // throws if the node does not have that block yet.
    if (isSilence(error) && !(await hasCode(node, market, blockNumber))) return undefined
    throw error
  }
}

function isSilence(error: unknown): boolean {
  const { cause = error } = error as { cause?: unknown }
  if (!(cause instanceof BaseError)) return false
  return (
    cause.walk(
      (inner) =>
        inner instanceof AbiDecodingZeroDataError || inner instanceof ContractFunctionRevertedError,
    ) !== null
  )
}

function fromMarket({ markets }: Scene, log: ChainLog, atSec: number): Meaning {
  const event = resolutionEvent(log)
  if (event === undefined) return UNREADABLE
  if (!markets.has(`${log.address}/${event.marketId}`))
    return { why: 'the market of the event does not belong to the contract that emitted the event' }
  if (event.type === 'PayoutReportFailed') return []
  const at = atOf(log, atSec)
  const { marketId } = event
  switch (event.type) {
    case 'ResolutionProposed': {
      const { assertionId, proposer, asserter, bond, assertedAtSec, windowEndsAtSec } = event
      const outcome = event.outcome ? 0 : 1
      const facts = { assertionId, proposer, asserter, outcome, bond } as const
      return [{ type: event.type, ...at, marketId, ...facts, assertedAtSec, windowEndsAtSec }]
    }
    case 'MarketResolved': {
      const { winningOutcome } = event
      if (!isOutcome(winningOutcome)) return noOutcome(winningOutcome)
      const assertionId = /^0x0+$/.test(event.assertionId) ? '' : event.assertionId
      return [{ type: event.type, ...at, marketId, assertionId, winningOutcome }]
    }
    case 'MarketSettled': {
      const { settler, winningOutcome } = event
      if (!isOutcome(winningOutcome)) return noOutcome(winningOutcome)
      return [{ type: event.type, ...at, marketId, settler, winningOutcome }]
    }
    default:
      return [{ type: event.type, ...at, marketId, assertionId: event.assertionId }]
  }
}

function fromSettlement(log: ChainLog, atSec: number): Meaning {
  const event = settlementEvent(log)
  if (event === undefined) return UNREADABLE
  if (event.type === 'TradeSettled' && !isOutcome(event.outcome)) return noOutcome(event.outcome)
  switch (event.type) {
    case 'TradeSettled':
    case 'TradeRejected':
    case 'OrderWithdrawn':
    case 'OrdersWithdrawn': {
      const { blockHash: _, ...facts } = event
      return [{ ...facts, ...atOf(log, atSec) }]
    }
    default:
      return []
  }
}

function fromDelegates(log: ChainLog, atSec: number): Meaning {
  const event = delegatesEvent(log)
  if (event === undefined) return UNREADABLE
  const { blockHash: _, ...facts } = event
  return [{ ...facts, ...atOf(log, atSec) }]
}

function fromTokens(scene: Scene, index: number, log: ChainLog, atSec: number): Meaning {
  const { markets, tokens, tokenEvents } = scene
  const { settlement, stablecoin } = scene.options.contracts
  const event = tokenEvents[index]
  if (event === undefined) return UNREADABLE
  const at = atOf(log, atSec)
  if (event.type === 'TokensMoved') {
    const { moves } = event
    const { from, to } = tradersOf(event, settlement)
    if (from === to && from === ZERO_ADDRESS) return []
    const kept = moves.flatMap(({ positionId, amount }, part) =>
      amount > 0n && tokens.has(positionId) ? [{ part, positionId, amount }] : [],
    )
    if (kept.length === 0) return []
    const kind = kindOf(event, settlement, () => explanation(scene, index))
    return kept.map((move) => ({ type: 'TokensMoved', ...at, ...move, from, to, kind }))
  }
  if (isConversion(event)) {
    const indexSets = outcomeSetsOf(event)
    const isPlain = event.collateral === stablecoin && isWithoutParent(event)
    if (!isPlain || indexSets === undefined) return []
    const redeems = event.type === 'PayoutRedeemed'
    return [
      {
        type: 'TokensConverted',
        ...at,
        kind: redeems ? 'redeem' : event.type === 'PositionSplit' ? 'split' : 'merge',
        holder: event.holder === settlement ? ZERO_ADDRESS : event.holder,
        marketId: event.conditionId,
        amount: redeems ? event.payout : event.amount,
        indexSets,
      },
    ]
  }
  if (event.type !== 'ConditionResolved') return []
  const { conditionId: marketId, oracle, payouts } = event
  if (!markets.has(`${oracle}/${marketId}`)) return []
  if (payouts.length !== 2) return { why: `the condition has ${payouts.length} payouts, not 2` }
  return [{ type: 'ConditionResolved', ...at, marketId, payouts }]
}

/**
 * Returns the sender and the receiver of tokens. If the settlement contract moves tokens, the zero address replaces the
 * contract's own address, as in a mint or burn. So the contract never counts as the holder of a position.
 */
function tradersOf(
  { operator, from, to }: TokenEvent & { type: 'TokensMoved' },
  settlement: Address,
): { readonly from: Address; readonly to: Address } {
  if (operator !== settlement) return { from, to }
  return {
    from: from === settlement ? ZERO_ADDRESS : from,
    to: to === settlement ? ZERO_ADDRESS : to,
  }
}

function isOutcome(value: number): value is 0 | 1 {
  return value === 0 || value === 1
}

function noOutcome(value: number): Refusal {
  return { why: `the outcome ${value} is invalid: it must be 0 or 1` }
}

/** Replaces characters that databases reject in text with U+FFFD. */
function textOf(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\ufffd')
}

function isTooLong(charsMax: number, ...texts: readonly string[]): boolean {
  return texts.some(({ length }) => length > charsMax)
}

function kindOf(
  moved: TokenEvent & { type: 'TokensMoved' },
  settlement: Address,
  explained: () => TokenEvent['type'] | undefined,
): MoveKind {
  if (moved.from !== ZERO_ADDRESS && moved.to !== ZERO_ADDRESS) {
    return moved.operator === settlement ? 'trade' : 'transfer'
  }
  const made = moved.from === ZERO_ADDRESS
  // Only a split mints several tokens at once, and only a merge burns several at once. So the later logs of the
  // transaction are not examined. They could mislead: a split first calls the receiver’s code, which may start another
  // operation.
  if (moved.batch) return made ? 'split' : 'merge'
  if (made) return 'mint'
  return explained() === 'PayoutRedeemed' ? 'redeem' : 'burn'
}

/**
 * Returns the type of the next split, merge or redemption event after this log in the same transaction. That event
 * shows why the log's tokens moved. Returns undefined if there is none.
 */
function explanation({ logs, tokenEvents }: Scene, index: number): TokenEvent['type'] | undefined {
  const moved = logs[index]
  for (let next = index + 1; next < logs.length; next++) {
    if (moved === undefined || logs[next]?.txHash !== moved.txHash) return undefined
    const event = tokenEvents[next]
    if (event !== undefined && event.type !== 'TokensMoved') return event.type
  }
  return undefined
}
