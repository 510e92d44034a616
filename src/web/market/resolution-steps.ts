/** Steps of a market's resolution, and the action that is possible in the current step. */

import type { ResolutionStatus } from '#protocol/shapes/markets.ts'

type StepName = 'open' | 'expired' | 'proposed' | 'disputed' | 'settled' | 'redeem'

export type Step = {
  readonly name: StepName
  readonly state: 'done' | 'now' | 'later'
}

type Standing = {
  readonly status: ResolutionStatus | undefined
  readonly expiration: number
  readonly nowSec: number
  /** True for a quick market, a short market on an asset’s price. The exchange reports its outcome. */
  readonly quick: boolean
  /** True if the account has shares to redeem. */
  readonly hasShares: boolean
}

/** Action that any connected account can take in the current step; undefined if there is none. */
export type DeedName = 'propose' | 'dispute' | 'settle' | 'redeem' | undefined

export function resolutionSteps(standing: Standing): readonly Step[] {
  const { status, quick } = standing
  const names: StepName[] = quick
    ? ['open', 'expired', 'settled', 'redeem']
    : status?.assertion?.disputed === true
      ? ['open', 'expired', 'proposed', 'disputed', 'settled', 'redeem']
      : ['open', 'expired', 'proposed', 'settled', 'redeem']
  const present = names.indexOf(presentOf(standing))
  return names.map((name, at) => ({
    name,
    state: at < present ? 'done' : at === present ? 'now' : 'later',
  }))
}

function presentOf({ status, expiration, nowSec, hasShares }: Standing): StepName {
  if (status?.resolved === true) return hasShares ? 'redeem' : 'settled'
  if (status?.assertion !== undefined) return status.assertion.disputed ? 'disputed' : 'proposed'
  return status?.expired === true || nowSec >= expiration ? 'expired' : 'open'
}

export function deedOf(standing: Standing): DeedName {
  const { status, quick, nowSec } = standing
  switch (presentOf(standing)) {
    case 'redeem':
      return 'redeem'
    case 'expired':
      return quick ? undefined : 'propose'
    case 'proposed':
      return nowSec >= (status?.assertion?.expirationTime ?? 0) ? 'settle' : 'dispute'
    default:
      return undefined
  }
}
