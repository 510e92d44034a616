/** Marks an answer from memory as possibly stale if an owner of its markets has not confirmed the ownership. */

import type { MarketId } from '#domain/ids.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { RawReply } from '#http/route.ts'
import type { MarketBoard } from './market-board.ts'

/** Header of stale answers. Clients that do not know the header can ignore it. */
const STALE = { 'sibyl-stale': 'true' }

/**
 * Marks the answer as possibly stale, unless the owner of the market has confirmed its ownership. If no market is
 * given, the owners of all markets must have confirmed, because the answer lists markets of all owners.
 */
export function markStale<Answer extends RawReply | Rejection>(
  board: Pick<MarketBoard, 'isCurrent'>,
  marketId: MarketId | undefined,
  answer: Answer,
): Answer {
  if (isRejection(answer) || board.isCurrent(marketId)) return answer
  return { ...answer, headers: { ...answer.headers, ...STALE } }
}
