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
 * not know something, until it has kept saying so for `doubtMs`. One that does not have a block below the
 * head that another one told is not believed at all: the next poll asks again.
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

import type { Address } from '#domain/ids.ts'
import type { TransactionOutcome, TransactionRow } from '#domain/transaction.ts'

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

type ReceiptLog = {
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
export type TransactionSender = {
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
