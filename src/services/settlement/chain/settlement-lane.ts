/**
 * The settlement lane sends batches of trades. It skips trades that are already settled or whose market is not on the
 * chain, and simulates the remaining trades. It sends the trades that would settle, and reads the verdict on each trade
 * from the receipts. The settlement actor makes the decisions: the lane keeps no state except caches and the state of
 * the transaction sender.
 */

import { type Hex, parseAbiItem } from 'viem'
import { hexAddress } from '#chain/call.ts'
import { asked, type ChainClient } from '#chain/clients.ts'
import type { ConditionalTokens } from '#chain/conditional-tokens.ts'
import { makeLogSearch } from '#chain/log-search.ts'
import type {
  Receipt,
  SenderUpdate,
  TransactionName,
  TransactionSender,
} from '#chain/sender/sender.ts'
import { type SettlementContract, settlementEvent } from '#chain/settlement-contract.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import { readReference, writeReference } from '#domain/settlement-reference.ts'
import type { FaultySide, TradeToSettle } from '#domain/trade.ts'
import type { TransactionOutcome, TransactionRow } from '#domain/transaction.ts'
import { extraGasOf } from './extra-gas.ts'
import type { HoldingsRead } from './holdings.ts'
import type { RefusedTrade, Simulate } from './simulation.ts'
import type { SparePermits } from './spare-permits.ts'

/** A settlement transaction that is open in the journal. */
export type OpenSettlement = TransactionName & {
  readonly txHash: string
  readonly tradeIds: readonly TradeId[]
}

/** Verdict of a receipt on one trade; `tradeKey` is the trade's id on the chain. */
export type TradeVerdict = {
  readonly tradeKey: string
  readonly settled: boolean
  readonly fault: FaultySide
  readonly reason: string
}

export type SettlementUpdate = OpenSettlement &
  (
    | { readonly type: 'replaced' | 'vanished' }
    | {
        readonly type: 'mined'
        readonly block: number
        readonly verdicts: readonly TradeVerdict[]
      }
    | {
        readonly type: 'finished'
        readonly outcome: TransactionOutcome
        readonly gasUsed: number
        readonly verdicts: readonly TradeVerdict[]
      }
  )

/** Result of submitting a batch. Each trade of the batch is in at most one of the lists. */
export type Submission = {
  /** Trades settled by an earlier transaction with enough confirmations. */
  readonly settled: readonly { readonly tradeId: TradeId; readonly txHash: string }[]
  /** Trades settled by an earlier transaction that was not found or does not have enough confirmations. */
  readonly unconfirmed: readonly TradeId[]
  /** Markets that the chain does not know (yet). */
  readonly unknownMarkets: readonly MarketId[]
  /** Trades that the simulation refused; they are not sent. */
  readonly refused: readonly RefusedTrade[]
  /**
   * `sent`: the transaction with the trades that the simulation accepted. If that transaction would revert as a whole,
   * it is not sent, and `revert` is set instead.
   */
  readonly sent?: OpenSettlement
  readonly revert?: { readonly name: string; readonly words: string }
}

