/**
 * Writes the messages of the channels as JSON text, once for all subscribers. Most messages are written without
 * `JSON.stringify`, because the total size of a price level may exceed the safe integers.
 */

import { matchedJson } from '#api/markets/trade-pages.ts'
import { orderCursor } from '#api/orders/order-shapes.ts'
import type { OrderHash, TradeId } from '#domain/ids.ts'
import { BOOK_LEVELS_SHOWN_MAX } from '#domain/limits.ts'
import type { CloseReason, ResolutionEventName } from '#domain/market.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, type Outcome, SELL, type Side } from '#domain/order.ts'
import type { EchoedTags } from '#domain/order-tags.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { ShownLevel } from '#live/level-book.ts'
import { bookOf, type ShownMarket, type ShownTrade } from '#live/market-board.ts'
import type { QuickMarketEvent } from '#live/price-board.ts'
import type { OrdersPage } from '#protocol/market-host.ts'
import type { StreamPrice } from '#protocol/shapes/prices.ts'
import { checksumOf } from './checksum.ts'
import type { ResolutionFacts, ResolutionUpdate } from './resolution-update.ts'
import type { CursorStep } from './topic-registry.ts'

const levelsText = (levels: readonly ShownLevel[]): string => {
  let text = ''
  for (const [price, size] of levels) {
    text += text === '' ? `[${price},${size}]` : `,[${price},${size}]`
  }
  return text
}

const resetText = (reset: boolean): string => (reset ? ',"reset":true' : '')

/**
 * Marks a snapshot as stale. Cached snapshots have no mark, because a market can stop being stale while its snapshot
 * stays the same.
 */
export function markStale(text: string): string {
  return `${text.slice(0, -1)},"stale":true}`
}

/** The book that a message describes. */
export type BookOf = {
  readonly shown: ShownMarket
  readonly outcome: Outcome
  readonly implied: boolean
}

export function bookSnapshot(
  sub: string,
  { shown, outcome, implied }: BookOf,
  seq: number,
  reset: boolean,
): string {
  const book = bookOf(shown, outcome, implied)
  return (
    `{"type":"book.snapshot","sub":"${sub}","marketId":"${shown.market.id}","outcome":${outcome},` +
    `"seq":${seq},"bids":[${levelsText(book.levels(BUY, BOOK_LEVELS_SHOWN_MAX))}],` +
    `"asks":[${levelsText(book.levels(SELL, BOOK_LEVELS_SHOWN_MAX))}],` +
    `"checksum":${checksumOf(book)},"ts":${shown.updatedAtMs}${resetText(reset)}}`
  )
}

/** Changed price levels, each with its new total size. */
export type Changes = { readonly bids: readonly ShownLevel[]; readonly asks: readonly ShownLevel[] }

export function bookDelta(
  sub: string,
  { shown, outcome, implied }: BookOf,
  position: { readonly seq: number; readonly prevSeq: number },
  { bids, asks }: Changes,
): string {
  return (
    `{"type":"book.delta","sub":"${sub}","marketId":"${shown.market.id}","outcome":${outcome},` +
    `"seq":${position.seq},"prevSeq":${position.prevSeq},"bids":[${levelsText(bids)}],` +
    `"asks":[${levelsText(asks)}],"checksum":${checksumOf(bookOf(shown, outcome, implied))},` +
    `"ts":${shown.updatedAtMs}}`
  )
}

const tradeFields = (trade: ShownTrade): string =>
  `${matchedJson(trade)},"takerSide":${trade.takerSide},"ts":${trade.matchedAtMs}`

/**
 * Writes the message about one trade of a match. All trades of the match have the same `seq`. The message contains the
 * number of these trades (`fills`), so that a client notices a missing trade.
 */
export function trade(sub: string, shown: ShownTrade, prevSeq: number, fills: number): string {
  return (
    `{"type":"trade","sub":"${sub}","marketId":"${shown.marketId}",${tradeFields(shown)},` +
    `"seq":${shown.seq},"prevSeq":${prevSeq},"fill":${shown.fillIndex + 1},"fills":${fills},"status":"matched"}`
  )
}

