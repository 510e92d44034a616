/**
 * Chooses the active source of an asset: the provider whose prices are published. Every observation is checked first.
 * It is rejected if it is old, ahead of time, or older than the provider's previous observation. If an asset has
 * several providers, a price jump is accepted only if another provider confirms it. A provider is fresh while its
 * newest accepted observation is recent. It is healthy while it is fresh and not suspect. The primary is active while
 * it is healthy. Otherwise the first healthy fallback is active. After a failure, a provider must be healthy for some
 * time before it becomes active again, so that the active source does not flap.
 *
 * Circuit breaker: fresh providers must agree. A provider that is far from the others is suspect and cannot be active.
 * If it is unclear which provider is right, none is active and no price is published. A suspect is trusted again after
 * it has agreed with another fresh provider for some time. A provider that has just become fresh is healthy only once
 * it agrees with another fresh provider, unless no other provider is fresh. Example with a limit of 1 %: pyth reports
 * 100.0, binance 100.1 and coinbase 107. Coinbase is suspect and pyth is active. If binance then goes stale, pyth stays
 * trusted, because coinbase is already suspect. If only pyth at 100 and coinbase at 107 are fresh from the start, both
 * are suspect and none is active.
 *
 * Every call gets the time as a parameter, so equal calls give equal results.
 */

import { deviation, type Observation } from '#domain/asset-price.ts'
import type { PriceSource } from '#domain/price-providers.ts'

type FailoverOptions = {
  /** The primary first. */
  readonly order: readonly PriceSource[]
  /**
   * Maximum age of the newest observation of a fresh provider. A provider whose newest observation is older is not
   * fresh.
   */
  readonly ageMsMax: number
  /** Maximum time that an observation may be ahead of our clock. */
  readonly aheadMsMax: number
  /** Time for which a provider must be healthy before it becomes active again. */
  readonly recoverMs: number
  /** Maximum difference between two fresh providers that agree, as a share of the price. */
  readonly deviationMax: number
  /**
   * Maximum price jump that needs no confirmation by another provider, as a share of the previous price. The maximum
   * grows with the time between the two prices: after `driftMs` it has doubled, and it grows no further. It stays
   * limited, because a single provider may be wrong after a long silence.
   */
  readonly jumpMax: number
  readonly driftMs: number
}

const GATE_VERDICTS = [
  'accepted',
  'repeated',
  'stale',
  'ahead',
  'backwards',
  'jump',
  'unknown',
] as const
export type GateVerdict = (typeof GATE_VERDICTS)[number]

/** The active provider, or undefined with the reason why none is active. */
type Choice = { readonly source: PriceSource | undefined; readonly why: string }

export type Failover = {
  /** Checks an observation; if it is accepted, `choose` uses it from now on. */
  observe(observation: Observation, nowMs: number): GateVerdict
  choose(asset: string, nowMs: number): Choice
  /** Sets a price that was published before the start; new observations are compared with this price. */
  recall(asset: string, price: number, atMs: number): void
  /** Returns the newest accepted observation of a provider. */
  newest(asset: string, source: PriceSource): Observation | undefined
  isFresh(asset: string, source: PriceSource, nowMs: number): boolean
  isSuspect(asset: string, source: PriceSource): boolean
}

type GroupMember = {
  readonly source: PriceSource
  newest: Observation | undefined
  /** A jump that waits for confirmation by another provider. */
  jump: Observation | undefined
  suspect: boolean
  /**
   * Time since which the source has been fresh and has agreed with another source; undefined while it does not agree.
   */
  agreedSinceMs: number | undefined
  /** Time since which the source has been healthy without interruption; undefined while it is not healthy. */
  wellSinceMs: number | undefined
}

type PriceSourceGroup = {
  readonly members: readonly GroupMember[]
  speaker: PriceSource | undefined
  /** The last published price. */
  believed: { readonly price: number; readonly atMs: number } | undefined
  /** Time at which `choose` was first called for the asset. */
  sinceMs: number | undefined
}

export function makeFailover(options: FailoverOptions): Failover {
  const groups = new Map<string, PriceSourceGroup>()

  function groupOf(asset: string): PriceSourceGroup {
    let group = groups.get(asset)
    if (group === undefined) {
      const members = options.order.map(
        (source): GroupMember => ({
          source,
          newest: undefined,
          jump: undefined,
          suspect: false,
          agreedSinceMs: undefined,
          wellSinceMs: undefined,
        }),
      )
      group = { members, speaker: undefined, believed: undefined, sinceMs: undefined }
      groups.set(asset, group)
    }
    return group
  }

  const memberOf = (asset: string, source: PriceSource): GroupMember | undefined =>
    groups.get(asset)?.members.find((member) => member.source === source)

  function choose(asset: string, nowMs: number): Choice {
    const group = groupOf(asset)
    group.sinceMs ??= nowMs
    compareSources(group, nowMs, options)
    const well = group.members.filter(({ wellSinceMs }) => wellSinceMs !== undefined)
    const speaking = well.find(({ source }) => source === group.speaker)
    if (speaking !== undefined) {
      const better = well.find(
        ({ source, wellSinceMs }) =>
          source === group.speaker || nowMs - wellSinceMs! >= options.recoverMs,
      )
      group.speaker = better?.source
    } else if (group.speaker === undefined && nowMs - group.sinceMs < options.recoverMs) {
      // For the first `recoverMs` after the start, only the primary provider can become active. A fallback that is
      // healthy earlier must wait.
      group.speaker = well.find(({ source }) => source === options.order[0])?.source
    } else group.speaker = well[0]?.source
    if (group.speaker !== undefined) {
      group.believed = memberOf(asset, group.speaker)?.newest
      return { source: group.speaker, why: '' }
    }
    return { source: undefined, why: whyNoneActive(group, nowMs, options) }
  }

  return {
    observe(observation, nowMs) {
      const group = groupOf(observation.asset)
      const member = memberOf(observation.asset, observation.source)
      if (member === undefined) return 'unknown'
      const verdict = gate({ group, member, options }, observation, nowMs)
      if (verdict !== 'accepted') return verdict
      member.newest = observation
      member.jump = undefined
      return verdict
    },
    choose,
    recall(asset, price, atMs) {
      groupOf(asset).believed = { price, atMs }
    },
    newest: (asset, source) => memberOf(asset, source)?.newest,
    isFresh(asset, source, nowMs) {
      const member = memberOf(asset, source)
      return member !== undefined && isFresh(member, nowMs, options)
    },
    isSuspect: (asset, source) => memberOf(asset, source)?.suspect ?? false,
  }
}

