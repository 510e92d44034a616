/** Marks an answer from memory as possibly stale: the owner of its markets has not confirmed its ownership. */

import type { MarketId } from '#domain/ids.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { RawReply } from '#http/route.ts'
import type { MarketBoard } from './market-board.ts'

/** An added field: clients that do not know it read the answer as before. */
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
