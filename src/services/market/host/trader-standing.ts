/**
 * Requests about one trader across all markets of a thread: pauses, spending, and markets with pending trades.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import { BUY, expiresAtSec, SELL } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { TraderPause } from '#domain/trader-pauses.ts'
import type { ComingBack, InLine, NextInLine, StandingProtocol } from '#protocol/market-host.ts'
import type { PendingCounts } from '../pending.ts'
import { standingFlaw } from '../standing.ts'
import type { MarketState, Recall, RiskRules } from '../state.ts'
import type { Barred } from './trader-budgets.ts'

/** Orders that an answer names. */
const LINE_MAX = 1_000

/** Part of the market thread that is used here. */
type Host = {
  readonly markets: ReadonlyMap<MarketId, { readonly state: MarketState }>
  readonly counts: ReadonlyMap<number, PendingCounts>
  readonly recall: Pick<Recall, 'closed'>
  readonly barred: Barred[]
  readonly options: { readonly rules: { readonly risk?: RiskRules } }
}

export function hearPaused(
  { options }: Host,
  { pauses }: StandingProtocol['TradersPaused']['takes'],
): undefined {
  options.rules.risk?.pauses?.merge(pauses)
}

export function hearSpent(
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
  { trader }: { readonly trader: Address },
): { marketIds: MarketId[] } {
  const marketIds: MarketId[] = []
  // Most traders have nothing pending; then no market needs to be scanned.
  if (![...counts.values()].some((count) => count.of(trader) > 0)) return { marketIds }
  for (const [marketId, { state }] of markets) {
    if (state.pending.has(trader)) marketIds.push(marketId)
  }
  return { marketIds }
}

export function nextInLine(
  { markets, counts, recall }: Host,
  { marketId, outcome, side, orders }: ComingBack,
  { nowMs }: { readonly nowMs: number },
): NextInLine | Rejection {
  const hosted = markets.get(marketId)
  if (hosted === undefined) return reject('MARKET_NOT_FOUND')
  let size = 0
  let limit = 0
  for (const order of orders) {
    // One that still rests grows in its place, where nobody meets it; one that ended otherwise stays ended.
    if (recall.closed.get(order.orderHash)?.reason !== 'filled') continue
    if (expiresAtSec(order.expiration) * 1_000 <= nowMs) continue
    size += order.size
    const isFurther = side === BUY ? order.price < limit : order.price > limit
    if (limit === 0 || isFurther) limit = order.price
  }
  const line: InLine[] = []
  if (size === 0) return { size, line }
  const book = hosted.state.books[outcome]
  const pending = counts.get(hosted.state.market.chainId)
  for (const slot of book.makers(side === BUY ? SELL : BUY, limit)) {
    if (line.length === LINE_MAX) break
    const { trader, price, remaining } = book.read(slot)
    line.push({ trader, price, remaining, isPending: (pending?.of(trader) ?? 0) > 0 })
  }
  return { size, line }
}
