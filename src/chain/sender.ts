/**
 * Sends transactions from the exchange's own keys, and follows each until the chain has decided.
 *
 * Not viem's `sendTransaction` with its nonce manager: that signs and broadcasts in one step, so a kill in
 * between leaves no trace of what left the process, and its numbers live in memory. viem signs, encodes
 * and reads here; what is sent when is ours, for safety and not for speed.
 *
 * A **lane** is one key on one chain, and the only sender from it. It numbers its transactions
 * itself. A transaction is signed, stored in the journal, and only then broadcast: after a kill at
 * any instant the journal knows everything that may ever have left the process, and the same bytes
 * are sent again. Sending the same bytes twice is harmless, because a nonce is used once; so the
 * cure for every doubt (no answer, an error, a node that forgot) is to broadcast again and look.
 *
 * Nothing runs by itself. The owner calls `poll` as often as it likes, and each call looks at the
 * chain once and does what is due by the clock that was handed in:
 *
 * - not in a block yet: it is broadcast again from time to time, and signed again with fees at least
 *   an eighth higher in both fields when it has waited for long, or at once when the base fee has
 *   passed what it offers or a node calls it underpriced. Every form that was ever signed is
 *   remembered, since any of them may be mined.
 * - a node refuses it for good, or it has waited too long: a transaction to oneself that does
 *   nothing takes its nonce, so that those behind it can go on. It ends as `cancelled`.
 * - mined: once as many blocks are on top as were asked for, it is `finished`.
 * - its nonce is used up and no form of ours has a receipt: after a while it is `lost`.
 * - its block is not in the chain any more: it has `vanished`, also for some time after it was
 *   finished. It is open again, and sent again by the next poll unless the owner abandons it.
 *
 * A node may lag behind: one whose head is below what was seen before is not believed when it does
 * not know something, until it has kept saying so for `doubtMs`.
 *
 * The owner's part of the conversation:
 *
 *     recover, *[ send | poll → *news | acknowledge | abandon ]
 *
 * A transaction stays open in the journal until the owner acknowledges that it has dealt with its
 * end. After a restart the news of every unacknowledged end comes again, so an owner has to be able
 * to hear it twice and can never miss it.
 *
 * Worked example. Nonce 7 is signed at 30 gwei and broadcast; the process is killed. The next one
 * loads row 7 and broadcasts the same bytes ("already known"). The base fee rises to 45: a second
 * form at 100 gwei is stored and broadcast. The first form is mined anyway; `finished` names its
 * hash. The owner reports what follows from the receipt, acknowledges, and row 7 is closed.
 */

import assert from 'node:assert/strict'
import {
  bytesToHex,
  type Hex,
  hexToBigInt,
  hexToBytes,
  hexToNumber,
  keccak256,
  type LocalAccount,
  numberToHex,
  type PublicClient,
  parseSignature,
  parseTransaction,
  serializeTransaction,
} from 'viem'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import type { Keccak256 } from '#domain/order-hash.ts'
import type { TransactionOutcome, TransactionRow } from '#domain/transaction.ts'
import { broadcastAnswer, everythingSaid, shortly } from './broadcast-error.ts'
import { bumpedFees, cappedFees, type Fees, freshFees } from './fees.ts'

/** Where transactions are kept. Both throw a fault when the outside fails. */
export type Journal = {
  /**
   * Every open transaction of the sender, those finished in the newest `watchBlocks` blocks that it
   * knows of, and the highest nonce it has ever stored (-1 when none).
   */
  load(from: {
    readonly chainId: number
    readonly sender: Address
    readonly watchBlocks: number
  }): Promise<{ readonly rows: readonly TransactionRow[]; readonly lastNonce: number }>
  /** Durable once it resolves. The row replaces one of the same nonce with a lower revision. */
  save(row: TransactionRow): Promise<void>
}

