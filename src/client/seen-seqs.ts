/**
 * How far each market was when this client wrote to it last, by what the answers said. Its reads name it,
 * so that whichever front answers them has heard of what was written.
 */

import type { SeenFrom } from '#protocol/shapes/orders.ts'

/** Markets that are remembered; the one written to longest ago is forgotten first. */
const MARKETS_MAX = 1_000

type SeenSeqs = {
  /** Notes what an answer says, and passes it on. */
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
      seqs.delete(name)
      seqs.set(name, Math.max(known, seq))
      for (const oldest of seqs.keys()) {
        if (seqs.size <= MARKETS_MAX) break
        seqs.delete(oldest)
      }
      return answer
    },
    minSeqOf: (marketId) => seqs.get(nameOf(marketId)),
    forget: (marketId) => void seqs.delete(nameOf(marketId)),
  }
}
