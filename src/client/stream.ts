/**
 * The SDK's stream: requests and channels on a connection that is kept open (`stream-connection.ts`). Every message
 * names the previous message, so a gap is detected and repaired by a new snapshot. After a broken connection, a
 * subscription resumes at its last position or starts over. The stream reports gaps, resumed subscriptions and new
 * starts as events.
 */

import type {
  CancelledOrder,
  CancelledOrders,
  DeadmanAnswer,
  PlacedOrder,
} from '#protocol/shapes/orders.ts'
import type {
  FundsMessage,
  MarketMessage,
  OrdersMessage,
  PriceMessage,
  QuickMarketMessage,
  TickerMessage,
  TradesMessage,
} from '#protocol/shapes/stream.ts'
import { LocalBook } from './local-book.ts'
import { openConnection } from './stream-connection.ts'
import type { BookMessage, ChannelMessage } from './stream-messages.ts'
import type { SibylStream, StreamOptions } from './stream-types.ts'

export function createStream(options: StreamOptions): SibylStream {
  const connection = openConnection(options)
  const { on, emit, start, ask, close } = connection
  const receipt = options.receipts === true ? { receipt: true } : {}
  const acting = options.trader === undefined ? {} : { trader: options.trader }

  return {
    on,
    close,
    book({ marketId, outcome, maxHz, implied }, listener) {
      const book = new LocalBook()
      const pace = maxHz === undefined ? {} : { mode: 'conflate', maxHz }
      const more = implied === true ? { implied } : {}
      const which = outcome === 'YES' ? 0 : 1
      const subscription = start(
        { channel: 'book', marketId, outcome: which, ...pace, ...more },
        (raw) => {
          const message = raw as BookMessage
          const { seq, bids, asks, checksum } = message
          if (message.type === 'book.snapshot') book.load(seq, bids, asks)
          else book.apply(seq, bids, asks)
          const got = book.checksum()
          if (got !== checksum) {
            emit('checksum', { sub: message.sub, expected: checksum, got })
            return false
          }
          listener?.(message, book)
          return true
        },
      )
      return { ...subscription, book }
    },
    trades: (marketId, listener) =>
      start({ channel: 'trades', marketId }, passing<TradesMessage>(listener)),
    orders: (trader, listener) =>
      start({ channel: 'orders', trader }, passing<OrdersMessage>(listener)),
    funds: ({ trader, chainId }, listener) =>
      start({ channel: 'funds', trader, chainId }, passing<FundsMessage>(listener)),
    market: (marketId, listener) =>
      start(
        { channel: 'market', ...(marketId === undefined ? {} : { marketId }) },
        passing<MarketMessage>(listener),
      ),
    ticker: (marketIds, listener) =>
      start(
        { channel: 'ticker', ...(marketIds === undefined ? {} : { marketIds }) },
        passing<TickerMessage>(listener),
      ),
    eventTicker: ({ slug, chainId }, listener) =>
      start(
        { channel: 'ticker', event: slug, ...(chainId === undefined ? {} : { chainId }) },
        passing<TickerMessage>(listener),
      ),
    price: (asset, listener) => start({ channel: 'price', asset }, passing<PriceMessage>(listener)),
    quickMarket: (asset, listener) =>
      start({ channel: 'quick-market', asset }, passing<QuickMarketMessage>(listener)),
    async place(submission) {
      const { type: _, id: __, ...placed } = await ask('place', { ...submission, ...receipt })
      return placed as unknown as PlacedOrder
    },
    async cancel(order) {
      const asked = { ...order, ...acting, ...receipt }
      const { type: _, id: __, ...cancelled } = await ask('cancel', asked)
      return { status: 'cancelled', ...cancelled } as unknown as CancelledOrder
    },
    async cancelAll({ market, group } = {}) {
      const where = { marketId: market, group, ...acting }
      const { type: _, id: __, ...cancelled } = await ask('cancelAll', where)
      return cancelled as unknown as CancelledOrders
    },
    async deadman(afterMs) {
      const { type: _, id: __, ...answer } = await ask('deadman', { afterMs, ...acting })
      return answer as unknown as DeadmanAnswer
    },
    async cancelOnDisconnect(enabled) {
      // `ask` waits until the stream is open. While cancel on disconnect is on, the stream opens only after the
      // exchange has accepted it. So turn cancel on disconnect off locally before `ask`.
      if (!enabled && !connection.isOpen()) connection.setCancelling(false)
      await ask('cancelOnDisconnect', { enabled })
      connection.setCancelling(enabled)
    },
    async ping() {
      const begunMs = performance.now()
      await ask('ping', {})
      return performance.now() - begunMs
    },
  }
}

function passing<M>(listener: (message: M) => void): (message: ChannelMessage) => boolean {
  return (message) => {
    listener(message as unknown as M)
    return true
  }
}
