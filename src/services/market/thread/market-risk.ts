/**
 * Builds the risk rules of a market thread from the settings, except the rules that depend on a trader's
 * funds.
 */

import type { Settings } from '#config/settings-schema.ts'
import { pauseTermsOf, spendingLimitsOf, topologyOf } from '#config/thread-data.ts'
import { TraderPauses } from '#domain/trader-pauses.ts'
import { hasLimits } from '#domain/trader-spending.ts'
import { TraderBudgets } from '../host/trader-budgets.ts'
import type { RiskRules } from '../state.ts'

export function riskRulesOf(settings: Settings): RiskRules {
  const { minNotional, pendingTradesMax } = settings.risk
  const terms = pauseTermsOf(settings)
  const limits = spendingLimitsOf(settings)
  const { marketThreads } = topologyOf(settings)
  return {
    minNotional,
    pendingTradesMax,
    ...(terms.firstMs === 0 ? {} : { pauses: new TraderPauses(terms) }),
    ...(hasLimits(limits) ? { budgets: new TraderBudgets(limits, marketThreads) } : {}),
  }
}
