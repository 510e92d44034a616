/** The live side of the SDK as its user sees it: what a stream is opened with, tells and can do. */

import type { CancelledOrder, PlacedOrder } from '#protocol/shapes/orders.ts'
import type {
  FundsMessage,
  MarketMessage,
  OrdersMessage,
  PriceMessage,
  QuickMarketMessage,
  TickerMessage,
  TradesMessage,
} from '#protocol/shapes/stream.ts'
import type { LocalBook } from './local-book.ts'
import type { OrderSubmission } from './order-submission.ts'
import type { BookMessage, Position } from './stream-messages.ts'
import type { HeaderLines } from './transport.ts'

export type StreamOptions = {
  /** Where the exchange is: `http://127.0.0.1:8080`. */
  readonly url: string
  /** Headers as for REST; the bearer token among them authenticates each new connection. */
  readonly headers?: (() => HeaderLines | Promise<HeaderLines>) | undefined
  /** The pause before the first attempt to reconnect; it doubles each time. */
  readonly backoffMs?: number
  readonly backoffMsMax?: number
  /** How long a new connection may take until the exchange says hello. */
  readonly connectTimeoutMs?: number
  /** How long an order may wait for a connection and its answer. */
  readonly timeoutMs?: number
  /** What opens a socket, where the runtime has none of its own or another is wanted: that of `ws`. */
  readonly WebSocket?: WebSocketClass
}

/** So much of a WebSocket as is used here: those of browsers, of Node and of `ws` have it. */
export type WebSocketClass = new (url: string) => StreamSocket

export type StreamSocket = {
  readonly readyState: number
  send(text: string): void
  close(): void
  addEventListener(type: 'message', listener: (event: { readonly data: unknown }) => void): void
  addEventListener(
    type: 'close',
    listener: (event: { readonly code: number; readonly reason: string }) => void,
  ): void
  addEventListener(type: 'error', listener: () => void): void
}

/** What happens to the stream itself. */
export type StreamEvents = {
  open: { readonly session: string }
  /** The connection is gone; undefined when it is not to come back. */
  closed: {
    readonly code: number
    readonly reason: string
    readonly reconnectInMs: number | undefined
  }
  /** A subscription is in place; `resumed` when it asked to go on where it was. */
  subscribed: { readonly sub: string; readonly resumed: boolean }
  /** What was in between is lost: this snapshot is a new start. */
  reset: { readonly sub: string }
  /** A message did not follow the one before; a new snapshot is on its way. */
  gap: { readonly sub: string; readonly had: Position; readonly got: Position }
  /** The local book differs from the exchange's; a new snapshot is on its way. */
  checksum: { readonly sub: string; readonly expected: number; readonly got: number }
  /** The exchange dropped messages because this client read too slowly. */
  lag: { readonly sub: string; readonly dropped: number }
  heartbeat: { readonly ts: number }
  /** Nothing was heard for too long; the connection is given up. */
  silent: { readonly forMs: number }
  /** The exchange stops: this connection ends when what was asked on it is answered, and the next one follows. */
  shutdown: { readonly reconnectInMs: number }
  error: { readonly code: string; readonly error: string }
}

export type StreamSubscription = {
  /** Resolves with the first snapshot; rejects when the exchange refuses, and with `ABORTED` when it is closed before. */
  readonly ready: Promise<void>
  close(): void
}

export type BookSubscription = StreamSubscription & { readonly book: LocalBook }

export type SibylStream = {
  on<K extends keyof StreamEvents>(name: K, listener: (event: StreamEvents[K]) => void): () => void
  /** Keeps a book; `heard` is called after each message was applied and its checksum fitted. */
  book(
    what: {
      readonly marketId: string
      readonly outcome: 'YES' | 'NO'
      /** The sum of the changes so often, instead of every change. */
      readonly maxHz?: 1 | 5 | 10 | 20
    },
    heard?: (message: BookMessage, book: LocalBook) => void,
  ): BookSubscription
  trades(marketId: string, heard: (message: TradesMessage) => void): StreamSubscription
  orders(trader: string, heard: (message: OrdersMessage) => void): StreamSubscription
  /** What a trader has on a chain; only there where the exchange reserves funds. */
  funds(
    of: { readonly trader: string; readonly chainId: number },
    heard: (message: FundsMessage) => void,
  ): StreamSubscription
  /** One market, or all of them. */
  market(marketId: string | undefined, heard: (message: MarketMessage) => void): StreamSubscription
  /** Markets in a line each: some (up to 200), or all of them. */
  ticker(
    marketIds: readonly string[] | undefined,
    heard: (message: TickerMessage) => void,
  ): StreamSubscription
  /** The prices of an asset: `BTC`. */
  price(asset: string, heard: (message: PriceMessage) => void): StreamSubscription
  /** The quick markets of an asset as they open and are resolved. */
  quickMarket(asset: string, heard: (message: QuickMarketMessage) => void): StreamSubscription
  place(submission: OrderSubmission): Promise<PlacedOrder>
  cancel(order: {
    readonly orderHash: string
    readonly marketId: string
    readonly side?: 'buy' | 'sell'
  }): Promise<CancelledOrder>
  /**
   * Orders placed from now on are cancelled when their connection ends; needs a token. Each new connection is asked for
   * the same, and nothing is placed on it before it agrees: `error` tells why it does not, and it is asked again.
   */
  cancelOnDisconnect(enabled: boolean): Promise<void>
  /** Milliseconds to the exchange and back. */
  ping(): Promise<number>
  close(): void
}