export type SendRequest = {
  readonly to: Address
  readonly data: string
  readonly value?: bigint
  /** Estimated when it is left out; then a call that would revert is a fault. */
  readonly gas?: bigint
  readonly purpose: string
  readonly reference: string
}

export type Receipt = {
  readonly txHash: string
  readonly blockNumber: number
  readonly blockHash: string
  readonly succeeded: boolean
  readonly gasUsed: number
  readonly logs: readonly ReceiptLog[]
}

export type ReceiptLog = {
  readonly address: Address
  readonly topics: readonly string[]
  readonly data: string
}

export type SenderNews =
  /** Signed again; the newest of `transaction.hashes` is the new one. */
  | { readonly type: 'replaced'; readonly transaction: TransactionRow }
  | { readonly type: 'mined'; readonly transaction: TransactionRow; readonly receipt: Receipt }
  /** The end of it; the receipt is missing when it was lost. To be acknowledged. */
  | {
      readonly type: 'finished'
      readonly transaction: TransactionRow
      readonly outcome: TransactionOutcome
      readonly receipt?: Receipt
    }
  /** A reorg removed it after it was said to be mined or finished. It is open again. */
  | { readonly type: 'vanished'; readonly transaction: TransactionRow }

export type Polled = {
  readonly news: readonly SenderNews[]
  /** The newest block that was seen. */
  readonly headNumber: number
  readonly headAtSec: number
}

export type TransactionName = { readonly sender: Address; readonly nonce: number }

/** A lane, or several lanes that share the work. */
export type Sender = {
  /** Reads the journal, once; answers what is open. Everything else does it first if need be. */
  recover(): Promise<readonly TransactionRow[]>
  /**
   * Signs, stores and broadcasts. Resolves once it is stored, even if no node has it yet: polling
   * sees to that. When it throws, nothing has left the process.
   */
  send(request: SendRequest): Promise<TransactionRow>
  /** Looks at the chain once, and does what is due. Throws when the chain cannot be asked at all. */
  poll(): Promise<Polled>
  /** The owner has dealt with the end of it. */
  acknowledge(name: TransactionName): Promise<void>
  /** The owner does not want it any more: the next poll replaces it by one that does nothing. */
  abandon(name: TransactionName): void
  /** What is open, in the order of nonces. */
  open(): readonly TransactionRow[]
  /** How many more may be open. */
  room(): number
}

export type SenderPolicy = {
  /** Blocks on top of a transaction's own before it is finished. */
  readonly confirmations: number
  readonly rebroadcastAfterMs: number
  readonly bumpAfterMs: number
  /** After this long without a block the nonce is given to a transaction that does nothing. */
  readonly giveUpAfterMs: number
  readonly lostAfterMs: number
  readonly doubtMs: number
  /** How far back a finished transaction is still watched for reorgs. */
  readonly watchBlocks: number
  readonly maxFeeCap: bigint
  /** Transactions that may be open at once; one more is refused. */
  readonly openMax: number
}

export const DEFAULT_POLICY: SenderPolicy = {
  confirmations: 0,
  rebroadcastAfterMs: 5_000,
  bumpAfterMs: 20_000,
  giveUpAfterMs: 600_000,
  lostAfterMs: 60_000,
  doubtMs: 30_000,
  watchBlocks: 64,
  maxFeeCap: 1_000_000_000_000n,
  openMax: 64,
}

export type LaneOptions = {
  readonly client: PublicClient
  readonly account: LocalAccount
  readonly chainId: number
  readonly journal: Journal
  readonly nowMs: () => number
  readonly policy?: Partial<SenderPolicy>
  /** For large transactions: the portable hash takes longer than all else that signing does. */
  readonly keccak256?: Keccak256
  /** Told of every trouble that the lane gets over by itself. */
  readonly onTrouble?: (where: 'rpc' | 'journal', error: unknown) => void
}

type Head = {
  readonly number: number
  readonly hash: string
  readonly parentHash: string
  readonly baseFee: bigint
  readonly atSec: number
}

