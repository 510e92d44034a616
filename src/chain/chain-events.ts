/** What the logs of our contracts mean, as events of the domain. */

import type { ChainEvent, MoveKind } from '#domain/chain-event.ts'
import { type Address, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Header } from './block-reads.ts'
import type { ChainLog } from './chain-log.ts'
import type { ChainClient } from './clients.ts'
import { type TokenEvent, tokenEvent } from './conditional-tokens.ts'
import { marketContract, resolutionEvent } from './market-contract.ts'
import { factoryEvent, quickDescription, quickQuestion } from './market-factory.ts'
import { positionIdOf } from './position-id.ts'
import { settlementEvent } from './settlement-contract.ts'

export type ChainReaderOptions = {
  readonly client: ChainClient
  readonly contracts: {
    readonly marketFactory: Address
    readonly conditionalTokens: Address
    readonly settlement: Address
    readonly stablecoin: Address
  }
  /** Which of these addresses are markets of the factory, of blocks before the range. */
  readonly knownMarkets: (addresses: readonly Address[]) => Promise<readonly Address[]>
}

export async function eventsOf(
  options: ChainReaderOptions,
  node: ChainClient,
  logs: readonly ChainLog[],
  headers: ReadonlyMap<number, Header>,
): Promise<ChainEvent[]> {
  const { contracts } = options
  const fixed = new Set([
    contracts.marketFactory,
    contracts.conditionalTokens,
    contracts.settlement,
  ])
  const created = logs.flatMap((log) =>
    log.address === contracts.marketFactory ? (factoryEvent(log) ?? []) : [],
  )
  const markets = new Set(
    created.flatMap((event) =>
      event.type === 'MarketCreated' || event.type === 'QuickMarketCreated' ? [event.market] : [],
    ),
  )
  const others = new Set(logs.map((log) => log.address).filter((each) => !fixed.has(each)))
  for (const known of await options.knownMarkets([...others])) markets.add(known)

  const events: ChainEvent[] = []
  for (const [index, log] of logs.entries()) {
    const atSec = headers.get(log.blockNumber)?.atSec ?? 0
    if (log.address === contracts.marketFactory) {
      events.push(...(await fromFactory(options, node, log, atSec)))
    } else if (log.address === contracts.conditionalTokens) {
      events.push(...fromTokens(contracts, log, atSec, () => explanation(logs, index)))
    } else if (log.address === contracts.settlement) {
      events.push(...fromSettlement(log, atSec))
    } else if (markets.has(log.address)) {
      events.push(...fromMarket(log, atSec))
    }
  }
  return events
}

type At = {
  readonly blockNumber: number
  readonly logIndex: number
  readonly txHash: string
  readonly atSec: number
}

function atOf({ blockNumber, logIndex, txHash }: ChainLog, atSec: number): At {
  return { blockNumber, logIndex, txHash, atSec }
}

