/** Passes market events to the channels of the stream. */

import type { MarketEvent } from '#domain/market-event.ts'
import { makerOutcome, makerSide } from '#domain/match-trades.ts'
import { ONE } from '#domain/money.ts'
import { BUY, OUTCOMES, SELL } from '#domain/order.ts'
import type { ShownMarket } from '#live/market-board.ts'
import type { ChannelParts } from './channel-parts.ts'

/** Events that do not change a market's ticker. */
const QUIET: ReadonlySet<MarketEvent['type']> = new Set([
  'TradeSubmitted',
  'TradeConfirmed',
  'TradeReverted',
] as const)

/** Passes an event of a market to the channels that publish it. */
export function followEvent<M>(
  { marketFeed, books, trades, orders, marketChannel, tickers }: ChannelParts<M>,
  shown: ShownMarket,
  event: MarketEvent,
): void {
  const of = marketFeed(shown)
  const { seq } = event
  if (!QUIET.has(event.type)) tickers.changed(event.marketId)
  switch (event.type) {
    case 'MarketOpened':
      of.bookSeq.fill(seq)
      of.tradesSeq = seq
      marketChannel.logged(of, 'created', event)
      break
    case 'OrderRested':
      books.changed(of, event, [event.price], seq)
      books.changedImplied(of, event, [event.price], seq)
      orders.rested(event)
      break
    case 'OrdersMatched': {
      const { taker, fills } = event
      for (const outcome of OUTCOMES) {
        const made = fills.filter((fill) => makerOutcome(taker, fill) === outcome)
        const [first] = made
        if (first === undefined) continue
        const prices = [...new Set(made.map(({ price }) => price as number))]
        books.changed(of, { outcome, side: makerSide(taker, first) }, prices, seq)
      }
      if (of.implied.size > 0) {
        // In the implied book of the taker's outcome, all makers' orders are on the side opposite to the taker's. In a
        // mint or merge, the maker's order is for the other outcome, so it appears at the complementary price.
        const prices = fills.map(({ kind, price }) => (kind === undefined ? price : ONE - price))
        const side = taker.side === BUY ? SELL : BUY
        books.changedImplied(of, { outcome: taker.outcome, side }, [...new Set(prices)], seq)
      }
      trades.matched(of, event)
      orders.matched(event)
      break
    }
    case 'OrderClosed':
      if (event.remaining > 0) {
        books.changed(of, event, [event.price], seq)
        books.changedImplied(of, event, [event.price], seq)
      }
      orders.closed(event)
      break
    case 'MarketClosed':
      for (const outcome of OUTCOMES) books.replaced(of, outcome, seq)
      orders.ended(event)
      marketChannel.logged(of, event.reason, event)
      break
    case 'TradeSubmitted':
    case 'TradeConfirmed':
    case 'TradeFailed':
    case 'TradeReverted':
      trades.decided(of, event)
      break
  }
}
