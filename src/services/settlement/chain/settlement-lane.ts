/**
 * Brings batches of trades on chain: finds out what is settled already and what cannot settle yet,
 * tries the rest without sending it, sends what would settle, and reads what the receipts say of each trade. It
 * keeps no state but the sender's; the settlement actor decides.
 */

import { type Hex, parseAbiItem } from 'viem'
import { hexAddress } from '#chain/call.ts'
import type { ChainLog } from '#chain/chain-log.ts'
import { asked, type ChainClient } from '#chain/clients.ts'
import type { ConditionalTokens } from '#chain/conditional-tokens.ts'
import { makeLogSearch } from '#chain/log-search.ts'
import type { Receipt, TransactionName, TransactionSender } from '#chain/sender/sender.ts'
import { type SettlementContract, settlementEvent } from '#chain/settlement-contract.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { FaultySide, TradeToSettle } from '#domain/trade.ts'
import type { TransactionOutcome, TransactionRow } from '#domain/transaction.ts'
import type { HoldingsRead } from './holdings.ts'
import type { RefusedTrade, SettlementTrial } from './settlement-trial.ts'
import type { SparePermits } from './spare-permits.ts'

/** A settlement that is under way. */
export type OpenSettlement = TransactionName & {
  readonly txHash: string
  readonly tradeIds: readonly TradeId[]
}

/** What a receipt says of one trade, by its id on chain. */
export type TradeVerdict = {
  readonly tradeKey: string
  readonly settled: boolean
  readonly fault: FaultySide
  readonly reason: string
}

export type SettlementNews = OpenSettlement &
  (
    | { readonly type: 'replaced' | 'vanished' }
    | { readonly type: 'mined'; readonly verdicts: readonly TradeVerdict[] }
    | {
        readonly type: 'finished'
        readonly outcome: TransactionOutcome
        readonly gasUsed: number
        readonly verdicts: readonly TradeVerdict[]
      }
  )

/** What has become of the trades that were to be submitted. */
export type Submission = {
  /** Settled by a transaction before, which has its confirmations. */
  readonly settled: readonly { readonly tradeId: TradeId; readonly txHash: string }[]
  /** Settled, but not for long enough to believe it. */
  readonly unripe: readonly TradeId[]
  /** Markets that the chain does not know (yet). */
  readonly unknownMarkets: readonly MarketId[]
  /** Those that would be refused: they were not sent. */
  readonly refused: readonly RefusedTrade[]
  /** The rest: sent, or why the batch as a whole would revert. */
  readonly sent?: OpenSettlement
  readonly revert?: { readonly name: string; readonly words: string }
}

export type SettlementLane = {
  /** What the journal says is under way. */
  recover(): Promise<readonly OpenSettlement[]>
  submit(
    trades: readonly TradeToSettle[],
    options: { readonly usedPermits: ReadonlySet<OrderHash> },
  ): Promise<Submission>
  poll(): Promise<{
    readonly news: readonly SettlementNews[]
    readonly headNumber: number
    /** What stands in the way of the first transaction that is not mined; empty for nothing. */
    readonly trouble: string
    /** How long after its expiration an order can settle; endless while it is unknown. */
    readonly graceSec: number
  }>
  acknowledge(name: TransactionName): Promise<void>
  abandon(name: TransactionName): void
}

type SettlementLaneOptions = {
  readonly client: ChainClient
  readonly contract: SettlementContract
  readonly tokens: ConditionalTokens
  readonly withHoldings: HoldingsRead
  readonly trial: SettlementTrial
  readonly spare: SparePermits
  readonly sender: TransactionSender
  readonly confirmations: number
  readonly startBlock: number
}

const PURPOSE = 'settlement'

const TRADE_SETTLED = parseAbiItem(
  'event TradeSettled(bytes32 indexed tradeId, address indexed buyer, address indexed seller, bytes32 marketId, bytes32 buyHash, bytes32 sellHash, uint8 outcome, uint64 price, uint64 size, uint256 cost)',
)

