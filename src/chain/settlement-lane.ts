/**
 * Brings batches of trades on chain: finds out what is settled already and what cannot settle yet,
 * tries the rest without sending it, sends it, and reads what the receipts say of each trade. It
 * keeps no state but the sender's; the settlement actor decides.
 */

import { type Hex, parseAbiItem } from 'viem'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { FaultySide, TradeToSettle } from '#domain/trade.ts'
import type { TransactionOutcome, TransactionRow } from '#domain/transaction.ts'
import { hexAddress } from './call.ts'
import { asked, type ChainClient, chainFault } from './clients.ts'
import type { ConditionalTokens } from './conditional-tokens.ts'
import { type Revert, revertOf } from './revert.ts'
import type { Receipt, TransactionName, TransactionSender } from './sender/sender.ts'
import { batchOf } from './settlement-batch.ts'
import { type SettlementContract, settlementEvent } from './settlement-contract.ts'
import type { SettlementTrial } from './settlement-trial.ts'

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
    | { readonly type: 'replaced' | 'mined' | 'vanished' }
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
  /** Doubtful ones that would be refused again: they were not sent. */
  readonly refused: readonly TradeId[]
  /** The rest: sent, or why the batch as a whole would revert. */
  readonly sent?: OpenSettlement
  readonly revert?: { readonly name: string; readonly words: string }
}