async function fromFactory(
  { client, contracts }: ChainReaderOptions,
  node: ChainClient,
  log: ChainLog,
  atSec: number,
): Promise<ChainEvent[]> {
  const event = factoryEvent(log)
  if (event === undefined) return []
  const at = atOf(log, atSec)
  if (event.type === 'QuickMarketResolved') {
    const { marketId, winningOutcome, startPrice, endPrice, source } = event
    return [{ type: event.type, ...at, marketId, winningOutcome, startPrice, endPrice, source }]
  }
  if (event.type !== 'MarketCreated' && event.type !== 'QuickMarketCreated') return []
  const positions = [
    positionIdOf(contracts.stablecoin, event.marketId, 0),
    positionIdOf(contracts.stablecoin, event.marketId, 1),
  ] as const
  const common = {
    id: event.marketId,
    contractAddress: event.market,
    chainId: client.chainId,
    createdAt: atSec,
  }
  if (event.type === 'MarketCreated') {
    const { question, description, category, maker, expirationSec: expiration } = event
    const words = { question, description, category, maker, expiration, quick: false }
    return [{ type: 'MarketCreated', ...at, market: { ...common, ...words }, positions }]
  }
  const { asset, startSec, endSec, startPrice, source } = event
  // The event does not say who created it; the contract does.
  const { maker } = await marketContract(node, event.market).terms()
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

function fromMarket(log: ChainLog, atSec: number): ChainEvent[] {
  const event = resolutionEvent(log)
  if (event === undefined || event.type === 'PayoutReportFailed') return []
  const at = atOf(log, atSec)
  const { marketId } = event
  switch (event.type) {
    case 'ResolutionProposed': {
      const { assertionId, proposer, asserter, bond, assertedAtSec, windowEndsAtSec } = event
      const outcome = event.outcome ? 0 : 1
      const told = { assertionId, proposer, asserter, outcome, bond } as const
      return [{ type: event.type, ...at, marketId, ...told, assertedAtSec, windowEndsAtSec }]
    }
    case 'MarketResolved': {
      const assertionId = /^0x0+$/.test(event.assertionId) ? '' : event.assertionId
      return [
        { type: event.type, ...at, marketId, assertionId, winningOutcome: event.winningOutcome },
      ]
    }
    case 'MarketSettled': {
      const { settler, winningOutcome } = event
      return [{ type: event.type, ...at, marketId, settler, winningOutcome }]
    }
    default:
      return [{ type: event.type, ...at, marketId, assertionId: event.assertionId }]
  }
}

function fromSettlement(log: ChainLog, atSec: number): ChainEvent[] {
  const event = settlementEvent(log)
  if (event === undefined) return []
  const at = atOf(log, atSec)
  switch (event.type) {
    case 'TradeSettled': {
      const { blockHash: _, ...told } = event
      return [{ ...told, ...at }]
    }
    case 'TradeRejected':
    case 'OrderWithdrawn':
    case 'OrdersWithdrawn': {
      const { blockHash: _, ...told } = event
      return [{ ...told, ...at }]
    }
    default:
      return []
  }
}

function fromTokens(
  contracts: ChainReaderOptions['contracts'],
  log: ChainLog,
  atSec: number,
  explained: () => TokenEvent['type'] | undefined,
): ChainEvent[] {
  const event = tokenEvent(log)
  if (event === undefined) return []
  const at = atOf(log, atSec)
  switch (event.type) {
    case 'TokensMoved': {
      const kind = kindOf(event, contracts.settlement, explained)
      const { from, to, moves } = event
      return moves.map(({ positionId, amount }, part) => ({
        type: 'TokensMoved',
        ...at,
        part,
        positionId,
        from,
        to,
        amount,
        kind,
      }))
    }
    case 'PositionSplit':
    case 'PositionsMerged':
    case 'PayoutRedeemed': {
      const plain =
        event.collateral === contracts.stablecoin && /^0x0+$/.test(event.parentCollectionId)
      if (!plain) return []
      const redeems = event.type === 'PayoutRedeemed'
      return [
        {
          type: 'TokensConverted',
          ...at,
          kind: redeems ? 'redeem' : event.type === 'PositionSplit' ? 'split' : 'merge',
          holder: event.holder,
          marketId: event.conditionId,
          amount: redeems ? event.payout : event.amount,
          indexSets: redeems ? event.indexSets : event.partition,
        },
      ]
    }
    case 'ConditionResolved': {
      const { conditionId: marketId, payouts } = event
      return [{ type: 'ConditionResolved', ...at, marketId, payouts }]
    }
    default:
      return []
  }
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
  const why = explained()
  if (made && moved.batch && why === 'PositionSplit') return 'split'
  if (!made && moved.batch && why === 'PositionsMerged') return 'merge'
  if (!made && !moved.batch && why === 'PayoutRedeemed') return 'redeem'
  return made ? 'mint' : 'burn'
}

/** What the tokens say behind these movements, in the same transaction: why they moved. */
function explanation(logs: readonly ChainLog[], index: number): TokenEvent['type'] | undefined {
  const moved = logs[index]
  for (let next = index + 1; next < logs.length; next++) {
    const log = logs[next]
    if (log === undefined || moved === undefined || log.txHash !== moved.txHash) return undefined
    const event = log.address === moved.address ? tokenEvent(log) : undefined
    if (event !== undefined && event.type !== 'TokensMoved') return event.type
  }
  return undefined
}
