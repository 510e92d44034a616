/**
 * Follows the transactions of a lane (one key on one chain) until they are finished. Then watches them for
 * `watchBlocks` more blocks, because a reorg may undo them.
 */

import type { TransactionOutcome } from '#domain/transaction.ts'
import { type Entry, minedRow, NEVER } from './lane-entry.ts'
import type { LaneLedger } from './lane-ledger.ts'
import type { LaneNode } from './lane-node.ts'
import type { LaneOutbox } from './lane-outbox.ts'
import { BLANK_PURPOSE, type View } from './lane-parts.ts'
import type { Receipt, SenderPolicy } from './sender.ts'

type FollowerParts = {
  readonly policy: SenderPolicy
  readonly node: LaneNode
  readonly ledger: LaneLedger
  readonly outbox: LaneOutbox
  readonly nowMs: () => number
  /** Called if the node cannot show whether a transaction's block is still in the chain. The next poll checks again. */
  readonly unchecked: () => void
}

export function makeLaneFollower(parts: FollowerParts) {
  const { policy, node, ledger, outbox, nowMs } = parts
  const due = (sinceMs: number, afterMs: number): boolean => nowMs() - sinceMs >= afterMs

  /** Advances a transaction that is not finished. */
  async function follow(entry: Entry, view: View): Promise<void> {
    const { row } = entry
    if (entry.reopened) {
      entry.row = await ledger.save(row)
      entry.reopened = false
    }
    if (view.count > row.nonce || entry.receipt !== undefined) {
      const receipt = await findReceipt(node, entry)
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
    await outbox.push(entry, view)
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
    if (entry.row.purpose === BLANK_PURPOSE) return ledger.close(entry)
    const { receipt } = entry
    view.news.push({
      type: 'finished',
      transaction: entry.row,
      outcome,
      ...(receipt === undefined ? {} : { receipt }),
    })
  }

  /**
   * Handles a transaction whose nonce is used, although none of its signed forms has a receipt. The node's receipts may
   * lag. So the transaction counts as lost only after `lostAfterMs` and `confirmations` more blocks.
   */
  async function missed(entry: Entry, view: View): Promise<void> {
    entry.missing ??= { sinceMs: view.nowMs, block: view.head.number }
    const { sinceMs, block: since } = entry.missing
    const blocks = view.head.number - since
    if (!view.trusted || blocks < policy.confirmations || !due(sinceMs, policy.lostAfterMs)) return
    await finish(entry, 'lost', view)
  }

  /** Checks that a finished transaction is still in its block. */
  async function watch(entry: Entry, view: View): Promise<void> {
    if (entry.row.purpose === BLANK_PURPOSE && entry.row.state === 'open') await ledger.close(entry)
    const mined = entry.receipt ?? minedRow(entry.row)
    if (!view.forked || mined === undefined || !(await isGone(mined, view))) return
    reopen(entry, view)
    if (entry.row.purpose !== BLANK_PURPOSE) {
      view.news.push({ type: 'vanished', transaction: entry.row })
    }
  }

  /** Returns whether the block is certainly no longer in the chain. */
  async function isGone(
    { blockNumber, blockHash }: { blockNumber: number; blockHash: string },
    view: View,
  ): Promise<boolean> {
    const isBelow = blockNumber <= view.head.number
    const canonical = isBelow ? await node.block(blockNumber) : undefined
    if (canonical !== undefined) return canonical.hash !== blockHash
    // If the node lacks a block at or below the head, the node only lags. In this case, the block does not count as
    // gone, and the next poll checks again.
    if (isBelow || !view.trusted) parts.unchecked()
    return !isBelow && view.trusted
  }

  return { follow, watch }
}

/**
 * Returns the receipt of a transaction. Searches the newest signed form first, because older forms are rarely mined.
 */
async function findReceipt(node: LaneNode, { row }: Entry): Promise<Receipt | undefined> {
  for (const hash of [...row.hashes].reverse()) {
    const receipt = await node.receiptOf(hash)
    if (receipt !== undefined) return receipt
  }
  return undefined
}

/** Reopens a finished transaction whose block is gone. */
function reopen(entry: Entry, view: View): void {
  entry.receipt = undefined
  entry.outcome = undefined
  // The next poll sends the transaction again, unless it finds the transaction in another block.
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
}