export function tradeStatus(
  sub: string,
  change: {
    readonly marketId: string
    readonly tradeId: TradeId
    readonly seq: number
    readonly prevSeq: number
    readonly status: TradeStatus
    readonly txHash: string
    readonly reason: string
    readonly atMs: number
  },
): string {
  return (
    `{"type":"trade.status","sub":"${sub}","marketId":"${change.marketId}",` +
    `"tradeId":"${change.tradeId}","seq":${change.seq},"prevSeq":${change.prevSeq},` +
    `"status":"${change.status}","txHash":${JSON.stringify(change.txHash)},` +
    `"reason":${JSON.stringify(change.reason)},"ts":${change.atMs}}`
  )
}

/**
 * Writes the snapshot with the latest trades that this front knows, oldest first. The REST API has the whole history.
 */
export function tradesSnapshot(
  sub: string,
  shown: ShownMarket,
  seq: number,
  reset: boolean,
): string {
  const trades: string[] = []
  for (const known of shown.trades.values()) {
    trades.push(
      `{${tradeFields(known)},"seq":${known.seq},"status":"${known.status}",` +
        `"txHash":${JSON.stringify(known.txHash)}}`,
    )
  }
  return (
    `{"type":"trades.snapshot","sub":"${sub}","marketId":"${shown.market.id}","seq":${seq},` +
    `"trades":[${trades.join(',')}],"ts":${shown.updatedAtMs}${resetText(reset)}}`
  )
}

export type OrderChange = {
  readonly orderHash: OrderHash
  readonly marketId: string
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  /** Size in the signed order; undefined if the event does not contain it. */
  readonly size: Shares | undefined
  readonly status: 'accepted' | 'partially_filled' | 'filled' | 'cancelled' | 'expired'
  /** Reason for the cancellation; empty if a client requested it. */
  readonly reason: string
  readonly remaining: number
  /** For a cancelled order: the size that is matched and not settled yet. */
  readonly pending?: number
  readonly tags?: EchoedTags | undefined
  readonly seq: number
  readonly atMs: number
}

/** Writes the label and the group of an order. They are escaped, because the client chose them. */
function tagFields(tags: EchoedTags | undefined): string {
  if (tags === undefined) return ''
  const { label, group } = tags
  const labelled = label === undefined ? '' : `"label":${JSON.stringify(label)},`
  return group === undefined ? labelled : `${labelled}"group":${JSON.stringify(group)},`
}

export function order(
  sub: string,
  change: OrderChange,
  { cursor, prevCursor }: CursorStep,
): string {
  const reason = change.reason === '' ? '' : `,"reason":"${change.reason}"`
  const size = change.size === undefined ? '' : `"size":${change.size},`
  const pending = change.pending === undefined ? '' : `"pendingSize":${change.pending},`
  return (
    `{"type":"order","sub":"${sub}","orderHash":"${change.orderHash}","marketId":"${change.marketId}",` +
    `"side":${change.side},"outcome":${change.outcome},"price":${change.price},${size}` +
    `"status":"${change.status}"${reason},"remainingSize":${change.remaining},${pending}${tagFields(change.tags)}"seq":${change.seq},` +
    `"cursor":"${cursor}","prevCursor":"${prevCursor}","ts":${change.atMs}}`
  )
}

/**
 * Writes the message for a market's close. The message reports that all open orders of the trader in the market have
 * ended.
 */
export function ordersEnded(
  sub: string,
  change: {
    readonly marketId: string
    readonly status: 'expired' | 'cancelled'
    readonly reason: string
    readonly seq: number
    readonly atMs: number
  },
  { cursor, prevCursor }: CursorStep,
): string {
  return (
    `{"type":"orders.ended","sub":"${sub}","marketId":"${change.marketId}",` +
    `"status":"${change.status}","reason":"${change.reason}","seq":${change.seq},` +
    `"cursor":"${cursor}","prevCursor":"${prevCursor}","ts":${change.atMs}}`
  )
}

/** `cursor` is the snapshot's position. `reset` is true if the client must replace its state with the snapshot. */
type Whereabouts = { readonly cursor: string; readonly reset: boolean }

