/**
 * A transaction that one of the exchange's own keys sends, as the journal keeps it. It is stored
 * before it first leaves the process, so whatever happens afterwards, it is known which nonce was
 * used for what. Plain data: it crosses threads.
 */

import type { Address } from './ids.ts'

/**
 * `open` until the chain has decided and its owner has dealt with the decision; then what
 * became of it. `cancelled`: a transaction that does nothing took its nonce. `lost`: one that is
 * none of ours took it.
 */
const TRANSACTION_STATES = ['open', 'succeeded', 'reverted', 'cancelled', 'lost'] as const
export type TransactionState = (typeof TRANSACTION_STATES)[number]

export type TransactionOutcome = Exclude<TransactionState, 'open'>

export type TransactionRow = {
  readonly chainId: number
  readonly sender: Address
  readonly nonce: number
  /** Counts the changes of this row, so that a write that arrives late does not undo a newer one. */
  readonly revision: number
  /** What it is for: `settlement`, `relay`, …; the sender's owner chooses and finds it again. */
  readonly purpose: string
  /** The owner's own note, of any length: the trades of a batch, the id of a claim. */
  readonly reference: string
  /** The newest signed form, ready to be broadcast. */
  readonly raw: string
  /** The hash of every signed form, the newest last. Any of them may be mined. */
  readonly hashes: readonly string[]
  /** Those of the hashes that do nothing but use up the nonce. */
  readonly blanks: readonly string[]
  /** In wei, as decimal text; of the newest form. */
  readonly maxFeePerGas: string
  readonly maxPriorityFeePerGas: string
  readonly state: TransactionState
  /** Where it was mined; empty and null until then. */
  readonly txHash: string
  readonly blockNumber: number | null
  readonly blockHash: string
  readonly gasUsed: number | null
  /** The last trouble with it, for an operator who looks; empty when there was none. */
  readonly error: string
  readonly signedAtMs: number
  readonly updatedAtMs: number
  readonly finishedAtMs: number | null
}

/** The hash it is known by: of the form that was mined, or else of the newest. */
export function knownHash({ txHash, hashes }: TransactionRow): string {
  return txHash === '' ? (hashes.at(-1) ?? '') : txHash
}
