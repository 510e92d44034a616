/**
 * A lane: one key on one chain, and the only sender from it. What it promises is at the top of
 * `sender.ts`; this is how a transaction is stored, sent, looked after and ended.
 */

import assert from 'node:assert/strict'
import type { Hex, LocalAccount, PublicClient } from 'viem'
import { Fault } from '#domain/fault.ts'
import { toAddress } from '#domain/ids.ts'
import type { Keccak256 } from '#domain/order-hash.ts'
import type { TransactionOutcome, TransactionRow } from '#domain/transaction.ts'
import { broadcastAnswer, shortly } from './broadcast-error.ts'
import { bumpedFees, cappedFees, type Fees } from './fees.ts'
import { type Entry, isBlank, minedRow, NEVER, newEntry, offeredBy } from './lane-entry.ts'
import { type Head, makeLaneNode } from './lane-node.ts'
import {
  DEFAULT_POLICY,
  type Journal,
  type Polled,
  type Receipt,
  type SenderNews,
  type SenderPolicy,
  type SendRequest,
  type TransactionName,
  type TransactionSender,
} from './sender.ts'
import { blankPayload, makeSigner, type Payload, payloadOf } from './signer.ts'

type LaneOptions = {
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

/** Finished transactions that are watched at once; the oldest go first. */
const WATCHED_MAX = 1_024

const BLANK_PURPOSE = 'blank'

export function makeLane(options: LaneOptions): TransactionSender {
  const { client, account, chainId, journal, nowMs } = options
  const policy: SenderPolicy = { ...DEFAULT_POLICY, ...options.policy }
  const sender = toAddress(account.address)
  const node = makeLaneNode(options)
  const sign = makeSigner(options)
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

  /** The transaction is stored under the next nonce before it is seen outside. */
  async function store(
    nonce: number,
    call: Payload,
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
      // The journal may be of an older copy of the database; the chain and its pool know what left since.
      nextNonce = Math.max(nextNonce, await node.transactionCount('pending'))
      counted = true
    }
    const gas = request.gas ?? (await node.estimate(request))
    const fees = cappedFees(
      await node.currentFees((await node.headBlock()).baseFee),
      policy.maxFeeCap,
    )
    const { to, data, value = 0n, purpose, reference } = request
    const entry = await store(nextNonce, { to, data, value, gas }, fees, { purpose, reference })
    await broadcast(entry)
    return entry.row
  }

  /** Hands it to a node. Whatever comes back, the next poll looks what has become of it. */
  async function broadcast(entry: Entry): Promise<void> {
    entry.broadcastAtMs = nowMs()
    entry.refused = false
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
      if (answer === 'refused') {
        entry.refused = true
        entry.abandoned = true
      }
      if (answer === 'unreachable') options.onTrouble?.('rpc', error)
      note(entry, shortly(error))
    }
  }

  /** For an operator who looks at the row; it is stored with its next change. */
  function note(entry: Entry, error: string): void {
    if (entry.row.error !== error) entry.row = { ...entry.row, error }
  }

  /** Signs it again with higher fees, or as one that does nothing, stores that, and sends it. */
  async function replace(entry: Entry, view: View): Promise<void> {
    const { row } = entry
    const blank = entry.abandoned && !isBlank(entry)
    const call = blank ? blankPayload(account.address) : payloadOf(row.raw, account.address)
    const current = await node.currentFees(view.head.baseFee)
    // What was refused is in no pool: at the cap there is nothing to outbid.
    const fees =
      bumpedFees(offeredBy(row), current, policy.maxFeeCap) ??
      (blank && entry.refused ? cappedFees(current, policy.maxFeeCap) : undefined)
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
    const head = await node.headBlock()
    const trusted = believe(head)
    const seen = await isForked(head)
    const forked = recheck || seen !== false
    const count = await node.transactionCount()
    if (trusted && count > nextNonce) nextNonce = count
    const view: View = { head, count, trusted, forked, nowMs: nowMs(), news: [] }
    previous = head
    recheck = !trusted || seen === undefined
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

  /** Undefined when the node does not say: then it is behind the one that told the head. */
  async function isForked(head: Head): Promise<boolean | undefined> {
    if (previous === undefined) return true
    if (head.hash === previous.hash || head.parentHash === previous.hash) return false
    if (head.number <= previous.number) return true
    const canonical = await node.block(previous.number)
    return canonical === undefined ? undefined : canonical.hash !== previous.hash
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
      const receipt = await node.receiptOf(hash)
      if (receipt !== undefined) return receipt
    }
    return undefined
  }

  async function minedIn(entry: Entry, receipt: Receipt, view: View): Promise<void> {
    const isNew = entry.receipt?.blockHash !== receipt.blockHash
    entry.receipt = receipt
    entry.missing = undefined
    if (isNew && entry.row.purpose !== BLANK_PURPOSE) {
      view.news.push({ type: 'mined', transaction: entry.row, receipt })
    }
    if (view.head.number - receipt.blockNumber < policy.confirmations) return
    const canonical =
      receipt.blockNumber === view.head.number ? view.head : await node.block(receipt.blockNumber)
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
    const isBelow = blockNumber <= view.head.number
    const canonical = isBelow ? await node.block(blockNumber) : undefined
    if (canonical !== undefined) return canonical.hash !== blockHash
    // Every chain has a block below its head: a node without it is behind the one that told the head.
    if (isBelow || !view.trusted) recheck = true
    return !isBelow && view.trusted
  }

  /** A nonce without a transaction blocks everything behind it. */
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
      const fees = cappedFees(await node.currentFees(view.head.baseFee), policy.maxFeeCap)
      const note = { purpose: BLANK_PURPOSE, reference: '' }
      await broadcast(await store(nonce, blankPayload(account.address), fees, note))
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
