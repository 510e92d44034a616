/** The rules of a relayer, from the settings. */

import { WEI_PER_GWEI } from '#chain/sender/fees.ts'
import type { Settings } from '#config/settings-schema.ts'
import type { RelayerRules } from '../state.ts'

export function relayRulesOf(
  { relayer: rules, limits }: Pick<Settings, 'relayer' | 'limits'>,
  chainId: number,
): RelayerRules {
  return {
    chainId,
    ownerRate: limits.enabled
      ? { perMinute: rules.ownerPerMinute, burst: rules.ownerBurst }
      : undefined,
    gasPerDay: {
      redemption: {
        ownerGas: rules.ownerRedemptionGasPerDay,
        allGas: rules.redemptionGasPerDay,
      },
      other: { ownerGas: rules.ownerGasPerDay, allGas: rules.gasPerDay },
    },
    newcomers: {
      ownerGas: rules.newcomerGasPerDay,
      gasPerTrade: rules.gasPerTrade,
      keptPercent: rules.tradersPercent,
    },
    balanceMin: BigInt(rules.balanceMinGwei) * WEI_PER_GWEI,
    balanceLow: BigInt(rules.balanceLowGwei) * WEI_PER_GWEI,
    stuckAfterMs: rules.stuckAfterMs,
    pollMs: rules.pollMs,
    idlePollMs: rules.idlePollMs,
    weighMs: rules.balanceEveryMs,
  }
}
