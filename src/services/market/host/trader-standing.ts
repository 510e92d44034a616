/**
 * Handles messages about traders that concern all markets of a thread: pauses, spending, and markets with
 * pending trades.
 */

import type { MarketId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { TraderPause } from '#domain/trader-pauses.ts'
import type { StandingProtocol } from '#protocol/market-host.ts'
import type { PendingCounts } from '../pending.ts'
import { standingFlaw } from '../standing.ts'
import type { MarketState, RiskRules } from '../state.ts'
import type { Barred } from './trader-budgets.ts'

/** The parts of the market thread that this file uses. */
type Host = {
  readonly markets: ReadonlyMap<MarketId, { readonly state: MarketState }>
  readonly counts: ReadonlyMap<number, PendingCounts>
  readonly barred: Barred[]
  readonly options: { readonly rules: { readonly risk?: RiskRules } }
}

export function applyPaused(
  { options }: Host,
  { pauses }: StandingProtocol['TradersPaused']['takes'],
): undefined {
  options.rules.risk?.pauses?.merge(pauses)
}

export function applySpent(
  { options, barred }: Host,
  { chainId, day, spending }: StandingProtocol['TradersSpent']['takes'],
): undefined {
  barred.push(...(options.rules.risk?.budgets?.merge(chainId, day, spending) ?? []))
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
  { trader, chainId }: StandingProtocol['PendingMarkets']['takes'],
): { marketIds: MarketId[] } {
  const marketIds: MarketId[] = []
  // If the trader has no pending trades, as is usual, no market needs to be searched.
  if (![...counts.values()].some((count) => count.of(trader) > 0)) return { marketIds }
  for (const [marketId, { state }] of markets) {
    if (chainId !== undefined && state.market.chainId !== chainId) continue
    if (state.pending.has(trader)) marketIds.push(marketId)
  }
  return { marketIds }
}
