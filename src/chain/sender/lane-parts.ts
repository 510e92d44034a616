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
   * Replaces viem's Keccak-256 function by a faster one. For a large transaction, hashing with viem's function takes
   * longer than the rest of signing.
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
  /** True if data that the node lacks counts as missing from the chain. False if the node may only lag. */
  readonly trusted: boolean
  /** True if the chain may have replaced blocks that were seen earlier. */
  readonly forked: boolean
  readonly nowMs: number
  readonly news: SenderUpdate[]
}

/** Value of `purpose` in the journal for a transaction that only uses up a nonce. */
export const BLANK_PURPOSE = 'blank'
