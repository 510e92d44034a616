/**
 * A transaction sent with a key of the exchange, as stored in the journal. It is stored before it is first sent, so it
 * is always known how each nonce was used. Plain data: it crosses threads.
 */

import type { Address } from './ids.ts'

/**
 * `open` until the chain has decided and the service that sent the transaction has handled the decision. `cancelled`: a
 * blank transaction, which does nothing, has used its nonce. `lost`: a transaction that is not in the journal has used
 * it.
 */
const TRANSACTION_STATES = ['open', 'succeeded', 'reverted', 'cancelled', 'lost'] as const
export type TransactionState = (typeof TRANSACTION_STATES)[number]

export type TransactionOutcome = Exclude<TransactionState, 'open'>

export type TransactionRow = {
  readonly chainId: number
  readonly sender: Address
  readonly nonce: number
  /** Number of changes of this row, so that a late write does not undo a newer one. */
  readonly revision: number
  /** Purpose: `settlement`, `relay`, …; the service that sent the transaction finds its rows by it. */
  readonly purpose: string
  /** Data of the service that sent it, of any length, such as the trades of a batch or the id of a claim. */
  readonly reference: string
  /** The newest signed form (the signed bytes of the transaction), ready to be sent. */
  readonly raw: string
  /** Hash of every signed form, newest last. Any may be mined. */
  readonly hashes: readonly string[]
  /** Hashes of blank forms, which do nothing but use up the nonce. */
  readonly blanks: readonly string[]
  /** Fee of the newest form in wei, as decimal text. */
  readonly maxFeePerGas: string
  readonly maxPriorityFeePerGas: string
  readonly state: TransactionState
  /** Transaction and block in which it was mined; empty and null until then. */
  readonly txHash: string
  readonly blockNumber: number | null
  readonly blockHash: string
  readonly gasUsed: number | null
  /** Last error, for an operator; empty if there was none. */
  readonly error: string
  readonly signedAtMs: number
  readonly updatedAtMs: number
  readonly finishedAtMs: number | null
}

/** Returns its current hash: that of the mined form, otherwise that of the newest form. */
export function knownHash({ txHash, hashes }: TransactionRow): string {
  return txHash === '' ? (hashes.at(-1) ?? '') : txHash
}
