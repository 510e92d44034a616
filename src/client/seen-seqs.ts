/**
 * Remembers the sequence number of this client's last write to each market, as returned in the exchange's answers.
 * Reads send this number, so that the data of the answering front includes the write.
 */

import { remember } from '#domain/remember.ts'
import type { SeenFrom } from '#protocol/shapes/orders.ts'

/** Maximum number of remembered markets; the market with the oldest write is forgotten first. */
const MARKETS_MAX = 1_000

type SeenSeqs = {
  /** Records the sequence number in an answer, and returns the answer. */
  wrote<Answer extends SeenFrom>(answer: Answer): Answer
  minSeqOf(marketId: string): number | undefined
  forget(marketId: string): void
}

export function createSeenSeqs(): SeenSeqs {
  const seqs = new Map<string, number>()
  const nameOf = (marketId: string): string => marketId.toLowerCase()
  return {
    wrote(answer) {
      const { marketId, seq } = answer
      if (marketId === undefined || seq === undefined) return answer
      const name = nameOf(marketId)
      const known = seqs.get(name) ?? 0
      remember(seqs, name, Math.max(known, seq), MARKETS_MAX)
      return answer
    },
    minSeqOf: (marketId) => seqs.get(nameOf(marketId)),
    forget: (marketId) => void seqs.delete(nameOf(marketId)),
  }
}
