/**
 * What a market thread is asked and told about traders, in all of its markets: who pauses, who may place
 * nothing for now, where trades of a trader are pending, and who is next in line for what may come back.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, type Outcome, SELL, type Side } from '#domain/order.ts'
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
  /** Whose orders would meet an order that came to this book now. */
  NextInLine: { takes: Line; answers: { traders: InLine[] } | Rejection }
}

/** The orders of one side of a book that would be met at a price, the first of them first. */
export type Line = {
  readonly marketId: MarketId
  readonly outcome: Outcome
  /** The side that the line is on. */
  readonly side: Side
  readonly price: Price
}

/** A trader in it, of whom nothing is pending, and the least that one of his orders there is for. */
export type InLine = { readonly trader: Address; readonly least: Shares }

/** Orders that are looked at for an answer, and traders that it names. */
const LINE_ORDERS_MAX = 2_000
const LINE_TRADERS_MAX = 300

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

export function nextInLine(
  { markets, counts }: Host,
  { marketId, outcome, side, price }: Line,
): { traders: InLine[] } | Rejection {
  const hosted = markets.get(marketId)
  if (hosted === undefined) return reject('MARKET_NOT_FOUND')
  const { books, market } = hosted.state
  const pending = counts.get(market.chainId)
  const least = new Map<Address, Shares>()
  let met = 0
  for (const slot of books[outcome].makers(side === BUY ? SELL : BUY, price)) {
    if (met++ === LINE_ORDERS_MAX) break
    const { trader, remaining } = books[outcome].read(slot)
    const known = least.get(trader)
    if (known === undefined && least.size === LINE_TRADERS_MAX) continue
    if (known === undefined || remaining < known) least.set(trader, remaining)
  }
  const traders: InLine[] = []
  for (const [trader, size] of least) {
    // Who has a trade under way may be owed what he lacks; it tells by itself.
    if (pending === undefined || pending.of(trader) === 0) traders.push({ trader, least: size })
  }
  return { traders }
}
