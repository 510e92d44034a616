/** What the indexer of a chain tells the fronts. */
import type { BlockMark, ChainEvent } from '#domain/chain-event.ts'
import type { MarketId } from '#domain/ids.ts'

/** What the indexer tells those who follow it. */
export type ChainFollowerProtocol = {
  /** These blocks are in the database, and this is what they brought, in the order of the chain. */
  ChainAdvanced: {
    takes: {
      chainId: number
      indexed: BlockMark
      head: number
      events: readonly ChainEvent[]
      /** Markets that a reorg removed and that did not come back. */
      withdrawn: readonly MarketId[]
    }
    answers: undefined
  }
  /** A reorg: everything above this block is undone in the database. */
  ChainRewound: {
    takes: {
      chainId: number
      to: BlockMark
      /** Markets that the chain does not have any more, for now. */
      orphaned: readonly MarketId[]
      /** Markets of which a step of their resolution was undone. */
      reverted: readonly MarketId[]
    }
    answers: undefined
  }
}