export type SettlementLane = {
  /** Returns the open transactions of the journal. */
  recover(): Promise<readonly OpenSettlement[]>
  submit(
    trades: readonly TradeToSettle[],
    options: { readonly usedPermits: ReadonlySet<OrderHash> },
  ): Promise<Submission>
  poll(): Promise<{
    readonly updates: readonly SettlementUpdate[]
    readonly headNumber: number
    /**
     * Error of an open transaction; if several have an error, the error of the transaction with the lowest nonce. Empty
     * if none has an error.
     */
    readonly trouble: string
    /** Seconds for which an order can still settle after its expiration; infinite until the contract has been read. */
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
  readonly simulate: Simulate
  readonly spare: SparePermits
  readonly sender: TransactionSender
  readonly confirmations: number
  readonly startBlock: number
}

const PURPOSE = 'settlement'

const TRADE_SETTLED = parseAbiItem(
  'event TradeSettled(bytes32 indexed tradeId, address indexed buyer, address indexed seller, bytes32 marketId, bytes32 buyHash, bytes32 sellHash, uint8 outcome, uint64 price, uint64 size, uint256 cost)',
)

/** Makes the function that finds which trades the chain has settled, and in which transactions. */
function makeSettledSearch(
  options: Pick<SettlementLaneOptions, 'client' | 'contract' | 'confirmations' | 'startBlock'>,
) {
  const { client, contract, confirmations } = options
  const search = makeLogSearch()

  /**
   * Returns which of the given trades are settled in the newest block. `settled` contains trades with enough
   * confirmations and a known transaction. `unconfirmed` contains the remaining settled trades.
   */
  async function settledAmong(
    trades: readonly TradeToSettle[],
  ): Promise<Pick<Submission, 'settled' | 'unconfirmed'>> {
    const settled: { tradeId: TradeId; txHash: string }[] = []
    const unconfirmed: TradeId[] = []
    if (trades.length === 0) return { settled, unconfirmed }
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
      if (txHash === undefined) unconfirmed.push(tradeId)
      else settled.push({ tradeId, txHash })
    }
    return { settled, unconfirmed }
  }

  /**
   * Returns the transactions that settled these trades, by trade key. Leaves out transactions that the node does not
   * return, for example because it has not indexed them yet.
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

  return settledAmong
}

export function makeSettlementLane(options: SettlementLaneOptions): SettlementLane {
  const { client, contract, tokens, withHoldings, simulate, spare, sender } = options
  const settledAmong = makeSettledSearch(options)
  /** The newest block seen. */
  let headNumber = 0
  /**
   * Markets that are known to exist on the chain. They are few and never removed from the chain, so no entry
   * is dropped.
   */
  const prepared = new Set<MarketId>()
  /** Seconds for which an order can still settle after its expiration; constant in the contract. */
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

  async function submit(
    trades: readonly TradeToSettle[],
    { usedPermits }: Parameters<SettlementLane['submit']>[1],
  ): Promise<Submission> {
    const again = trades.filter(
      ({ status, attempts, refusal }) =>
        status !== 'matched' || attempts > 0 || refusal !== undefined,
    )
    const { settled, unconfirmed } = await settledAmong(again)
    const unknownMarkets = await unknownAmong(trades)
    const without = new Set<string>([...settled.map(({ tradeId }) => tradeId), ...unconfirmed])
    const all = trades.filter(
      ({ tradeId, marketId }) => !without.has(tradeId) && !unknownMarkets.includes(marketId),
    )
    const open = all.filter(({ refusal }) => refusal === undefined)
    const before = all.flatMap(({ tradeId, refusal }) =>
      refusal === undefined ? [] : [{ tradeId, ...refusal }],
    )
    const { earlier, fitting } = await spare(open, usedPermits)
    const tried = await simulate(fitting, { usedPermits, earlier, headNumber })
    const { ready, revert } = tried
    const found = await withHoldings(tried.refused, open, { usedPermits })
    // The contract reports that these trades are already settled. Search the chain for their transactions, because the
    // journal does not have them.
    const done = new Set(
      found.filter(({ reason }) => reason === 'AlreadySettled').map(({ tradeId }) => tradeId),
    )
    const late = await settledAmong(open.filter(({ tradeId }) => done.has(tradeId)))
    const refused = [...before, ...found.filter(({ tradeId }) => !done.has(tradeId))]
    const submission = {
      settled: [...settled, ...late.settled],
      unconfirmed: [...unconfirmed, ...late.unconfirmed],
      unknownMarkets,
      refused,
    }
    if (revert !== undefined) {
      return { ...submission, revert: { name: revert.name, words: revert.words } }
    }
    if (ready === undefined) return submission
    const tradeIds = ready.trades.map(({ tradeId }) => tradeId)
    const extraGas = await extraGasOf(client, ready)
    const row = await sender.send({
      to: contract.address,
      data: ready.call.data,
      gas: BigInt(ready.gas),
      purpose: PURPOSE,
      reference: writeReference({ tradeIds, extraGas }),
    })
    return { ...submission, sent: settlementOf(row) }
  }

  return {
    async recover() {
      const rows = await sender.recover()
      return rows.filter(({ purpose }) => purpose === PURPOSE).map(settlementOf)
    },
    submit,
    async poll() {
      // Read `graceSec` before polling the sender. The sender returns each update only once, so an error after its poll
      // would lose the updates. If this read fails, the next poll repeats the read.
      graceSec ??= await contract.delays().then(
        (delays) => delays.graceSec,
        () => undefined,
      )
      const polled = await sender.poll()
      headNumber = Math.max(headNumber, polled.headNumber)
      const updates = polled.news
        .filter(({ transaction }) => transaction.purpose === PURPOSE)
        .filter(({ type, transaction }) => type !== 'replaced' || !endsInBlank(transaction))
        .map((each) => updateOf(each, contract.address))
      const trouble = sender.open().find(({ error }) => error !== '')?.error ?? ''
      return {
        updates,
        headNumber: polled.headNumber,
        trouble,
        graceSec: graceSec ?? Number.POSITIVE_INFINITY,
      }
    },
    acknowledge: (name) => sender.acknowledge(name),
    abandon: (name) => sender.abandon(name),
  }
}

/** Converts an update of a transaction into the update of its trades. */
function updateOf(each: SenderUpdate, contract: Address): SettlementUpdate {
  const settlement = settlementOf(each.transaction)
  if (each.type === 'mined') {
    const { txHash, blockNumber: block } = each.receipt
    return {
      ...settlement,
      type: 'mined',
      txHash,
      block,
      verdicts: verdictsOf(each.receipt, contract),
    }
  }
  if (each.type !== 'finished') return { ...settlement, type: each.type }
  const { outcome, receipt } = each
  return {
    ...settlement,
    type: 'finished',
    txHash: receipt?.txHash ?? settlement.txHash,
    outcome,
    gasUsed: receipt?.gasUsed ?? 0,
    verdicts: verdictsOf(receipt, contract),
  }
}

function verdictsOf(receipt: Receipt | undefined, contract: Address): TradeVerdict[] {
  const verdicts: TradeVerdict[] = []
  for (const [logIndex, log] of (receipt?.logs ?? []).entries()) {
    if (receipt === undefined || log.address !== contract) continue
    const { blockNumber, blockHash, txHash } = receipt
    const event = settlementEvent({
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

/** Returns true if the newest version of the transaction settles no trades and only uses up the nonce. */
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
    tradeIds: readReference(reference).tradeIds,
  }
}
