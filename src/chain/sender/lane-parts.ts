/** Types and state that the parts of a lane (one key on one chain) share. */

import type { LocalAccount, PublicClient } from 'viem'
import type { Keccak256 } from '#domain/order-hash.ts'
import type { Head } from './lane-node.ts'
import type { Journal, SenderPolicy, SenderUpdate } from './sender.ts'

export type LaneOptions = {
  readonly client: PublicClient
  readonly account: LocalAccount
  readonly chainId: number
  readonly journal: Journal
  readonly nowMs: () => number
  readonly policy?: Partial<SenderPolicy>
  /**
   * A faster Keccak-256 function for large transactions. By default, viem's function is used: for large transactions,
   * it takes longer than the rest of signing.
   */
  readonly keccak256?: Keccak256
  /** Called with every error that the lane recovers from. */
  readonly onTrouble?: (where: 'rpc' | 'journal', error: unknown) => void
}

export /** Result of the first reads of a poll, before it checks the transactions. */
type View = {
  readonly head: Head
  /** The sender's next nonce at the newest block. */
  readonly count: number
  /** True if data that the node does not have counts as missing on the chain. */
  readonly trusted: boolean
  /** True if the chain may have replaced blocks that were seen earlier. */
  readonly forked: boolean
  readonly nowMs: number
  readonly news: SenderUpdate[]
}

/** Value of `purpose` in the journal for a transaction that only uses up a nonce. */
export const BLANK_PURPOSE = 'blank'
