/**
 * Limits of the relayer: operations per minute of one owner, and gas per day (UTC) of one owner and of all owners
 * together. Redemptions have a separate gas budget, so that other operations cannot use up the gas that winners need.
 * Owners with settled trades may spend more, and a part of each budget is reserved for them. So one person with many
 * wallets cannot use the budget up. Operations signed by a delegate get half of the owner's rate and gas. So a stolen
 * delegate key cannot use up the gas that the owner needs to revoke the delegate.
 */

import type { Address } from '#domain/ids.ts'
import { RELAY_OWNERS_KNOWN_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { purposeOf, type RelayOperation, type RelayPurpose } from '#domain/relay.ts'
import type { RelayExamination } from './chain/relay-examination.ts'
import type { Owner, RelayerState } from './state.ts'

const DAY_MS = 86_400_000

export const nothingSpent = (): Record<RelayPurpose, number> => ({ redemption: 0, other: 0 })

/**
 * Returns the record of an owner, with the gas spent today; adds a record if there is none. At the maximum number of
 * owners, drops the oldest record.
 */
export function ownerOf(state: RelayerState, address: Address, nowMs: number): Owner {
  const day = dayOf(nowMs)
  if (day !== state.day) {
    state.day = day
    state.gasToday = nothingSpent()
  }
  let owner = state.owners.get(address)
  if (owner === undefined) {
    if (state.owners.size >= RELAY_OWNERS_KNOWN_MAX) {
      const [oldest] = state.owners.keys()
      if (oldest !== undefined) state.owners.delete(oldest)
    }
    owner = { fullAtMs: 0, gas: nothingSpent(), day, trades: 0 }
    state.owners.set(address, owner)
  }
  if (owner.day !== day) {
    owner.day = day
    owner.gas = nothingSpent()
  }
  return owner
}

/**
 * Counts an operation against the owner's rate; returns a rejection if the rate is exceeded. The rate is a token
 * bucket, stored as the time at which the bucket is full again.
 */
export function drawFor(
  state: RelayerState,
  address: Address,
  { byDelegate }: Pick<RelayExamination, 'byDelegate'>,
  nowMs: number,
): Rejection | undefined {
  const { ownerRate } = state.rules
  if (ownerRate === undefined) return undefined
  const owner = ownerOf(state, address, nowMs)
  const unitMs = 60_000 / ownerRate.perMinute
  const afterMs = Math.max(owner.fullAtMs, nowMs) + unitMs
  if (afterMs - nowMs > partFor(byDelegate, ownerRate.burst) * unitMs) {
    const detail = `the owner has requested too many operations: the relayer accepts ${ownerRate.perMinute} per minute`
    return reject('RATE_LIMITED', undefined, detail)
  }
  owner.fullAtMs = afterMs
  return undefined
}

export function budgetFlaw(
  state: RelayerState,
  {
    kind,
    owner: address,
    byDelegate,
  }: Pick<RelayOperation, 'kind' | 'owner'> & Pick<RelayExamination, 'byDelegate'>,
  gas: number,
  nowMs: number,
): Rejection | undefined {
  const purpose = purposeOf(kind)
  const { gasPerDay, newcomers } = state.rules
  const { ownerGas, allGas } = gasPerDay[purpose]
  const owner = ownerOf(state, address, nowMs)
  // An owner's gas limit grows with the owner's settled trades. A fixed limit per wallet would not help, because anyone
  // can create wallets for free.
  const earned = newcomers.ownerGas + owner.trades * newcomers.gasPerTrade
  const most = partFor(byDelegate, Math.min(ownerGas, earned))
  if (owner.gas[purpose] + gas > most) {
    const more = earned < ownerGas ? `; each settled trade adds ${newcomers.gasPerTrade} gas` : ''
    const whose = byDelegate ? ' of delegates' : ''
    const detail =
      `the owner's gas budget for relayed operations${whose} today (${most}) is used up: retry after midnight ` +
      `UTC${more}`
    return reject('RATE_LIMITED', undefined, detail)
  }
  const kept = owner.trades > 0 ? 0 : Math.ceil((allGas * newcomers.keptPercent) / 100)
  if (state.gasToday[purpose] + gas > allGas - kept) {
    const whose = kept > 0 ? ' for wallets without a settled trade' : ''
    const detail = `the relayer's gas budget for today${whose} is used up: retry after midnight UTC`
    return reject('RELAYER_UNAVAILABLE', undefined, detail)
  }
  return undefined
}

function partFor(byDelegate: boolean | undefined, all: number): number {
  return byDelegate ? Math.floor(all / 2) : all
}

export function spend(
  state: RelayerState,
  { kind, owner: address }: Pick<RelayOperation, 'kind' | 'owner'>,
  gas: number,
  nowMs: number,
): void {
  const purpose = purposeOf(kind)
  const owner = ownerOf(state, address, nowMs)
  owner.gas[purpose] = Math.max(0, owner.gas[purpose] + gas)
  state.gasToday[purpose] = Math.max(0, state.gasToday[purpose] + gas)
}

export function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS)
}

export function dayStart(nowMs: number): number {
  return dayOf(nowMs) * DAY_MS
}
