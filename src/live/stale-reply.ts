/** Marks an answer from memory that may lack the newest changes, because their owner has not confirmed itself. */

import type { MarketId } from '#domain/ids.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { RawReply } from '#http/route.ts'
import type { MarketBoard } from './market-board.ts'

/** Additive: a client that does not know it reads the answer as before. */
const STALE = { 'sibyl-stale': 'true' }

/** Without a market: the answer lists markets of every owner. */
export function markStale<Answer extends RawReply | Rejection>(
  board: Pick<MarketBoard, 'isCurrent'>,
  marketId: MarketId | undefined,
  answer: Answer,
): Answer {
  if (isRejection(answer) || board.isCurrent(marketId)) return answer
  return { ...answer, headers: { ...answer.headers, ...STALE } }
}
