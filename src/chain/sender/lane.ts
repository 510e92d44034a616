/**
 * Makes a lane, which sends all transactions of one key on one chain. This file stores, sends, follows and ends
 * transactions. `sender.ts` documents what a lane guarantees.
 */

import assert from 'node:assert/strict'
import { Fault } from '#domain/fault.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { cappedFees } from './fees.ts'
import { makeLaneFollower } from './lane-follower.ts'
import { makeLaneLedger } from './lane-ledger.ts'
import { type Head, type LaneNode, makeLaneNode } from './lane-node.ts'
import { makeLaneOutbox } from './lane-outbox.ts'
import { BLANK_PURPOSE, type LaneOptions, type View } from './lane-parts.ts'
import {
  DEFAULT_POLICY,
  type Polled,
  type SenderPolicy,
  type SendRequest,
  type TransactionName,
  type TransactionSender,
} from './sender.ts'
import { makeSigner } from './signer.ts'

export function makeLane(options: LaneOptions): TransactionSender {
  const policy: SenderPolicy = { ...DEFAULT_POLICY, ...options.policy }
  const node = makeLaneNode(options)
  const sign = makeSigner(options)
  const ledger = makeLaneLedger(options, policy, sign)
  const outbox = makeLaneOutbox(options, { policy, node, ledger, sign })
  const doubt = makeDoubt(options, policy, node)
  const { unchecked } = doubt
  const follower = makeLaneFollower({
    ...{ policy, node, ledger, outbox, unchecked },
    nowMs: options.nowMs,
  })
  /** True once the next nonce has been compared with the chain. */
  let counted = false
  let turn: Promise<unknown> = Promise.resolve()

  /** Runs operations one at a time, because nonces and journal writes must be in order. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = turn.then(work)
    turn = mine.catch(() => {})
    return mine
  }

  async function send(request: SendRequest): Promise<TransactionRow> {
    assert(request.purpose !== BLANK_PURPOSE)
    await ledger.recover()
    if (ledger.room() <= 0) {
      throw new Fault('SENDER_FULL', 'this key has too many unfinished transactions: retry later', {
        retryable: true,
      })
    }
    if (!counted) {
      // The journal may come from an older copy of the database, and lack the newest transactions. The chain or the
      // node's pool already uses their nonces, so skip these nonces.
      ledger.skipTo(await node.transactionCount('pending'))
      counted = true
    }
    const gas = request.gas ?? (await node.estimate(request))
    const fees = cappedFees(
      await node.currentFees((await node.headBlock()).baseFee),
      policy.maxFeeCap,
    )
    const { to, data, value = 0n, purpose, reference } = request
    const entry = await ledger.store(ledger.nextNonce(), { to, data, value, gas }, fees, {
      purpose,
      reference,
    })
    await outbox.broadcast(entry)
    return entry.row
  }

  async function poll(): Promise<Polled> {
    await ledger.recover()
    const head = await node.headBlock()
    const { trusted, forked, settle } = await doubt.weigh(head)
    const count = await node.transactionCount()
    if (trusted) ledger.skipTo(count)
    const view: View = { head, count, trusted, forked, nowMs: options.nowMs(), news: [] }
    settle()
    // Runs the step of one transaction. If the step fails, the other transactions continue, and the next poll tries
    // again.
    const attempt = async (work: () => Promise<void>): Promise<void> => {
      try {
        await work()
      } catch (error) {
        if (!(error instanceof Fault)) throw error
        if (forked) unchecked()
      }
    }
    for (const entry of ledger.inOrder()) {
      const ended = entry.outcome !== undefined || entry.row.state !== 'open'
      await attempt(() => (ended ? follower.watch(entry, view) : follower.follow(entry, view)))
    }
    if (trusted) await attempt(() => outbox.fillGaps(view))
    ledger.forget(head.number)
    return { news: view.news, headNumber: head.number }
  }

  async function acknowledge({ nonce }: TransactionName): Promise<void> {
    const entry = ledger.get(nonce)
    // If a reorg has reopened the transaction in the meantime, this acknowledgement no longer counts.
    if (entry?.outcome === undefined || entry.row.state !== 'open') return
    await ledger.close(entry)
  }

  return {
    recover: () =>
      inTurn(async () => {
        await ledger.recover()
        return ledger.openRows()
      }),
    send: (request) => inTurn(() => send(request)),
    poll: () => inTurn(poll),
    acknowledge: (name) => inTurn(() => acknowledge(name)),
    abandon({ nonce }) {
      const entry = ledger.get(nonce)
      if (entry !== undefined) entry.abandoned = true
    },
    open: ledger.openRows,
    room: ledger.room,
  }
}

/**
 * Makes the checks with which a poll starts. They decide whether data that the node lacks counts as gone, and whether
 * the chain may have replaced blocks since the last poll.
 */
function makeDoubt(
  { nowMs }: Pick<LaneOptions, 'nowMs'>,
  policy: SenderPolicy,
  node: Pick<LaneNode, 'block'>,
) {
  let previous: Head | undefined
  let highest = 0
  let freshAtMs = nowMs()
  /**
   * True if the next poll must assume that the chain has replaced blocks, because the last check failed or was not
   * reliable.
   */
  let recheck = true

  /**
   * Returns whether to believe the node when it reports that a transaction or block does not exist. If the node's head
   * is below an earlier head, the node may lag. In this case, returns false for up to `doubtMs`.
   */
  function believe(head: Head): boolean {
    if (head.number >= highest || nowMs() - freshAtMs >= policy.doubtMs) {
      highest = head.number
      freshAtMs = nowMs()
      return true
    }
    return false
  }

  /**
   * Returns whether the chain may have replaced blocks since the last poll; true in the first poll. Returns undefined
   * if the node lacks a block at the height of the last poll's head. This node then lags behind the node that reported
   * `head`, so the comparison is impossible.
   */
  async function isForked(head: Head): Promise<boolean | undefined> {
    if (previous === undefined) return true
    if (head.hash === previous.hash || head.parentHash === previous.hash) return false
    if (head.number <= previous.number) return true
    const canonical = await node.block(previous.number)
    return canonical === undefined ? undefined : canonical.hash !== previous.hash
  }

  return {
    unchecked() {
      recheck = true
    },
    /**
     * Compares the head with earlier heads. `trusted` is true if data that the node lacks counts as gone. `forked` is
     * true if the chain may have replaced blocks since the last poll. `settle` stores this head for the next
     * comparison.
     */
    async weigh(head: Head) {
      const trusted = believe(head)
      const seen = await isForked(head)
      return {
        trusted,
        forked: recheck || seen !== false,
        settle() {
          previous = head
          recheck = !trusted || seen === undefined
        },
      }
    },
  }
}
