/** Trades and payouts of the account, newest first. */

import { ownTrades, payouts } from '../state/own-positions.ts'
import { ActivityTable } from './activity-table.tsx'

export function Activity() {
  const trades = ownTrades.value
  return (
    <section class="panel" aria-labelledby="activity">
      <div class="panel-head">
        <h2 id="activity">Activity</h2>
      </div>
      <ActivityTable
        activity={
          trades === undefined ? undefined : { activity: trades, settlements: payouts.value }
        }
        hasMarket
        empty="You have no trades or redemptions yet."
      />
    </section>
  )
}
