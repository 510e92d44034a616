/** Gauge of traders who have used up a daily budget. */

import { Gauge } from 'prom-client'
import type { Kit } from '#services/kit/kit.ts'
import type { SpendingRelay } from './thread/spending-relay.ts'

export function spendingMeters({ registry }: Pick<Kit, 'registry'>, relay: SpendingRelay): void {
  new Gauge({
    name: 'sibyl_settlement_budgets_spent',
    help: 'Traders who have used up what their fills may cost today: fills, gas, or gas of failed fills',
    labelNames: ['chain', 'budget'],
    registers: [registry],
    collect() {
      for (const { chainId, budget, traders } of relay.spent()) {
        this.set({ chain: chainId, budget }, traders)
      }
    },
  })
}
