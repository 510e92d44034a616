/** Types and state that the parts of a lane share. */

import type { LocalAccount, PublicClient } from 'viem'
import type { Keccak256 } from '#domain/order-hash.ts'
import type { Head } from './lane-node.ts'
import type { Journal, SenderNews, SenderPolicy } from './sender.ts'

export type LaneOptions = {
  readonly client: PublicClient
  readonly account: LocalAccount
  readonly chainId: number
  readonly journal: Journal
  readonly nowMs: () => number
  readonly policy?: Partial<SenderPolicy>
  /** For large transactions: the portable hash takes longer than all else that signing does. */
  readonly keccak256?: Keccak256
  /** Called with every error that the lane recovers from. */
  readonly onTrouble?: (where: 'rpc' | 'journal', error: unknown) => void
}

export /** What a poll has found out before it looks at the transactions. */
type View = {
  readonly head: Head
  /** The sender's next nonce, as the newest block has it. */
  readonly count: number
  /** Whether the node may be believed when it does not know something. */
  readonly trusted: boolean
  /** Whether blocks that were seen before may have gone. */
  readonly forked: boolean
  readonly nowMs: number
  readonly news: SenderNews[]
}

/** The purpose of a transaction that only uses up a nonce. */
export const BLANK_PURPOSE = 'blank'
