/** Marks an answer from the board as possibly stale if a market thread has not confirmed that it still owns its log. */

import type { MarketId } from '#domain/ids.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { RawReply } from '#http/route.ts'
import type { MarketBoard } from './market-board.ts'

/** Header of stale answers. Clients that do not know the header can ignore it. */
const STALE = { 'sibyl-stale': 'true' }

/**
 * Marks the answer as possibly stale, unless the thread of the market has confirmed that it owns its log. Without a
 * market, the answer lists markets of all threads, so all threads must have confirmed.
 */
export function markStale<Answer extends RawReply | Rejection>(
  board: Pick<MarketBoard, 'isCurrent'>,
  marketId: MarketId | undefined,
  answer: Answer,
): Answer {
  if (isRejection(answer) || board.isCurrent(marketId)) return answer
  return { ...answer, headers: { ...answer.headers, ...STALE } }
}