/** One provider of an asset, with the options by which it is judged. */
type Judged = {
  readonly group: PriceSourceGroup
  readonly member: GroupMember
  readonly options: FailoverOptions
}

// Checks whether an observation is recent, by the provider's time and by our time of receipt. A provider may repeat an
// old price, or its clock may be ahead.
const isRecent = (
  { atMs, receivedAtMs }: Observation,
  nowMs: number,
  { ageMsMax }: FailoverOptions,
): boolean => nowMs - Math.min(atMs, receivedAtMs) <= ageMsMax

const isFresh = ({ newest }: GroupMember, nowMs: number, options: FailoverOptions): boolean =>
  newest !== undefined && isRecent(newest, nowMs, options)

/** Checks a new observation of a provider; returns `accepted` or the reason for the rejection. */
function gate(
  { group, member, options }: Judged,
  observation: Observation,
  nowMs: number,
): GateVerdict {
  const { newest } = member
  if (observation.atMs > nowMs + options.aheadMsMax) return 'ahead'
  if (nowMs - observation.atMs > options.ageMsMax) return 'stale'
  if (newest !== undefined) {
    if (observation.atMs < newest.atMs) return 'backwards'
    if (observation.atMs === newest.atMs && observation.price === newest.price) return 'repeated'
  }
  if (!isJump({ group, member, options }, observation, nowMs)) return 'accepted'
  member.jump = observation
  const isConfirmed = group.members.some(
    (other) =>
      other !== member &&
      [other.newest, other.jump].some(
        (report) =>
          report !== undefined &&
          isRecent(report, nowMs, options) &&
          deviation(report.price, observation.price) <= options.deviationMax,
      ),
  )
  return isConfirmed || options.order.length === 1 ? 'accepted' : 'jump'
}

/**
 * Returns whether the price of the observation is a jump. Compares it with the source's previous price or, if that
 * price is old, with the last published price.
 */
function isJump(
  { group, member, options }: Judged,
  observation: Observation,
  nowMs: number,
): boolean {
  const before = isFresh(member, nowMs, options) ? member.newest : group.believed
  if (before === undefined) return false
  const elapsedMs = Math.max(0, observation.atMs - before.atMs)
  const allowed = options.jumpMax * (1 + Math.min(1, elapsedMs / options.driftMs))
  return deviation(observation.price, before.price) > allowed
}

/**
 * Updates which sources are suspect, and the time since which each source has been healthy. A source stays healthy
 * while it is fresh and not suspect.
 */
function compareSources(group: PriceSourceGroup, nowMs: number, options: FailoverOptions): void {
  const fresh = group.members.filter((member) => isFresh(member, nowMs, options))
  for (const member of group.members) {
    if (!fresh.includes(member)) member.agreedSinceMs = undefined
  }
  const suspects = new Set(fresh.filter(({ suspect }) => suspect))
  const agrees = (one: GroupMember, other: GroupMember): boolean =>
    deviation(one.newest!.price, other.newest!.price) <= options.deviationMax
  for (const member of fresh) {
    const others = fresh.filter((other) => other !== member)
    const friends = others.filter((other) => agrees(member, other)).length
    const foes = others.filter((other) => !agrees(member, other) && !suspects.has(other)).length
    if (friends > 0) member.agreedSinceMs ??= nowMs
    else member.agreedSinceMs = undefined
    // A source becomes suspect if no fresh source agrees with it, and a fresh source that is not suspect contradicts
    // it. So if only two trusted sources are fresh and they disagree, both become suspect.
    if (friends === 0 && foes > 0) member.suspect = true
    const { agreedSinceMs } = member
    if (agreedSinceMs !== undefined && nowMs - agreedSinceMs >= options.recoverMs) {
      member.suspect = false
    }
  }
  for (const member of group.members) {
    if (!fresh.includes(member) || member.suspect) member.wellSinceMs = undefined
    // A fresh source becomes healthy once it agrees with another source, or if no other source is fresh.
    else if (member.agreedSinceMs !== undefined || fresh.length === 1) member.wellSinceMs ??= nowMs
  }
}

function whyNoneActive(group: PriceSourceGroup, nowMs: number, options: FailoverOptions): string {
  const fresh = group.members.filter((member) => isFresh(member, nowMs, options))
  if (fresh.length === 0) return 'no provider has a recent price'
  if (fresh.every(({ suspect }) => suspect)) return 'the providers disagree'
  return 'the exchange waits for the primary provider'
}