export function makeSettlementLane(options: SettlementLaneOptions): SettlementLane {
  const { client, contract, tokens, withHoldings, trial, spare, sender, confirmations } = options
  const search = makeLogSearch()
  /** The newest block that was seen. */
  let headNumber = 0
  /** Markets that were seen on chain deep enough; there are few, and none ever goes. */
  const prepared = new Set<MarketId>()
  /** The contract cannot change it. */
  let graceSec: number | undefined

  async function unknownAmong(trades: readonly TradeToSettle[]): Promise<MarketId[]> {
    const asking = new Set(trades.map(({ marketId }) => marketId).filter((id) => !prepared.has(id)))
    const unknown: MarketId[] = []
    for (const marketId of asking) {
      if (await tokens.isPrepared(marketId)) prepared.add(marketId)
      else unknown.push(marketId)
    }
    return unknown
  }

  /** Which of the trades are settled, now and deep enough to believe it. */
  async function settledAmong(
    trades: readonly TradeToSettle[],
  ): Promise<Pick<Submission, 'settled' | 'unripe'>> {
    const settled: { tradeId: TradeId; txHash: string }[] = []
    const unripe: TradeId[] = []
    if (trades.length === 0) return { settled, unripe }
    const names = trades.map(({ tradeKey, buyOrderHash, sellOrderHash }) => ({
      tradeKey,
      buyHash: buyOrderHash,
      sellHash: sellOrderHash,
    }))
    const head = Number(await asked(client.viem.getBlockNumber()))
    const now = await contract.areSettled(names, head)
    const deep =
      confirmations === 0 || !now.includes(true)
        ? now
        : await contract.areSettled(names, Math.max(0, head - confirmations))
    const hashes = await settlingHashes(
      trades.filter((_, index) => now[index] === true && deep[index] === true),
      head,
    )
    for (const [index, { tradeId, tradeKey }] of trades.entries()) {
      if (now[index] !== true) continue
      const txHash = hashes.get(tradeKey)
      if (txHash === undefined) unripe.push(tradeId)
      else settled.push({ tradeId, txHash })
    }
    return { settled, unripe }
  }

  /**
   * The transactions that settled these, by the trades' ids on chain. One is left out while the node has
   * not indexed it or does not say; the others do not wait for it.
   */
  async function settlingHashes(
    trades: readonly TradeToSettle[],
    head: number,
  ): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>()
    if (trades.length === 0) return found
    const tradeId = trades.map(({ tradeKey }) => tradeKey as Hex)
    const ask = async (fromBlock: number, toBlock: number): Promise<boolean> => {
      const logs = await asked(
        client.viem.getLogs({
          address: hexAddress(contract.address),
          event: TRADE_SETTLED,
          args: { tradeId },
          fromBlock: BigInt(fromBlock),
          toBlock: BigInt(toBlock),
        }),
      )
      for (const { topics, transactionHash } of logs) found.set(topics[1], transactionHash)
      return tradeId.every((key) => found.has(key))
    }
    try {
      await search({ head, startBlock: options.startBlock, ask })
    } catch (error) {
      if (!(error instanceof Fault)) throw error
    }
    return found
  }

  async function submit(
    trades: readonly TradeToSettle[],
    { usedPermits }: Parameters<SettlementLane['submit']>[1],
  ): Promise<Submission> {
    const again = trades.filter(({ status, attempts }) => status !== 'matched' || attempts > 0)
    const { settled, unripe } = await settledAmong(again)
    const unknownMarkets = await unknownAmong(trades)
    const without = new Set<string>([...settled.map(({ tradeId }) => tradeId), ...unripe])
    const open = trades.filter(
      ({ tradeId, marketId }) => !without.has(tradeId) && !unknownMarkets.includes(marketId),
    )
    const { earlier, fitting } = await spare(open, usedPermits)
    const tried = await trial(fitting, { usedPermits, earlier, headNumber })
    const { ready, revert } = tried
    const found = await withHoldings(tried.refused, open, { usedPermits, headNumber })
    // By a transaction that no journal knows of any more: which one it was is asked for like the others.
    const done = new Set(
      found.filter(({ reason }) => reason === 'AlreadySettled').map(({ tradeId }) => tradeId),
    )
    const late = await settledAmong(open.filter(({ tradeId }) => done.has(tradeId)))
    const refused = found.filter(({ tradeId }) => !done.has(tradeId))
    const submission = {
      settled: [...settled, ...late.settled],
      unripe: [...unripe, ...late.unripe],
      unknownMarkets,
      refused,
    }
    if (revert !== undefined) {
      return { ...submission, revert: { name: revert.name, words: revert.words } }
    }
    if (ready === undefined) return submission
    const tradeIds = ready.trades.map(({ tradeId }) => tradeId)
    const row = await sender.send({
      to: contract.address,
      data: ready.call.data,
      gas: BigInt(ready.gas),
      purpose: PURPOSE,
      reference: JSON.stringify(tradeIds),
    })
    return { ...submission, sent: settlementOf(row) }
  }

  function verdictsOf(receipt: Receipt | undefined): TradeVerdict[] {
    const verdicts: TradeVerdict[] = []
    for (const [logIndex, log] of (receipt?.logs ?? []).entries()) {
      if (receipt === undefined || log.address !== contract.address) continue
      const { blockNumber, blockHash, txHash } = receipt
      const event = readable({
        address: log.address,
        topics: log.topics as Hex[],
        data: log.data as Hex,
        blockNumber,
        blockHash,
        txHash,
        logIndex,
      })
      if (event?.type === 'TradeSettled') {
        const { tradeKey } = event
        verdicts.push({ tradeKey, settled: true, fault: 'none', reason: '' })
      } else if (event?.type === 'TradeRejected') {
        const { tradeKey, fault, reason } = event
        verdicts.push({ tradeKey, settled: false, fault, reason })
      }
    }
    return verdicts
  }

  return {
    async recover() {
      const rows = await sender.recover()
      return rows.filter(({ purpose }) => purpose === PURPOSE).map(settlementOf)
    },
    submit,
    async poll() {
      // Asked first: what a poll has to tell comes only once. It can wait for a better moment.
      graceSec ??= await contract.delays().then(
        (delays) => delays.graceSec,
        () => undefined,
      )
      const polled = await sender.poll()
      headNumber = Math.max(headNumber, polled.headNumber)
      const told = polled.news
        .filter(({ transaction }) => transaction.purpose === PURPOSE)
        .filter(({ type, transaction }) => type !== 'replaced' || !endsInBlank(transaction))
        .map((each): SettlementNews => {
          const settlement = settlementOf(each.transaction)
          if (each.type === 'mined') {
            const { txHash } = each.receipt
            return { ...settlement, type: 'mined', txHash, verdicts: verdictsOf(each.receipt) }
          }
          if (each.type !== 'finished') return { ...settlement, type: each.type }
          const { outcome, receipt } = each
          return {
            ...settlement,
            type: 'finished',
            txHash: receipt?.txHash ?? settlement.txHash,
            outcome,
            gasUsed: receipt?.gasUsed ?? 0,
            verdicts: verdictsOf(receipt),
          }
        })
      const trouble = sender.open().find(({ error }) => error !== '')?.error ?? ''
      return {
        news: told,
        headNumber: polled.headNumber,
        trouble,
        graceSec: graceSec ?? Number.POSITIVE_INFINITY,
      }
    },
    acknowledge: (name) => sender.acknowledge(name),
    abandon: (name) => sender.abandon(name),
  }
}

/** Ignores a log that cannot be decoded: before its trade is sent again, the contract is asked about it. */
function readable(log: ChainLog): ReturnType<typeof settlementEvent> {
  try {
    return settlementEvent(log)
  } catch {
    return undefined
  }
}

/** Whether its newest form does nothing. */
function endsInBlank({ hashes, blanks }: TransactionRow): boolean {
  return blanks.includes(hashes.at(-1) ?? '')
}

function settlementOf({
  sender,
  nonce,
  hashes,
  blanks,
  reference,
}: TransactionRow): OpenSettlement {
  return {
    sender,
    nonce,
    txHash: hashes.findLast((hash) => !blanks.includes(hash)) ?? '',
    tradeIds: JSON.parse(reference) as TradeId[],
  }
}
