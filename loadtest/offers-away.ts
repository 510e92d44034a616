/**
 * Measures how long offers are missing from the book because they matched in a trade that later failed. Such an absence
 * lasts from the match to the failure, by the market's own clock. Also sums the time in which less than half of the
 * offered quantity was in the book.
 */

import type { Client } from '#client/client.ts'
import { Histogram } from './histogram.ts'

/**
 * Maximum number of remembered trades that are neither settled nor failed. Without a maximum, trades that never end
 * would fill the memory.
 */
const PENDING_MAX = 1_000_000

export type OffersAway = {
  /** `open` is the number of absences that have not ended. The other figures describe absences that have ended. */
  readonly each: { count: number; p50Ms: number; p99Ms: number; maxMs: number; open: number }
  readonly union: { times: number; longestMs: number; totalMs: number }
}

export async function watchOffers(
  client: Client,
  { marketId, offered }: { readonly marketId: string; readonly offered: number },
): Promise<{ end(): OffersAway }> {
  const stream = client.stream()
  const matchedAtMs = new Map<string, number>()
  const absences = new Histogram()
  const union = { times: 0, longestMs: 0, totalMs: 0 }
  let awaySinceMs: number | undefined

  const look = (asks: Iterable<{ readonly size: bigint }>): void => {
    let there = 0n
    for (const { size } of asks) there += size
    const nowMs = performance.now()
    const isAway = there * 2n < BigInt(offered)
    if (isAway && awaySinceMs === undefined) {
      awaySinceMs = nowMs
      union.times++
    } else if (!isAway && awaySinceMs !== undefined) {
      union.longestMs = Math.max(union.longestMs, nowMs - awaySinceMs)
      union.totalMs += nowMs - awaySinceMs
      awaySinceMs = undefined
    }
  }

  const book = stream.book({ marketId, outcome: 'YES' }, (_, now) => look(now.asks()))
  const trades = stream.trades(marketId, (message) => {
    if (message.type === 'trade') {
      if (matchedAtMs.size < PENDING_MAX) matchedAtMs.set(message.tradeId, message.ts)
    } else if (message.type === 'trade.status') {
      const sinceMs = matchedAtMs.get(message.tradeId)
      if (message.status === 'failed' && sinceMs !== undefined) {
        absences.recordMs(message.ts - sinceMs)
      }
      if (message.status === 'failed' || message.status === 'confirmed') {
        matchedAtMs.delete(message.tradeId)
      }
    }
  })
  await Promise.all([book.ready, trades.ready])

  return {
    end() {
      look(book.book.asks())
      stream.close()
      const rounded = (ms: number) => Math.round(ms)
      return {
        each: {
          count: absences.count,
          p50Ms: rounded(absences.quantileMs(0.5)),
          p99Ms: rounded(absences.quantileMs(0.99)),
          maxMs: rounded(absences.maxMs),
          open: matchedAtMs.size,
        },
        union: {
          times: union.times,
          longestMs:
            awaySinceMs === undefined ? rounded(union.longestMs) : Number.POSITIVE_INFINITY,
          totalMs: rounded(union.totalMs),
        },
      }
    },
  }
}
