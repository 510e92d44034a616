/** Public types of the SDK's stream: options, events and functions. */

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
import type { LocalBook } from './local-book.ts'
import type { OrderSubmission } from './order-submission.ts'
import type { BookMessage, Position } from './stream-messages.ts'
import type { HeaderLines } from './transport.ts'

export type StreamOptions = {
  /** Address of the exchange: `http://127.0.0.1:8080`. */
  readonly url: string
  /**
   * Returns headers in the form of REST headers. The stream uses only the bearer token in these headers, to
   * authenticate each new connection.
   */
  readonly headers?: (() => HeaderLines | Promise<HeaderLines>) | undefined
  /** True to request receipts of orders and cancels. */
  readonly receipts?: boolean
  /**
   * If the token belongs to a delegate, the account that appointed this delegate. Cancels and the dead-man switch then
   * apply to the account's orders.
   */
  readonly trader?: string | undefined
  /** Pause before the first attempt to reconnect, in milliseconds; the pause doubles with each attempt. */
  readonly backoffMs?: number
  readonly backoffMsMax?: number
  /** Maximum time in milliseconds from opening a connection to the exchange's `hello` message. */
  readonly connectTimeoutMs?: number
  /** Maximum time in milliseconds that a request waits for a connection and its answer. */
  readonly timeoutMs?: number
  /** Class that opens sockets, such as that of `ws`; by default the runtime's own class. */
  readonly WebSocket?: WebSocketClass
}

/** The part of a WebSocket that the stream uses. The WebSockets of browsers, Node and `ws` have it. */
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

/** Events of the stream itself. */
export type StreamEvents = {
  open: { readonly session: string }
  /** The connection ended; `reconnectInMs` is undefined if it will not be reopened. */
  closed: {
    readonly code: number
    readonly reason: string
    readonly reconnectInMs: number | undefined
  }
  /** A subscription is active; `resumed` is true if it continues at its last position. */
  subscribed: { readonly sub: string; readonly resumed: boolean }
  /** Messages were lost: a new snapshot replaces the earlier state. */
  reset: { readonly sub: string }
  /** A message did not follow the previous message; the client has requested a new snapshot. */
  gap: { readonly sub: string; readonly had: Position; readonly got: Position }
  /** The local book differs from the exchange's book; the client has requested a new snapshot. */
  checksum: { readonly sub: string; readonly expected: number; readonly got: number }
  /** The exchange dropped messages because this client read too slowly. */
  lag: { readonly sub: string; readonly dropped: number }
  heartbeat: { readonly ts: number }
  /** No message arrived within `forMs`; the client closes the connection. */
  silent: { readonly forMs: number }
  /**
   * The exchange is stopping. After all pending requests are answered, the client closes this connection and opens a
   * new one.
   */
  shutdown: { readonly reconnectInMs: number }
  error: { readonly code: string; readonly error: string }
}

export type StreamSubscription = {
  /**
   * Resolves with the first snapshot. Rejects if the exchange refuses the subscription, and with `ABORTED` if the
   * subscription is closed before the first snapshot.
   */
  readonly ready: Promise<void>
  close(): void
}

export type BookSubscription = StreamSubscription & { readonly book: LocalBook }

export type SibylStream = {
  on<K extends keyof StreamEvents>(name: K, listener: (event: StreamEvents[K]) => void): () => void
  /** Keeps a local copy of a book. `listener` is called after each message is applied and its checksum is verified. */
  book(
    what: {
      readonly marketId: string
      readonly outcome: 'YES' | 'NO'
      /**
       * Maximum number of updates per second. Each update combines all changes since the previous update. By default,
       * the exchange sends every change.
       */
      readonly maxHz?: 1 | 5 | 10 | 20
      /** Adds implied levels from orders of the other outcome, in a complementary market. */
      readonly implied?: boolean
    },
    listener?: (message: BookMessage, book: LocalBook) => void,
  ): BookSubscription
  trades(marketId: string, listener: (message: TradesMessage) => void): StreamSubscription
  orders(trader: string, listener: (message: OrdersMessage) => void): StreamSubscription
  /** Follows a trader's funds on a chain; available only if the exchange reserves funds. */
  funds(
    of: { readonly trader: string; readonly chainId: number },
    listener: (message: FundsMessage) => void,
  ): StreamSubscription
  /** Follows one market, or all markets if `marketId` is undefined. */
  market(
    marketId: string | undefined,
    listener: (message: MarketMessage) => void,
  ): StreamSubscription
  /** Follows one-line summaries of up to 200 markets, or of all markets. */
  ticker(
    marketIds: readonly string[] | undefined,
    listener: (message: TickerMessage) => void,
  ): StreamSubscription
  /** Follows the summaries of an event's markets, including markets that join the event later. */
  eventTicker(
    event: { readonly slug: string; readonly chainId?: number },
    listener: (message: TickerMessage) => void,
  ): StreamSubscription
  /** Follows the prices of an asset: `BTC`. */
  price(asset: string, listener: (message: PriceMessage) => void): StreamSubscription
  /** Follows the quick markets of an asset as they open and are resolved. */
  quickMarket(asset: string, listener: (message: QuickMarketMessage) => void): StreamSubscription
  place(submission: OrderSubmission): Promise<PlacedOrder>
  cancel(order: {
    readonly orderHash: string
    readonly marketId: string
    readonly side?: 'buy' | 'sell'
  }): Promise<CancelledOrder>
  /**
   * Cancels the open orders of the token's address. `market` and `group` restrict the cancel to one market or
   * one group. Needs a token.
   */
  cancelAll(where?: { readonly market?: string; readonly group?: string }): Promise<CancelledOrders>
  /** Sets the dead-man switch of the token's API key, like `orders.deadman`. An `afterMs` of 0 turns the switch off. */
  deadman(afterMs: number): Promise<DeadmanAnswer>
  /**
   * Turns cancel on disconnect on or off. If it is on and a connection ends, the exchange cancels the orders that were
   * placed on that connection after this request. Needs a token.
   *
   * The client repeats this request on each new connection. It places no order on that connection until the exchange
   * has accepted the request. If the exchange refuses, the event `error` has the reason, and the client repeats the
   * request.
   */
  cancelOnDisconnect(enabled: boolean): Promise<void>
  /** Returns the round-trip time to the exchange in milliseconds. */
  ping(): Promise<number>
  close(): void
}
