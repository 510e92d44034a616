/**
 * Sends transactions from the exchange's own keys, and follows each transaction until its result on the chain is final.
 *
 * viem's `sendTransaction` with its nonce manager signs and broadcasts in one step, and keeps nonces in memory. If the
 * process were killed during this step, no record of the sent transaction would exist. So this module uses viem only to
 * sign, encode and read, and decides itself what is sent when. The reason is safety, not speed.
 *
 * A **lane** is the only sender of one key on one chain. The lane assigns nonces itself. It signs a transaction, stores
 * it in the journal, and only then broadcasts it. If the process is killed, the journal has every transaction that may
 * have been sent. The next process sends the same bytes again. Sending the same bytes twice is harmless, because a
 * nonce is used only once. So if the result of a broadcast is unknown (no answer, an error, a node that lost the
 * transaction), the lane broadcasts again.
 *
 * There is no timer. The owner of the lane calls `poll` at any rate. Each call reads the chain once and takes the steps
 * that are due by the given clock:
 * - A transaction is in no block: the lane broadcasts it again every `rebroadcastAfterMs`. After `bumpAfterMs`, it
 *   signs the first open transaction again, with both fee fields at least an eighth higher. If the base fee exceeds the
 *   offered fee, or a node calls the transaction underpriced, the lane signs it again at once. Every signed form is
 *   stored, because any of them may be mined.
 * - A node refuses a transaction for good, or no block includes it within `giveUpAfterMs`: the lane replaces it by a
 *   blank transaction, which only uses up the nonce. Later transactions can then proceed. The replaced transaction ends
 *   as `cancelled`.
 * - A transaction is mined: once `confirmations` blocks follow its block, it is `finished`.
 * - The nonce is used, but none of the transaction's signed forms has a receipt: after `lostAfterMs` the transaction is
 *   `lost`.
 * - The transaction's block is no longer in the chain: the transaction has `vanished`. This can happen up to
 *   `watchBlocks` blocks after it was finished. It is open again, and the next poll sends it again unless the owner
 *   abandons it.
 *
 * A node may lag. If its head is below a head seen earlier, data that it lacks counts as gone only after `doubtMs`. If
 * a node lacks a block below a head that another node reported, the lane draws no conclusion: the next poll asks again.
 *
 * Protocol of the owner (`*`: any number of times, `|`: or, `→`: returns):
 *
 * recover, *[ send | poll → *news | acknowledge | abandon ]
 *
 * A transaction stays open in the journal until the owner acknowledges its end. After a restart, every unacknowledged
 * end is reported again. So an owner never misses an end, and must accept repeated reports.
 *
 * Example: nonce 7 is signed at 30 gwei and broadcast, and the process is killed. The next process loads row 7 and
 * broadcasts the same bytes ("already known"). The base fee rises to 45 gwei, so a second form at 100 gwei is stored
 * and broadcast. The first form is mined anyway, and `finished` names its hash. The owner acts on the receipt and
 * acknowledges the end, and row 7 is closed.
 */

import type { Address } from '#domain/ids.ts'
import type { TransactionOutcome, TransactionRow } from '#domain/transaction.ts'

/** Storage of transactions. `load` and `save` throw a fault if the storage fails. */
export type Journal = {
  /**
   * Returns every open transaction of the sender, and the transactions that finished in the newest `watchBlocks`
   * blocks. Also returns the highest nonce ever stored, or -1 if there is none.
   */
  load(from: {
    readonly chainId: number
    readonly sender: Address
    readonly watchBlocks: number
  }): Promise<{ readonly rows: readonly TransactionRow[]; readonly lastNonce: number }>
  /**
   * Stores the row durably before the promise resolves. If the journal has a row with the same nonce and a lower
   * revision, the new row replaces it.
   */
  save(row: TransactionRow): Promise<void>
}

export type SendRequest = {
  readonly to: Address
  readonly data: string
  readonly value?: bigint
  /** Gas limit. If omitted, the gas is estimated, and `send` throws a fault if the call would revert. */
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

export type SenderUpdate =
  /** The transaction was signed again; the last of `transaction.hashes` is the hash of the new form. */
  | { readonly type: 'replaced'; readonly transaction: TransactionRow }
  | { readonly type: 'mined'; readonly transaction: TransactionRow; readonly receipt: Receipt }
  /** The transaction has ended. A lost transaction has no receipt. The owner must acknowledge the end. */
  | {
      readonly type: 'finished'
      readonly transaction: TransactionRow
      readonly outcome: TransactionOutcome
      readonly receipt?: Receipt
    }
  /** A reorg removed the transaction after it was reported as mined or finished. The transaction is open again. */
  | { readonly type: 'vanished'; readonly transaction: TransactionRow }

export type Polled = {
  readonly news: readonly SenderUpdate[]
  /** Number of the newest block that the poll has read. */
  readonly headNumber: number
}

export type TransactionName = { readonly sender: Address; readonly nonce: number }

/** Sends transactions by one lane, or by several lanes that share the work. */
export type TransactionSender = {
  /** Returns open transactions. The first call of `recover`, `send` or `poll` reads the journal; later calls do not. */
  recover(): Promise<readonly TransactionRow[]>
  /**
   * Signs and stores a transaction, and tries once to broadcast it. Resolves even if the broadcast failed, because
   * `poll` sends the transaction again. If `send` throws, nothing has been sent.
   */
  send(request: SendRequest): Promise<TransactionRow>
  /** Reads the chain once, and takes the next step of every open transaction. Throws if the chain is unreachable. */
  poll(): Promise<Polled>
  /** Records that the owner has handled the end of the transaction. */
  acknowledge(name: TransactionName): Promise<void>
  /**
   * Abandons the transaction. Once it is the first open transaction, `poll` replaces it by a blank transaction, which
   * only uses up the nonce.
   */
  abandon(name: TransactionName): void
  /** Returns open transactions in the order of nonces. */
  open(): readonly TransactionRow[]
  /** Returns the number of further transactions that may be open at the same time. */
  room(): number
}

export type SenderPolicy = {
  /** Number of blocks that must follow a transaction's block before the transaction is finished. */
  readonly confirmations: number
  readonly rebroadcastAfterMs: number
  readonly bumpAfterMs: number
  /**
   * Milliseconds after which a transaction that is in no block is replaced by a blank one, which only uses up the
   * nonce. The time starts when this process signs, loads or reopens the transaction.
   */
  readonly giveUpAfterMs: number
  readonly lostAfterMs: number
  readonly doubtMs: number
  /** Depth in blocks up to which a finished transaction is watched for reorgs. */
  readonly watchBlocks: number
  readonly maxFeeCap: bigint
  /** Maximum number of open transactions; further ones are refused. */
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
