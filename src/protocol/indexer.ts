/** Messages of a chain's indexer to the fronts. */
import type { BlockMark, ChainEvent } from '#domain/chain-event.ts'
import type { MarketId } from '#domain/ids.ts'

/** Messages of the indexer to its followers. */
export type ChainFollowerProtocol = {
  /** Reports that these blocks are in the database, with their events in the order of the chain. */
  ChainAdvanced: {
    takes: {
      chainId: number
      indexed: BlockMark
      head: number
      events: readonly ChainEvent[]
      /**
       * Markets that an earlier reorg removed and that the new blocks did not create again in time: within the chain's
       * number of confirmation blocks.
       */
      withdrawn: readonly MarketId[]
    }
    answers: undefined
  }
  /** Reports a reorg: everything above this block is undone in the database. */
  ChainRewound: {
    takes: {
      chainId: number
      to: BlockMark
      /** Markets that the reorg removed; the new blocks may contain them again. */
      orphaned: readonly MarketId[]
      /** Markets for which a step of their resolution was undone. */
      reverted: readonly MarketId[]
    }
    answers: undefined
  }
}