/** What a poll has found out before it looks at the transactions. */
type View = {
  readonly head: Head
  /** The sender's next nonce, as the newest block has it. */
  readonly count: number
  /** Whether the node may be believed when it does not know something. */
  readonly trusted: boolean
  /** Whether blocks that were seen before may have gone. */
  readonly forked: boolean
  readonly nowMs: number
  readonly news: SenderNews[]
}

type Entry = {
  row: TransactionRow
  /** Since when this process has had it open. */
  openSinceMs: number
  /** When it was last handed to a node by this process. */
  broadcastAtMs: number
  /** Since when nothing but its own fees can keep it from being mined; undefined while others can. */
  firstSinceMs: number | undefined
  receipt: Receipt | undefined
  outcome: TransactionOutcome | undefined
  /** Since when its nonce has been used up without a receipt of ours. */
  missing: { readonly sinceMs: number; readonly block: number } | undefined
  abandoned: boolean
  underpriced: boolean
  /** A reorg took it back after its end was acknowledged, and the journal does not say so yet. */
  reopened: boolean
}

/** Finished transactions that are watched at once; the oldest go first. */
const WATCHED_MAX = 1_024

const NEVER = Number.NEGATIVE_INFINITY
const BLANK_GAS = 21_000n
const BLANK_PURPOSE = 'blank'
/** One gwei. */
const TIP_DEFAULT = numberToHex(1_000_000_000)
/** On top of an estimate: state may have changed by the time it is mined. */
const ESTIMATE_MARGIN_PERCENT = 20n

