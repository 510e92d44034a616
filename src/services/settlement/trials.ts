/**
 * Trades of traders without a standing are examined as soon as they are read, apart from the batches: one
 * that would be refused by the fault of such a trader fails at once, so that the other side's quantity is back
 * without the wait for a batch, and batches of honest traders are not simulated again for it. First balances
 * are looked at, of many trades by one question: strangers with nothing end there, however many they are. What is
 * left is simulated, a batch at a time. Trades of honest regulars cost no further question. Nothing is sent here.
 */

import type { TradeToSettle } from '#domain/trade.ts'
import { watchMined } from './mined-since.ts'
import { takeOut } from './queue.ts'
import type { Held, SettlementContext, SettlementState } from './state.ts'
import { begun, failure, mayBegin } from './steps.ts'
import { inTurns } from './turns.ts'

/** Trades whose balances are asked for at once. */
const LOOK_MAX = 300

/** Looks at what has come of such traders, and tries out what was looked at before, each taker in his turn. */
export function examineNext(state: SettlementState, context: SettlementContext): void {
  const { lane } = state.ports
  const { usedPermits } = state
  const looked = next(state, context, { step: 'look', max: LOOK_MAX })
  if (looked.length > 0) {
    const tradeIds = takeFor(state, looked, 'looking', 'try')
    context.pipe(
      lane.lookAt(looked, { usedPermits }),
      (refused) => ({ type: 'LookedAt', message: { tradeIds, refused } }),
      failure('look', { tradeIds }),
    )
  }
  const tried = next(state, context, { step: 'try', max: state.rules.batchMax })
  if (tried.length > 0) {
    // Once is enough: what cannot be found out now is found out with its batch.
    const tradeIds = takeFor(state, tried, 'trying', undefined)
    context.pipe(
      lane.tryOut(tried, { usedPermits }),
      (refused) => ({ type: 'TriedOut', message: { tradeIds, refused } }),
      failure('try', { tradeIds }),
    )
  }
}

/** Those whose next step is this one, if it may begin. While nothing can be looked at, it is tried out at once. */
function next(
  state: SettlementState,
  { nowMs }: SettlementContext,
  { step, max }: { readonly step: 'look' | 'try'; readonly max: number },
): TradeToSettle[] {
  if (!mayBegin(state, step, nowMs)) return []
  const isBlind = nowMs < (state.pauses.get('look')?.untilMs ?? 0)
  const waiting: TradeToSettle[] = []
  for (const tradeId of state.queue) {
    const held = state.held.get(tradeId)
    if (held?.first === undefined || state.doubted.has(tradeId)) continue
    if ((isBlind ? 'try' : held.first) === step) waiting.push(held.trade)
  }
  if (waiting.length === 0 || !begun(state, step, nowMs)) return []
  watchMined(state, step)
  return inTurns(waiting, state.turns, max)
}

function takeFor(
  state: SettlementState,
  trades: readonly TradeToSettle[],
  place: 'looking' | 'trying',
  then: Held['first'],
): TradeToSettle['tradeId'][] {
  const tradeIds = trades.map(({ tradeId }) => tradeId)
  takeOut(state, tradeIds, (held) => {
    held.place = place
    held.first = then
  })
  return tradeIds
}
