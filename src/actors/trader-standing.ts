/**
 * What a market thread is asked and told about traders, in all of its markets: who pauses, who may place
 * nothing for now, and where trades of a trader are pending.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { PendingCounts } from './market/pending.ts'
import { standingFlaw } from './market/standing.ts'
import type { MarketState, RiskRules } from './market/state.ts'
import type { TraderPause } from './trader-pauses.ts'

export type StandingProtocol = {
  /** Pauses of traders that this thread may not know of. */
  TradersPaused: { takes: { pauses: readonly TraderPause[] }; answers: undefined }
  /** The pauses that this thread knows of. */
  PausedTraders: { takes: object; answers: { pauses: TraderPause[] } }
  /** Why the trader may place no order in this market for now. */
  Standing: {
    takes: { marketId: MarketId; trader: Address }
    answers: { refused?: Rejection } | Rejection
  }
  /** Markets in which trades of the trader are pending. */
  PendingMarkets: { takes: { trader: Address }; answers: { marketIds: MarketId[] } }
}

/** The thread, as far as it matters here. */
type Host = {
  readonly markets: ReadonlyMap<MarketId, { readonly state: MarketState }>
  readonly counts: ReadonlyMap<number, PendingCounts>
  readonly options: { readonly rules: { readonly risk?: RiskRules } }
}

export function hearPaused(
  { options }: Host,
  { pauses }: StandingProtocol['TradersPaused']['takes'],
): undefined {
  options.rules.risk?.pauses?.merge(pauses)
}

export function pausedTraders({ options }: Host): { pauses: TraderPause[] } {
  return { pauses: options.rules.risk?.pauses?.all() ?? [] }
}

export function standingOf(
  { markets }: Host,
  { marketId, trader }: StandingProtocol['Standing']['takes'],
  { nowMs }: { readonly nowMs: number },
): { refused?: Rejection } | Rejection {
  const hosted = markets.get(marketId)
  if (hosted === undefined) return reject('MARKET_NOT_FOUND')
  const refused = standingFlaw(hosted.state, trader, nowMs)
  return refused === undefined ? {} : { refused }
}

export function pendingMarketsOf(
  { markets, counts }: Host,
  { trader }: { readonly trader: Address },
): { marketIds: MarketId[] } {
  const marketIds: MarketId[] = []
  // Most traders have nothing pending, and then there is no need to look at every market.
  if (![...counts.values()].some((count) => count.of(trader) > 0)) return { marketIds }
  for (const [marketId, { state }] of markets) {
    if (state.pending.has(trader)) marketIds.push(marketId)
  }
  return { marketIds }
}