export function makeLane(options: LaneOptions): Sender {
  const { client, account, chainId, journal, nowMs } = options
  const policy: SenderPolicy = { ...DEFAULT_POLICY, ...options.policy }
  const sender = account.address.toLowerCase() as Address
  const hashBytes = options.keccak256 ?? ((bytes) => keccak256(bytes, 'bytes'))
  const hashOf = (bytes: Hex): Hex => bytesToHex(hashBytes(hexToBytes(bytes)))
  const entries = new Map<number, Entry>()
  let recovered = false
  let nextNonce = 0
  /** Whether `nextNonce` has been compared with the chain. */
  let counted = false
  // A restarted lane counts on from the clock, so that what its predecessor asked to be stored last
  // is never taken for newer.
  let revision = nowMs()
  let previous: Head | undefined
  let highest = 0
  let freshAtMs = nowMs()
  /** Something could not be checked after a reorg, so the next poll checks again. */
  let recheck = true
  let turn: Promise<unknown> = Promise.resolve()

  /** One operation at a time: nonces and the journal know no other order. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = turn.then(work)
    turn = mine.catch(() => {})
    return mine
  }

  async function rpc<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      options.onTrouble?.('rpc', error)
      throw new Fault('CHAIN_UNAVAILABLE', `the chain did not answer: ${shortly(error)}`, {
        retryable: true,
        cause: error,
      })
    }
  }

  async function block(number: number | 'latest'): Promise<Head | undefined> {
    const found = await rpc(() =>
      client.request({
        method: 'eth_getBlockByNumber',
        params: [number === 'latest' ? number : numberToHex(number), false],
      }),
    )
    if (found === null || found.number === null || found.hash === null) return undefined
    return {
      number: hexToNumber(found.number),
      hash: found.hash,
      parentHash: found.parentHash,
      baseFee: found.baseFeePerGas == null ? 0n : hexToBigInt(found.baseFeePerGas),
      atSec: hexToNumber(found.timestamp),
    }
  }

  async function headBlock(): Promise<Head> {
    const head = await block('latest')
    if (head !== undefined) return head
    throw new Fault('CHAIN_UNAVAILABLE', 'the node has no newest block', { retryable: true })
  }

  async function transactionCount(): Promise<number> {
    const count = await rpc(() =>
      client.request({ method: 'eth_getTransactionCount', params: [account.address, 'latest'] }),
    )
    return hexToNumber(count)
  }

  async function receiptOf(hash: string): Promise<Receipt | undefined> {
    const found = await rpc(() =>
      client.request({ method: 'eth_getTransactionReceipt', params: [hash as Hex] }),
    )
    if (found === null || found.blockNumber === null) return undefined
    return {
      txHash: hash,
      blockNumber: hexToNumber(found.blockNumber),
      blockHash: found.blockHash,
      succeeded: hexToNumber(found.status) === 1,
      gasUsed: hexToNumber(found.gasUsed),
      logs: found.logs.map((log) => ({
        address: log.address.toLowerCase() as Address,
        topics: log.topics,
        data: log.data,
      })),
    }
  }

  async function currentFees(baseFee: bigint): Promise<Fees> {
    const tip = await rpc(() =>
      client.request({ method: 'eth_maxPriorityFeePerGas' }).catch((error: unknown) => {
        // Some nodes have no opinion.
        if (/not (found|supported|available|exist)/i.test(everythingSaid(error))) return TIP_DEFAULT
        throw error
      }),
    )
    return freshFees(baseFee, hexToBigInt(tip))
  }

  async function estimate(request: SendRequest): Promise<bigint> {
    try {
      const gas = await client.estimateGas({
        account: account.address,
        to: request.to as Hex,
        data: request.data as Hex,
        value: request.value ?? 0n,
      })
      return (gas * (100n + ESTIMATE_MARGIN_PERCENT)) / 100n
    } catch (error) {
      const reverts = /revert/i.test(everythingSaid(error))
      if (!reverts) options.onTrouble?.('rpc', error)
      throw new Fault(reverts ? 'CHAIN_REVERTS' : 'CHAIN_UNAVAILABLE', shortly(error), {
        retryable: !reverts,
        cause: error,
      })
    }
  }

  async function save(row: TransactionRow): Promise<TransactionRow> {
    const numbered = { ...row, revision: ++revision, updatedAtMs: nowMs() }
    try {
      await journal.save(numbered)
    } catch (error) {
      options.onTrouble?.('journal', error)
      throw error
    }
    return numbered
  }

  async function sign(
    nonce: number,
    call: { to: string; data: string; value: bigint; gas: bigint },
    fees: Fees,
  ): Promise<{ raw: string; hash: string }> {
    const transaction = {
      type: 'eip1559' as const,
      chainId,
      nonce,
      to: call.to as Hex,
      data: call.data as Hex,
      value: call.value,
      gas: call.gas,
      ...fees,
    }
    assert(account.sign !== undefined, 'a lane has a key of its own')
    const signature = await account.sign({ hash: hashOf(serializeTransaction(transaction)) })
    const raw = serializeTransaction(transaction, parseSignature(signature))
    return { raw, hash: hashOf(raw) }
  }

  async function recover(): Promise<void> {
    if (recovered) return
    const { rows, lastNonce } = await journal.load({
      chainId,
      sender,
      watchBlocks: policy.watchBlocks,
    })
    for (const row of rows) {
      revision = Math.max(revision, row.revision)
      entries.set(row.nonce, newEntry(row, nowMs()))
    }
    nextNonce = lastNonce + 1
    recovered = true
  }

  /** The transaction is stored under the next nonce before anybody outside sees it. */
  async function store(
    nonce: number,
    call: { to: string; data: string; value: bigint; gas: bigint },
    fees: Fees,
    note: { purpose: string; reference: string },
  ): Promise<Entry> {
    const { raw, hash } = await sign(nonce, call, fees)
    const signedAtMs = nowMs()
    const row = await save({
      chainId,
      sender,
      nonce,
      revision: 0,
      ...note,
      raw,
      hashes: [hash],
      blanks: note.purpose === BLANK_PURPOSE ? [hash] : [],
      maxFeePerGas: String(fees.maxFeePerGas),
      maxPriorityFeePerGas: String(fees.maxPriorityFeePerGas),
      state: 'open',
      txHash: '',
      blockNumber: null,
      blockHash: '',
      gasUsed: null,
      error: '',
      signedAtMs,
      updatedAtMs: signedAtMs,
      finishedAtMs: null,
    })
    const entry = newEntry(row, signedAtMs)
    entries.set(nonce, entry)
    nextNonce = Math.max(nextNonce, nonce + 1)
    return entry
  }

  async function send(request: SendRequest): Promise<TransactionRow> {
    assert(request.purpose !== BLANK_PURPOSE)
    await recover()
    if (room() <= 0) {
      throw new Fault('SENDER_FULL', 'too many transactions are under way', { retryable: true })
    }
    if (!counted) {
      nextNonce = Math.max(nextNonce, await transactionCount())
      counted = true
    }
    const gas = request.gas ?? (await estimate(request))
    const fees = cappedFees(await currentFees((await headBlock()).baseFee), policy.maxFeeCap)
    const { to, data, value = 0n, purpose, reference } = request
    const entry = await store(nextNonce, { to, data, value, gas }, fees, { purpose, reference })
    await broadcast(entry)
    return entry.row
  }

  /** Hands it to a node. Whatever comes back, the next poll looks what has become of it. */
  async function broadcast(entry: Entry): Promise<void> {
    entry.broadcastAtMs = nowMs()
    try {
      await client.request({
        method: 'eth_sendRawTransaction',
        params: [entry.row.raw as Hex],
      })
      note(entry, '')
    } catch (error) {
      const answer = broadcastAnswer(error)
      if (answer === 'known' || answer === 'passed') return
      if (answer === 'underpriced') entry.underpriced = true
      if (answer === 'refused') entry.abandoned = true
      if (answer === 'unreachable') options.onTrouble?.('rpc', error)
      note(entry, shortly(error))
    }
  }

  /** For whoever looks at the row; it is stored with its next change. */
  function note(entry: Entry, error: string): void {
    if (entry.row.error !== error) entry.row = { ...entry.row, error }
  }

  /** Signs it again with higher fees, or as one that does nothing, stores that, and sends it. */
  async function replace(entry: Entry, view: View): Promise<void> {
    const { row } = entry
    const blank = entry.abandoned && !isBlank(entry)
    const before = parseTransaction(row.raw as Hex)
    const call = blank
      ? { to: account.address, data: '0x', value: 0n, gas: BLANK_GAS }
      : {
          to: before.to ?? account.address,
          data: before.data ?? '0x',
          value: before.value ?? 0n,
          gas: before.gas ?? BLANK_GAS,
        }
    const offered = {
      maxFeePerGas: BigInt(row.maxFeePerGas),
      maxPriorityFeePerGas: BigInt(row.maxPriorityFeePerGas),
    }
    const fees = bumpedFees(offered, await currentFees(view.head.baseFee), policy.maxFeeCap)
    if (fees === undefined) {
      note(entry, 'its fees are at the highest that is allowed')
      if (due(entry.broadcastAtMs, policy.rebroadcastAfterMs)) await broadcast(entry)
      return
    }
    const { raw, hash } = await sign(row.nonce, call, fees)
    entry.row = await save({
      ...row,
      raw,
      hashes: [...row.hashes, hash],
      blanks: blank || isBlank(entry) ? [...row.blanks, hash] : row.blanks,
      maxFeePerGas: String(fees.maxFeePerGas),
      maxPriorityFeePerGas: String(fees.maxPriorityFeePerGas),
    })
    entry.underpriced = false
    entry.firstSinceMs = view.nowMs
    if (row.purpose !== BLANK_PURPOSE) {
      view.news.push({ type: 'replaced', transaction: entry.row })
    }
    await broadcast(entry)
  }

  function due(sinceMs: number, afterMs: number): boolean {
    return nowMs() - sinceMs >= afterMs
  }

  async function poll(): Promise<Polled> {
    await recover()
    const head = await headBlock()
    const trusted = believe(head)
    const forked = recheck || (await isForked(head))
    const count = await transactionCount()
    if (trusted && count > nextNonce) nextNonce = count
    const view: View = { head, count, trusted, forked, nowMs: nowMs(), news: [] }
    previous = head
    recheck = !trusted
    // One that fails does not keep the others back, nor the news of them; the next poll looks again.
    const attempt = async (work: () => Promise<void>): Promise<void> => {
      try {
        await work()
      } catch (error) {
        if (!(error instanceof Fault)) throw error
        recheck ||= forked
      }
    }
    for (const entry of inOrder()) {
      const ended = entry.outcome !== undefined || entry.row.state !== 'open'
      await attempt(() => (ended ? watch(entry, view) : follow(entry, view)))
    }
    if (trusted) await attempt(() => fillGaps(view))
    forget(head.number)
    return { news: view.news, headNumber: head.number, headAtSec: head.atSec }
  }

  /** Whether what the node does not know can be taken for gone. A node that lags is given time. */
  function believe(head: Head): boolean {
    if (head.number >= highest || due(freshAtMs, policy.doubtMs)) {
      highest = head.number
      freshAtMs = nowMs()
      return true
    }
    return false
  }

  async function isForked(head: Head): Promise<boolean> {
    if (previous === undefined) return true
    if (head.hash === previous.hash || head.parentHash === previous.hash) return false
    if (head.number <= previous.number) return true
    return (await block(previous.number))?.hash !== previous.hash
  }

  /** One step of a transaction that is not finished. */
  async function follow(entry: Entry, view: View): Promise<void> {
    const { row } = entry
    if (entry.reopened) {
      entry.row = await save(row)
      entry.reopened = false
    }
    if (view.count > row.nonce || entry.receipt !== undefined) {
      const receipt = await findReceipt(entry)
      if (receipt !== undefined) return minedIn(entry, receipt, view)
      if (entry.receipt !== undefined) {
        if (!(await isGone(entry.receipt, view))) return
        entry.receipt = undefined
        view.news.push({ type: 'vanished', transaction: entry.row })
        return
      }
      if (view.count > row.nonce) return missed(entry, view)
    }
    entry.missing = undefined
    await push(entry, view)
  }

  /** The newest form first: the others are mined only by chance. */
  async function findReceipt({ row }: Entry): Promise<Receipt | undefined> {
    for (const hash of [...row.hashes].reverse()) {
      const receipt = await receiptOf(hash)
      if (receipt !== undefined) return receipt
    }
    return undefined
  }

  async function minedIn(entry: Entry, receipt: Receipt, view: View): Promise<void> {
    const isNews = entry.receipt?.blockHash !== receipt.blockHash
    entry.receipt = receipt
    entry.missing = undefined
    if (isNews && entry.row.purpose !== BLANK_PURPOSE) {
      view.news.push({ type: 'mined', transaction: entry.row, receipt })
    }
    if (view.head.number - receipt.blockNumber < policy.confirmations) return
    const canonical =
      receipt.blockNumber === view.head.number ? view.head : await block(receipt.blockNumber)
    if (canonical?.hash !== receipt.blockHash) return
    const outcome = entry.row.blanks.includes(receipt.txHash)
      ? 'cancelled'
      : receipt.succeeded
        ? 'succeeded'
        : 'reverted'
    await finish(entry, outcome, view)
  }

  async function finish(entry: Entry, outcome: TransactionOutcome, view: View): Promise<void> {
    entry.outcome = outcome
    if (entry.row.purpose === BLANK_PURPOSE) return close(entry)
    const { receipt } = entry
    view.news.push({
      type: 'finished',
      transaction: entry.row,
      outcome,
      ...(receipt === undefined ? {} : { receipt }),
    })
  }

  /** The nonce is used up, but by whom? A node that lags with its receipts is given time. */
  async function missed(entry: Entry, view: View): Promise<void> {
    entry.missing ??= { sinceMs: view.nowMs, block: view.head.number }
    const { sinceMs, block: since } = entry.missing
    const blocks = view.head.number - since
    if (!view.trusted || blocks < policy.confirmations || !due(sinceMs, policy.lostAfterMs)) return
    await finish(entry, 'lost', view)
  }

  /** Helps a transaction that is in no block into one. */
  async function push(entry: Entry, view: View): Promise<void> {
    const first = view.count === entry.row.nonce
    if (!first || !view.trusted) {
      entry.firstSinceMs = undefined
      if (due(entry.broadcastAtMs, policy.rebroadcastAfterMs)) await broadcast(entry)
      return
    }
    entry.firstSinceMs ??= view.nowMs
    if (due(entry.openSinceMs, policy.giveUpAfterMs)) entry.abandoned = true
    const tooCheap = BigInt(entry.row.maxFeePerGas) < view.head.baseFee
    const unwanted = entry.abandoned && !isBlank(entry)
    if (
      unwanted ||
      tooCheap ||
      entry.underpriced ||
      due(Math.max(entry.firstSinceMs, entry.row.updatedAtMs), policy.bumpAfterMs)
    ) {
      await replace(entry, view)
    } else if (due(entry.broadcastAtMs, policy.rebroadcastAfterMs)) {
      await broadcast(entry)
    }
  }

  /** Whether a finished transaction is still where it was. */
  async function watch(entry: Entry, view: View): Promise<void> {
    if (entry.row.purpose === BLANK_PURPOSE && entry.row.state === 'open') await close(entry)
    const mined = entry.receipt ?? minedRow(entry.row)
    if (!view.forked || mined === undefined || !(await isGone(mined, view))) return
    entry.receipt = undefined
    entry.outcome = undefined
    // It may have been mined again, in another block; the next poll will find that out.
    entry.broadcastAtMs = NEVER
    entry.openSinceMs = view.nowMs
    entry.reopened = entry.row.state !== 'open'
    entry.row = {
      ...entry.row,
      state: 'open',
      txHash: '',
      blockNumber: null,
      blockHash: '',
      gasUsed: null,
      finishedAtMs: null,
    }
    if (entry.row.purpose !== BLANK_PURPOSE) {
      view.news.push({ type: 'vanished', transaction: entry.row })
    }
  }

  /** Whether the block is certainly not in the chain any more. */
  async function isGone(
    { blockNumber, blockHash }: { blockNumber: number; blockHash: string },
    view: View,
  ): Promise<boolean> {
    const canonical = blockNumber <= view.head.number ? await block(blockNumber) : undefined
    if (canonical !== undefined) return canonical.hash !== blockHash
    if (!view.trusted) recheck = true
    return view.trusted
  }

  /** A nonce that nobody has a transaction for blocks everything behind it. */
  async function fillGaps(view: View): Promise<void> {
    const stuck = inOrder().find(
      ({ row, outcome, openSinceMs }) =>
        outcome === undefined &&
        row.state === 'open' &&
        row.nonce > view.count &&
        due(openSinceMs, policy.bumpAfterMs),
    )
    if (stuck === undefined) return
    for (let nonce = view.count; nonce < stuck.row.nonce; nonce++) {
      if (entries.has(nonce)) continue
      const fees = cappedFees(await currentFees(view.head.baseFee), policy.maxFeeCap)
      const call = { to: account.address, data: '0x', value: 0n, gas: BLANK_GAS }
      const note = { purpose: BLANK_PURPOSE, reference: '' }
      await broadcast(await store(nonce, call, fees, note))
    }
  }

  /** Forgets what is finished and too deep to be undone. */
  function forget(headNumber: number): void {
    let watched = 0
    for (const entry of inOrder().reverse()) {
      const { state, blockNumber, nonce } = entry.row
      if (state === 'open') continue
      const deep = blockNumber === null || blockNumber < headNumber - policy.watchBlocks
      if (deep || ++watched > WATCHED_MAX) entries.delete(nonce)
    }
  }

  async function close(entry: Entry): Promise<void> {
    const { outcome, receipt } = entry
    assert(outcome !== undefined)
    entry.row = await save({
      ...entry.row,
      state: outcome,
      txHash: receipt?.txHash ?? '',
      blockNumber: receipt?.blockNumber ?? null,
      blockHash: receipt?.blockHash ?? '',
      gasUsed: receipt?.gasUsed ?? null,
      finishedAtMs: nowMs(),
    })
  }

  async function acknowledge({ nonce }: TransactionName): Promise<void> {
    const entry = entries.get(nonce)
    // A reorg may have reopened it since; then its next end is to be acknowledged.
    if (entry?.outcome === undefined || entry.row.state !== 'open') return
    await close(entry)
  }

  function inOrder(): Entry[] {
    return [...entries.values()].sort((a, b) => a.row.nonce - b.row.nonce)
  }

  function openRows(): TransactionRow[] {
    return inOrder()
      .map(({ row }) => row)
      .filter(({ state, purpose }) => state === 'open' && purpose !== BLANK_PURPOSE)
  }

  function room(): number {
    let open = 0
    for (const { row } of entries.values()) if (row.state === 'open') open++
    return policy.openMax - open
  }

  return {
    recover: () =>
      inTurn(async () => {
        await recover()
        return openRows()
      }),
    send: (request) => inTurn(() => send(request)),
    poll: () => inTurn(poll),
    acknowledge: (name) => inTurn(() => acknowledge(name)),
    abandon({ nonce }) {
      const entry = entries.get(nonce)
      if (entry !== undefined) entry.abandoned = true
    },
    open: openRows,
    room,
  }
}

