/**
 * The transactions of a lane (one key on one chain), open and recently finished. Each change is stored in the journal
 * before it takes effect.
 */

import assert from 'node:assert/strict'
import { toAddress } from '#domain/ids.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import type { Fees } from './fees.ts'
import { type Entry, newEntry } from './lane-entry.ts'
import { BLANK_PURPOSE, type LaneOptions } from './lane-parts.ts'
import type { SenderPolicy } from './sender.ts'
import type { Payload, Signer } from './signer.ts'

/** Maximum number of finished transactions that are watched for reorgs; the oldest are dropped first. */
const WATCHED_MAX = 1_024

export type LaneLedger = ReturnType<typeof makeLaneLedger>

export function makeLaneLedger(options: LaneOptions, policy: SenderPolicy, sign: Signer) {
  const { account, chainId, journal, nowMs } = options
  const sender = toAddress(account.address)
  const entries = new Map<number, Entry>()
  let recovered = false
  let nextNonce = 0
  // Revisions start at the current time in milliseconds. A late write of an earlier process then has a lower revision,
  // so it cannot replace a row of this process.
  let revision = nowMs()

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

  /** Signs the transaction with this nonce, and stores it in the journal before it is sent. */
  async function store(
    nonce: number,
    call: Payload,
    fees: Fees,
    note: { purpose: string; reference: string },
  ): Promise<Entry> {
    const { raw, hash } = await sign(nonce, call, fees)
    const signedAtMs = nowMs()
    const signed = { chainId, sender, nonce, ...note, raw, hash, fees, signedAtMs }
    const row = await save(openRow(signed))
    const entry = newEntry(row, signedAtMs)
    entries.set(nonce, entry)
    nextNonce = Math.max(nextNonce, nonce + 1)
    return entry
  }

  async function close(entry: Entry): Promise<void> {
    entry.row = await save(closedRow(entry, nowMs()))
  }

  /**
   * Drops finished transactions that no reorg can undo: those without a block, and those more than `watchBlocks` below
   * the head. If more than `WATCHED_MAX` others remain, drops the oldest.
   */
  function forget(headNumber: number): void {
    let watched = 0
    for (const entry of inOrder().reverse()) {
      const { state, blockNumber, nonce } = entry.row
      if (state === 'open') continue
      const deep = blockNumber === null || blockNumber < headNumber - policy.watchBlocks
      if (deep || ++watched > WATCHED_MAX) entries.delete(nonce)
    }
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
    ...{ save, recover, store, close, forget, inOrder, openRows, room },
    get: (nonce: number) => entries.get(nonce),
    nextNonce: () => nextNonce,
    /** Skips the nonces below `nonce`, which the chain or the node's pool already uses. */
    skipTo(nonce: number) {
      nextNonce = Math.max(nextNonce, nonce)
    },
  }
}

/** Returns the row of a transaction that was just signed. */
function openRow(
  signed: Pick<
    TransactionRow,
    'chainId' | 'sender' | 'nonce' | 'purpose' | 'reference' | 'raw' | 'signedAtMs'
  > & { readonly hash: string; readonly fees: Fees },
): TransactionRow {
  const { hash, fees, ...row } = signed
  return {
    ...row,
    revision: 0,
    hashes: [hash],
    blanks: row.purpose === BLANK_PURPOSE ? [hash] : [],
    maxFeePerGas: String(fees.maxFeePerGas),
    maxPriorityFeePerGas: String(fees.maxPriorityFeePerGas),
    state: 'open',
    txHash: '',
    blockNumber: null,
    blockHash: '',
    gasUsed: null,
    error: '',
    updatedAtMs: row.signedAtMs,
    finishedAtMs: null,
  }
}

/** Returns the row of a transaction that has ended. */
function closedRow({ row, outcome, receipt }: Entry, finishedAtMs: number): TransactionRow {
  assert(outcome !== undefined)
  return {
    ...row,
    state: outcome,
    txHash: receipt?.txHash ?? '',
    blockNumber: receipt?.blockNumber ?? null,
    blockHash: receipt?.blockHash ?? '',
    gasUsed: receipt?.gasUsed ?? null,
    finishedAtMs,
  }
}