export function ordersSnapshot(
  sub: string,
  trader: string,
  { orders, count }: OrdersPage,
  { cursor, reset, nowMs }: Whereabouts & { readonly nowMs: number },
): string {
  const entries = orders.map(
    (open) =>
      `{"orderHash":"${open.orderHash}","marketId":"${open.marketId}","side":${open.side},` +
      `"outcome":${open.outcome},"price":${open.price},"size":${open.size},` +
      `"status":"${open.remaining < open.size ? 'partially_filled' : 'accepted'}",` +
      `"remainingSize":${open.remaining},${tagFields(open)}"ts":${open.placedAtMs}}`,
  )
  const rest = orders.length < count ? orders.at(-1) : undefined
  return (
    `{"type":"orders.snapshot","sub":"${sub}","trader":"${trader}","cursor":"${cursor}",` +
    `"orders":[${entries.join(',')}],"count":${count},` +
    `"nextCursor":${rest === undefined ? 'null' : `"${orderCursor(rest)}"`},` +
    `"ts":${nowMs}${resetText(reset)}}`
  )
}

export type MarketChange = {
  readonly marketId: string
  readonly event: 'created' | CloseReason | ResolutionEventName
  readonly atMs: number
  /** Sequence number of the event in the market's log; undefined for a chain event. */
  readonly seq?: number
  /** Facts of a chain event; undefined for an event of the market's log. */
  readonly facts?: ResolutionFacts
}

export function market(
  sub: string,
  { marketId, event, seq, facts, atMs }: MarketChange,
  { cursor, prevCursor }: CursorStep,
): string {
  const number = seq === undefined ? '' : `"seq":${seq},`
  const resolution = facts === undefined ? '' : `"resolution":${JSON.stringify(facts)},`
  return (
    `{"type":"market","sub":"${sub}","marketId":"${marketId}","event":"${event}",` +
    `${number}${resolution}"cursor":"${cursor}","prevCursor":"${prevCursor}","ts":${atMs}}`
  )
}

export function marketSnapshot(
  sub: string,
  shown: ShownMarket,
  last: ResolutionUpdate | undefined,
  { cursor, reset }: Whereabouts,
): string {
  const state = last?.event === 'resolved' ? 'resolved' : (shown.closed ?? 'open')
  const resolution =
    last === undefined
      ? ''
      : `"resolution":${JSON.stringify({ event: last.event, ...last.facts, ts: last.atMs })},`
  return (
    `{"type":"market.snapshot","sub":"${sub}","marketId":"${shown.market.id}","state":"${state}",` +
    `"seq":${shown.seq},${resolution}"cursor":"${cursor}","ts":${shown.updatedAtMs}` +
    `${resetText(reset)}}`
  )
}

/**
 * Writes the snapshot of the channel of all markets. The snapshot lists no markets, because they would not fit into one
 * message. Clients read the markets by REST and follow the changes on this channel.
 */
export function marketsSnapshot(
  sub: string,
  count: number,
  { cursor, reset, nowMs }: Whereabouts & { readonly nowMs: number },
): string {
  return (
    `{"type":"market.snapshot","sub":"${sub}","count":${count},"cursor":"${cursor}",` +
    `"ts":${nowMs}${resetText(reset)}}`
  )
}

export function price(
  sub: string,
  { asset, price: value, priceUSD, timestamp, source }: StreamPrice,
  { cursor, prevCursor }: CursorStep,
): string {
  return (
    `{"type":"price","sub":"${sub}","asset":"${asset}","price":${value},"priceUSD":${priceUSD},` +
    `"timestamp":${timestamp},"source":${JSON.stringify(source)},` +
    `"cursor":"${cursor}","prevCursor":"${prevCursor}"}`
  )
}

export function quickMarket(
  sub: string,
  asset: string,
  { event, quickMarket: one, atMs }: QuickMarketEvent,
  { cursor, prevCursor }: CursorStep,
): string {
  return (
    `{"type":"quick-market","sub":"${sub}","asset":"${asset}","event":"${event}",` +
    `"quickMarket":${JSON.stringify(one)},"cursor":"${cursor}","prevCursor":"${prevCursor}",` +
    `"ts":${atMs}}`
  )
}
