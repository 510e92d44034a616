/** What is the account's own: open orders, positions, and what happened. */

import { account } from '../state/account.ts'
import { OpenOrders } from './open-orders.tsx'

export function PortfolioView() {
  if (account.value === undefined) {
    return <p class="empty">Connect an account to see your orders and positions.</p>
  }
  return (
    <div class="portfolio">
      <h1>Portfolio</h1>
      <OpenOrders />
    </div>
  )
}