export type SettlementLane = {
  /** What the journal says is under way. */
  recover(): Promise<readonly OpenSettlement[]>
  submit(
    trades: readonly TradeToSettle[],
    options: {
      readonly usedPermits: ReadonlySet<OrderHash>
      /** Trades that the chain has refused before: each is tried first, and sent only if it would settle. */
      readonly doubtful: ReadonlySet<TradeId>
    },
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
  readonly trial: SettlementTrial
  readonly sender: TransactionSender
  /** The account that the sender signs for. */
  readonly from: Address
  readonly confirmations: number
  readonly startBlock: number
  /** The most gas that a transaction of this chain may have. */
  readonly gasMax: number
}

const PURPOSE = 'settlement'

/**
 * Enough for a batch of most markets whatever its traders do meanwhile (see contracts/README.md). What
 * is not used is not paid.
 */
const GAS_BASE = 171_000
const GAS_PER_FILL = 350_000
const GAS_PER_PERMIT = 110_000
const GAS_PER_BYTE = 16

/** Blocks that are asked for at once when a node gives logs only for short ranges. */
const LOG_BLOCKS = 500

const TRADE_SETTLED = parseAbiItem(
  'event TradeSettled(bytes32 indexed tradeId, address indexed buyer, address indexed seller, bytes32 marketId, bytes32 buyHash, bytes32 sellHash, uint8 outcome, uint64 price, uint64 size, uint256 cost)',
)

export function makeSettlementLane(options: SettlementLaneOptions): SettlementLane {
  const { client, contract, tokens, sender, from, confirmations } = options
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
    for (const [index, trade] of trades.entries()) {
      if (now[index] !== true) continue
      if (deep[index] !== true) {
        unripe.push(trade.tradeId)
        continue
      }
      const txHash = await settlingHash(trade, head)
      if (txHash === undefined) unripe.push(trade.tradeId)
      else settled.push({ tradeId: trade.tradeId, txHash })
    }
    return { settled, unripe }
  }

  /** The transaction that settled the trade; undefined when the node has not indexed it yet. */
  async function settlingHash(
    { tradeKey }: TradeToSettle,
    head: number,
  ): Promise<string | undefined> {
    const logs = async (fromBlock: number, toBlock: number): Promise<string | undefined> => {
      const [log] = await asked(
        client.viem.getLogs({
          address: hexAddress(contract.address),
          event: TRADE_SETTLED,
          args: { tradeId: tradeKey as Hex },
          fromBlock: BigInt(fromBlock),
          toBlock: BigInt(toBlock),
        }),
      )
      return log?.transactionHash
    }
    try {
      return await logs(options.startBlock, head)
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== 'CHAIN_RANGE_TOO_LARGE') throw error
    }
    // The newest blocks first: it has not been long.
    for (let to = head; to >= options.startBlock; to -= LOG_BLOCKS) {
      const found = await logs(Math.max(options.startBlock, to - LOG_BLOCKS + 1), to)
      if (found !== undefined) return found
    }
    return undefined
  }

  /** Which of the trades would be refused, each tried alone. */
  async function refusedAmong(
    trades: readonly TradeToSettle[],
    usedPermits: ReadonlySet<OrderHash>,
  ): Promise<TradeId[]> {
    const tried = trades.map(async (trade) => {
      const { orders, fills, permits } = batchOf([trade], usedPermits)
      const settle = contract.settleCall(orders, fills, permits)
      return (await options.trial.wouldSettle(settle, trade)) ? [] : [trade.tradeId]
    })
    return (await Promise.all(tried)).flat()
  }

  async function submit(
    trades: readonly TradeToSettle[],
    { usedPermits, doubtful }: Parameters<SettlementLane['submit']>[1],
  ): Promise<Submission> {
    const again = trades.filter(({ status, attempts }) => status !== 'matched' || attempts > 0)
    const { settled, unripe } = await settledAmong(again)
    const unknownMarkets = await unknownAmong(trades)
    const without = new Set<string>([...settled.map(({ tradeId }) => tradeId), ...unripe])
    const open = trades.filter(
      ({ tradeId, marketId }) => !without.has(tradeId) && !unknownMarkets.includes(marketId),
    )
    const refused = await refusedAmong(
      open.filter(({ tradeId }) => doubtful.has(tradeId)),
      usedPermits,
    )
    const rest = open.filter(({ tradeId }) => !refused.includes(tradeId))
    const found = { settled, unripe, unknownMarkets, refused }
    if (rest.length === 0) return found
    const { orders, fills, permits } = batchOf(rest, usedPermits)
    const call = contract.settleCall(orders, fills, permits)
    let gas = Math.min(
      options.gasMax,
      GAS_BASE +
        GAS_PER_FILL * fills.length +
        GAS_PER_PERMIT * permits.length +
        GAS_PER_BYTE * (call.data.length / 2 - 1),
    )
    let revert = await wouldRevert(call.data, gas)
    // To find the token of an outcome the contract tries points of a curve until one fits. How many
    // that are depends on the market, and there is no bound on it.
    while (revert?.name === 'TooLittleGas' && gas < options.gasMax) {
      gas = Math.min(options.gasMax, 2 * gas)
      revert = await wouldRevert(call.data, gas)
    }
    if (revert !== undefined) {
      return { ...found, revert: { name: revert.name, words: revert.words } }
    }
    const tradeIds = rest.map(({ tradeId }) => tradeId)
    const row = await sender.send({
      to: contract.address,
      data: call.data,
      gas: BigInt(gas),
      purpose: PURPOSE,
      reference: JSON.stringify(tradeIds),
    })
    return { ...found, sent: settlementOf(row) }
  }

  async function wouldRevert(data: Hex, gas: number): Promise<Revert | undefined> {
    try {
      await client.viem.call({
        account: hexAddress(from),
        to: hexAddress(contract.address),
        data,
        gas: BigInt(gas),
      })
      return undefined
    } catch (error) {
      const revert = revertOf(error)
      if (revert === undefined) throw chainFault(error)
      return revert
    }
  }

  function verdictsOf(receipt: Receipt | undefined): TradeVerdict[] {
    const verdicts: TradeVerdict[] = []
    for (const [logIndex, log] of (receipt?.logs ?? []).entries()) {
      if (receipt === undefined || log.address !== contract.address) continue
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
      const { news, headNumber } = await sender.poll()
      const told = news
        .filter(({ transaction }) => transaction.purpose === PURPOSE)
        .filter(({ type, transaction }) => type !== 'replaced' || !endsInBlank(transaction))
        .map((each): SettlementNews => {
          const settlement = settlementOf(each.transaction)
          if (each.type === 'mined') {
            return { ...settlement, type: 'mined', txHash: each.receipt.txHash }
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
      return { news: told, headNumber, trouble, graceSec: graceSec ?? Number.POSITIVE_INFINITY }
    },
    acknowledge: (name) => sender.acknowledge(name),
    abandon: (name) => sender.abandon(name),
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
