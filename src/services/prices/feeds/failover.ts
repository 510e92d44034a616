/**
 * Which of the providers speaks for an asset right now. Every observation passes a gate first: one
 * that is old, ahead of time or older than the one before does not count, and a jump counts only when
 * another provider reports the same. Of those that pass, each provider's newest counts while it is
 * fresh. The primary speaks while it is fresh; then the fallbacks in their order; and one that failed
 * speaks again only after it has been well for a while, so that nothing flaps.
 *
 * The breaker: providers that are fresh must agree. One that is far from the others is suspect and
 * does not speak; when it cannot be told which one is right, none speaks and no price leaves. A suspect is
 * trusted again once it has agreed with another fresh provider for a while, and one that comes while
 * others are there has to agree with one of them. An example with a limit of 1 %: pyth 100.0,
 * binance 100.1, coinbase 107: coinbase is suspect, pyth speaks. Binance goes stale: coinbase, a
 * suspect, does not count against pyth. Had there been only pyth 100 and coinbase 107 from the
 * start, both would be suspect and none would speak.
 *
 * It asks no clock: every call says what time it is, so the same calls give the same answers.
 */

import { deviation, type Observation, type PriceSource } from '#domain/asset-price.ts'

type FailoverOptions = {
  /** The primary first. */
  readonly order: readonly PriceSource[]
  /** How old the newest observation of a provider may be while it counts as fresh. */
  readonly ageMsMax: number
  /** How far ahead of our clock an observation may be. */
  readonly aheadMsMax: number
  /** How long one must be well before it speaks again. */
  readonly recoverMs: number
  /** How far fresh providers may be apart, as a share of the price. */
  readonly deviationMax: number
  /**
   * How far a price may be from the one before it without another provider that agrees, as a share;
   * twice as much when `driftMs` lie between them. Never more: after a long silence one provider
   * alone, which may be wrong, is not believed about a price that is far from the last.
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

/** Which provider speaks; undefined when none does, and why. */
type Choice = { readonly source: PriceSource | undefined; readonly why: string }

export type Failover = {
  /** Whether the observation may be believed; if so, it counts from now on. */
  observe(observation: Observation, nowMs: number): GateVerdict
  choose(asset: string, nowMs: number): Choice
  /** A price that was believed before this began: what comes is compared with it. */
  recall(asset: string, price: number, atMs: number): void
  /** The newest accepted observation of a provider. */
  newest(asset: string, source: PriceSource): Observation | undefined
  isFresh(asset: string, source: PriceSource, nowMs: number): boolean
  isSuspect(asset: string, source: PriceSource): boolean
}

type Voice = {
  readonly source: PriceSource
  newest: Observation | undefined
  /** A jump that waits for another provider to confirm it. */
  jump: Observation | undefined
  suspect: boolean
  /** Since when it has been fresh and in agreement; undefined when it is not. */
  agreedSinceMs: number | undefined
  /** Since when it could have spoken without a break. */
  wellSinceMs: number | undefined
}

type Choir = {
  readonly voices: readonly Voice[]
  speaker: PriceSource | undefined
  /** The last price that was believed. */
  believed: { readonly price: number; readonly atMs: number } | undefined
  /** When it was first asked who speaks. */
  sinceMs: number | undefined
}

export function makeFailover(options: FailoverOptions): Failover {
  const choirs = new Map<string, Choir>()

  function choirOf(asset: string): Choir {
    let choir = choirs.get(asset)
    if (choir === undefined) {
      const voices = options.order.map(
        (source): Voice => ({
          source,
          newest: undefined,
          jump: undefined,
          suspect: false,
          agreedSinceMs: undefined,
          wellSinceMs: undefined,
        }),
      )
      choir = { voices, speaker: undefined, believed: undefined, sinceMs: undefined }
      choirs.set(asset, choir)
    }
    return choir
  }

  const voiceOf = (asset: string, source: PriceSource): Voice | undefined =>
    choirs.get(asset)?.voices.find((voice) => voice.source === source)

  // Both its own time and ours: a provider may repeat an old price, or its clock be ahead.
  const isRecent = ({ atMs, receivedAtMs }: Observation, nowMs: number): boolean =>
    nowMs - Math.min(atMs, receivedAtMs) <= options.ageMsMax

  const isFresh = ({ newest }: Voice, nowMs: number): boolean =>
    newest !== undefined && isRecent(newest, nowMs)

  function gate(choir: Choir, voice: Voice, observation: Observation, nowMs: number): GateVerdict {
    const { newest } = voice
    if (observation.atMs > nowMs + options.aheadMsMax) return 'ahead'
    if (nowMs - observation.atMs > options.ageMsMax) return 'stale'
    if (newest !== undefined) {
      if (observation.atMs < newest.atMs) return 'backwards'
      if (observation.atMs === newest.atMs && observation.price === newest.price) return 'repeated'
    }
    if (!isJump(choir, voice, observation, nowMs)) return 'accepted'
    voice.jump = observation
    const isConfirmed = choir.voices.some(
      (other) =>
        other !== voice &&
        [other.newest, other.jump].some(
          (report) =>
            report !== undefined &&
            isRecent(report, nowMs) &&
            deviation(report.price, observation.price) <= options.deviationMax,
        ),
    )
    return isConfirmed || options.order.length === 1 ? 'accepted' : 'jump'
  }

  /** Whether it is far from what it said before, or, if that is long ago, from what was believed. */
  function isJump(choir: Choir, voice: Voice, observation: Observation, nowMs: number): boolean {
    const before = isFresh(voice, nowMs) ? voice.newest : choir.believed
    if (before === undefined) return false
    const elapsedMs = Math.max(0, observation.atMs - before.atMs)
    const allowed = options.jumpMax * (1 + Math.min(1, elapsedMs / options.driftMs))
    return deviation(observation.price, before.price) > allowed
  }

  /** Marks who agrees with whom; a voice is well when it is fresh and no suspect. */
  function listen(choir: Choir, nowMs: number): void {
    const fresh = choir.voices.filter((voice) => isFresh(voice, nowMs))
    for (const voice of choir.voices) {
      if (!fresh.includes(voice)) voice.agreedSinceMs = undefined
    }
    const suspects = new Set(fresh.filter(({ suspect }) => suspect))
    const agrees = (one: Voice, other: Voice): boolean =>
      deviation(one.newest!.price, other.newest!.price) <= options.deviationMax
    for (const voice of fresh) {
      const others = fresh.filter((other) => other !== voice)
      const friends = others.filter((other) => agrees(voice, other)).length
      const foes = others.filter((other) => !agrees(voice, other) && !suspects.has(other)).length
      if (friends > 0) voice.agreedSinceMs ??= nowMs
      else voice.agreedSinceMs = undefined
      // One that has no friend and a foe that counts is not to be believed, nor is its foe.
      if (friends === 0 && foes > 0) voice.suspect = true
      const { agreedSinceMs } = voice
      if (agreedSinceMs !== undefined && nowMs - agreedSinceMs >= options.recoverMs) {
        voice.suspect = false
      }
    }
    for (const voice of choir.voices) {
      if (!fresh.includes(voice) || voice.suspect) voice.wellSinceMs = undefined
      // A provider that comes finds agreement, or no other that could agree.
      else if (voice.agreedSinceMs !== undefined || fresh.length === 1) voice.wellSinceMs ??= nowMs
    }
  }

  function choose(asset: string, nowMs: number): Choice {
    const choir = choirOf(asset)
    choir.sinceMs ??= nowMs
    listen(choir, nowMs)
    const well = choir.voices.filter(({ wellSinceMs }) => wellSinceMs !== undefined)
    const speaking = well.find(({ source }) => source === choir.speaker)
    if (speaking !== undefined) {
      const better = well.find(
        ({ source, wellSinceMs }) =>
          source === choir.speaker || nowMs - wellSinceMs! >= options.recoverMs,
      )
      choir.speaker = better?.source
    } else if (choir.speaker === undefined && nowMs - choir.sinceMs < options.recoverMs) {
      // In the beginning the primary is given a moment, whichever provider comes first.
      choir.speaker = well.find(({ source }) => source === options.order[0])?.source
    } else choir.speaker = well[0]?.source
    if (choir.speaker !== undefined) {
      choir.believed = voiceOf(asset, choir.speaker)?.newest
      return { source: choir.speaker, why: '' }
    }
    return { source: undefined, why: silenceOf(choir, nowMs) }
  }

  function silenceOf(choir: Choir, nowMs: number): string {
    const fresh = choir.voices.filter((voice) => isFresh(voice, nowMs))
    if (fresh.length === 0) return 'no provider is fresh'
    if (fresh.every(({ suspect }) => suspect)) return 'the providers disagree'
    return 'the primary is awaited'
  }

  return {
    observe(observation, nowMs) {
      const choir = choirOf(observation.asset)
      const voice = voiceOf(observation.asset, observation.source)
      if (voice === undefined) return 'unknown'
      const verdict = gate(choir, voice, observation, nowMs)
      if (verdict !== 'accepted') return verdict
      voice.newest = observation
      voice.jump = undefined
      return verdict
    },
    choose,
    recall(asset, price, atMs) {
      choirOf(asset).believed = { price, atMs }
    },
    newest: (asset, source) => voiceOf(asset, source)?.newest,
    isFresh(asset, source, nowMs) {
      const voice = voiceOf(asset, source)
      return voice !== undefined && isFresh(voice, nowMs)
    },
    isSuspect: (asset, source) => voiceOf(asset, source)?.suspect ?? false,
  }
}
