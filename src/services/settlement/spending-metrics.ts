/** Metric of the number of traders that have used up a daily budget. */

import { Gauge } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { SpendingRelay } from './thread/spending-relay.ts'

export function spendingMeters(
  { registry }: Pick<ThreadContext, 'registry'>,
  relay: SpendingRelay,
): void {
  new Gauge({
    name: 'sibyl_settlement_budgets_spent',
    help: 'Traders who have used up a daily budget: fills, gas, or gas of failed fills',
    labelNames: ['chain', 'budget'],
    registers: [registry],
    collect() {
      for (const { chainId, budget, traders } of relay.spent()) {
        this.set({ chain: chainId, budget }, traders)
      }
    },
  })
}
