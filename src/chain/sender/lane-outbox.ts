/**
 * Sends the transactions of a lane (one key on one chain), sends them again if necessary, and replaces transactions
 * that no block includes.
 */

import type { Hex } from 'viem'
import { broadcastAnswer, shortly } from './broadcast-error.ts'
import { bumpedFees, cappedFees } from './fees.ts'
import { type Entry, isBlank, offeredBy } from './lane-entry.ts'
import type { LaneLedger } from './lane-ledger.ts'
import type { LaneNode } from './lane-node.ts'
import { BLANK_PURPOSE, type LaneOptions, type View } from './lane-parts.ts'
import type { SenderPolicy } from './sender.ts'
import { blankPayload, payloadOf, type Signer } from './signer.ts'

export type LaneOutbox = ReturnType<typeof makeLaneOutbox>

type OutboxParts = {
  readonly policy: SenderPolicy
  readonly node: LaneNode
  readonly ledger: LaneLedger
  readonly sign: Signer
}

export function makeLaneOutbox(options: LaneOptions, parts: OutboxParts) {
  const { client, account, nowMs } = options
  const { policy, node, ledger, sign } = parts
  const due = (sinceMs: number, afterMs: number): boolean => nowMs() - sinceMs >= afterMs

  /** Sends the transaction to a node. Whatever the answer, the next poll checks the result. */
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

  /**
   * Signs the transaction again with higher fees, stores the new form, and sends it. If the transaction is abandoned,
   * the new form is blank: it only uses up the nonce.
   */
  async function replace(entry: Entry, view: View): Promise<void> {
    const { row } = entry
    const blank = entry.abandoned && !isBlank(entry)
    const call = blank ? blankPayload(account.address) : payloadOf(row.raw, account.address)
    const current = await node.currentFees(view.head.baseFee)
    // An increase of the fees may exceed the cap. For the blank replacement of a refused transaction, then offer the
    // current fees, at most the cap: no node's pool has the refused transaction, so no increase is needed.
    const fees =
      bumpedFees(offeredBy(row), current, policy.maxFeeCap) ??
      (blank && entry.refused ? cappedFees(current, policy.maxFeeCap) : undefined)
    if (fees === undefined) {
      note(entry, 'higher fees for the transaction would exceed the maximum fee in the settings')
      if (due(entry.broadcastAtMs, policy.rebroadcastAfterMs)) await broadcast(entry)
      return
    }
    const { raw, hash } = await sign(row.nonce, call, fees)
    entry.row = await ledger.save({
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

  /** Takes the steps needed to get a pending transaction into a block. */
  async function push(entry: Entry, view: View): Promise<void> {
    const first = view.count === entry.row.nonce
    if (!first || !view.trusted) {
      entry.firstSinceMs = undefined
      if (due(entry.broadcastAtMs, policy.rebroadcastAfterMs)) await broadcast(entry)
      return
    }
    entry.firstSinceMs ??= view.nowMs
    if (due(entry.openSinceMs, policy.giveUpAfterMs)) entry.abandoned = true
    const isOld = due(Math.max(entry.firstSinceMs, entry.row.updatedAtMs), policy.bumpAfterMs)
    if (isOld || isHopeless(entry, view)) await replace(entry, view)
    else if (due(entry.broadcastAtMs, policy.rebroadcastAfterMs)) await broadcast(entry)
  }

  /**
   * Fills gaps between nonces, because a missing nonce blocks all later nonces. If a transaction has been open for
   * `bumpAfterMs`, sends a blank transaction for each missing nonce below it.
   */
  async function fillGaps(view: View): Promise<void> {
    const stuck = ledger
      .inOrder()
      .find(
        ({ row, outcome, openSinceMs }) =>
          outcome === undefined &&
          row.state === 'open' &&
          row.nonce > view.count &&
          due(openSinceMs, policy.bumpAfterMs),
      )
    if (stuck === undefined) return
    for (let nonce = view.count; nonce < stuck.row.nonce; nonce++) {
      if (ledger.get(nonce) !== undefined) continue
      const fees = cappedFees(await node.currentFees(view.head.baseFee), policy.maxFeeCap)
      const note = { purpose: BLANK_PURPOSE, reference: '' }
      await broadcast(await ledger.store(nonce, blankPayload(account.address), fees, note))
    }
  }

  return { broadcast, push, fillGaps }
}

/** Sets the row's error text, which operators read. The journal stores the text with the row's next change. */
function note(entry: Entry, error: string): void {
  if (entry.row.error !== error) entry.row = { ...entry.row, error }
}

/**
 * Returns whether the transaction must be replaced at once. This is the case if the fees of its newest signed form are
 * too low. It is also the case if the transaction was abandoned and its newest signed form is not blank.
 */
function isHopeless(entry: Entry, { head }: View): boolean {
  const tooCheap = BigInt(entry.row.maxFeePerGas) < head.baseFee
  return tooCheap || entry.underpriced || (entry.abandoned && !isBlank(entry))
}