/** Lanes that share the work: each transaction goes by the one with the most room. */
export function makeLanePool(lanes: ReadonlyMap<Address, Sender>): Sender {
  const all = [...lanes.values()]
  const laneOf = ({ sender }: TransactionName): Sender => {
    const lane = lanes.get(sender)
    assert(lane !== undefined, `there is no lane of ${sender}`)
    return lane
  }
  return {
    async recover() {
      return (await Promise.all(all.map((lane) => lane.recover()))).flat()
    },
    async send(request) {
      let best: Sender | undefined
      for (const lane of all) if (best === undefined || lane.room() > best.room()) best = lane
      assert(best !== undefined, 'a pool has at least one lane')
      return best.send(request)
    },
    async poll() {
      // The news of one lane comes once, so the failure of another must not swallow it.
      const ends = await Promise.allSettled(all.map((lane) => lane.poll()))
      const polled = ends.filter((end) => end.status === 'fulfilled').map(({ value }) => value)
      const failed = ends.find((end) => end.status === 'rejected')
      if (failed !== undefined && polled.length === 0) throw failed.reason
      return {
        news: polled.flatMap(({ news }) => news),
        headNumber: Math.max(...polled.map(({ headNumber }) => headNumber)),
        headAtSec: Math.max(...polled.map(({ headAtSec }) => headAtSec)),
      }
    },
    acknowledge: (name) => laneOf(name).acknowledge(name),
    abandon: (name) => laneOf(name).abandon(name),
    open: () => all.flatMap((lane) => lane.open()),
    room: () => all.reduce((sum, lane) => sum + lane.room(), 0),
  }
}

function newEntry(row: TransactionRow, nowMs: number): Entry {
  return {
    row,
    openSinceMs: nowMs,
    broadcastAtMs: NEVER,
    firstSinceMs: undefined,
    receipt: undefined,
    outcome: undefined,
    missing: undefined,
    abandoned: false,
    underpriced: false,
    reopened: false,
  }
}

function isBlank({ row }: Entry): boolean {
  const newest = row.hashes.at(-1)
  return newest !== undefined && row.blanks.includes(newest)
}

function minedRow({
  blockNumber,
  blockHash,
}: TransactionRow): { blockNumber: number; blockHash: string } | undefined {
  return blockNumber === null ? undefined : { blockNumber, blockHash }
}
