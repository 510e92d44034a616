/**
 * Trades of traders without a standing are tried out as soon as they are read, apart from the batches: one
 * that would be refused by the fault of such a trader fails at once, so that the other side's quantity is back
 * without the wait for a batch, and batches of honest traders are not simulated again for it. Trades of honest
 * regulars cost no further question. Nothing is sent here.
 */

import type { TradeToSettle } from '#domain/trade.ts'
import { takeOut } from './queue.ts'
import type { Held, SettlementContext, SettlementState } from './state.ts'
import { begun, failure, mayBegin } from './steps.ts'
import { inTurns } from './turns.ts'

/** Tries out what has come of such traders, a batch at a time, each taker in his turn. */
export function tryNext(state: SettlementState, context: SettlementContext): void {
  if (!mayBegin(state, 'try', context.nowMs)) return
  const doubtful: TradeToSettle[] = []
  for (const tradeId of state.queue) {
    const held = state.held.get(tradeId)
    if (held?.toTry === true) doubtful.push(held.trade)
  }
  if (doubtful.length === 0 || !begun(state, 'try', context.nowMs)) return
  const trades = inTurns(doubtful, state.turns, state.rules.batchMax)
  const tradeIds = trades.map(({ tradeId }) => tradeId)
  takeOut(state, tradeIds, (held: Held) => {
    held.place = 'trying'
    // Once is enough: what cannot be found out now is found out with its batch.
    held.toTry = false
  })
  context.pipe(
    state.ports.lane.tryOut(trades, { usedPermits: state.usedPermits }),
    (refused) => ({ type: 'TriedOut', message: { tradeIds, refused } }),
    failure('try', { tradeIds }),
  )
}
