/**
 * A transaction sent with a key of the exchange, as stored in the journal. The journal stores it before it is first
 * sent, so the use of every nonce is known. A row is plain data, because it is passed between threads.
 */

import type { Address } from './ids.ts'

/**
 * States of a transaction. `open`: the chain has not decided yet, or the service that sent the transaction has not
 * handled the result yet. `cancelled`: a blank transaction, which does nothing, has used the nonce instead. `lost`: a
 * transaction that is not in the journal has used the nonce instead.
 */
const TRANSACTION_STATES = ['open', 'succeeded', 'reverted', 'cancelled', 'lost'] as const
export type TransactionState = (typeof TRANSACTION_STATES)[number]

export type TransactionOutcome = Exclude<TransactionState, 'open'>

export type TransactionRow = {
  readonly chainId: number
  readonly sender: Address
  readonly nonce: number
  /**
   * Increases with each change of the row. The journal ignores a lower revision, so a late write undoes no newer one.
   */
  readonly revision: number
  /** Purpose: `settlement`, `relay`, …; each service finds its own rows by their purpose. */
  readonly purpose: string
  /**
   * Data of the service that sent the transaction, of any length, such as the trades of a batch or the id of a claim.
   */
  readonly reference: string
  /** The newest signed form (the signed bytes of the transaction), ready to be sent. */
  readonly raw: string
  /** Hashes of all signed forms, newest last. Any of these forms may be mined. */
  readonly hashes: readonly string[]
  /** Hashes of blank forms, which do nothing but use up the nonce. */
  readonly blanks: readonly string[]
  /** Fee of the newest form in wei, as decimal text. */
  readonly maxFeePerGas: string
  readonly maxPriorityFeePerGas: string
  readonly state: TransactionState
  /** Hash of the mined form, and number of its block; '' and null until a form is mined. */
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

/** Returns the transaction's current hash: the hash of the mined form, or of the newest form if none is mined. */
export function knownHash({ txHash, hashes }: TransactionRow): string {
  return txHash === '' ? (hashes.at(-1) ?? '') : txHash
}
