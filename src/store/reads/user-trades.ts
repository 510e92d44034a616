/**
 * Pages of a user's trades across markets, sorted by time, `seq`, fill and row number. No two trades have the same
 * place in this order, so no page repeats or skips a trade of the same millisecond. The database appends the row number
 * to every index, so no index needs a column for it.
 */

import { type Address, type MarketId, type OrderHash, tradeId } from '#domain/ids.ts'
import { complementOf, type Shares } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import type { EchoedTags } from '#domain/order-tags.ts'
import { buyerLeg, sellerLeg } from '#domain/trade-legs.ts'
import type { Database } from '../engine/database.ts'
import { bytesOf, hexColumn, hexOfDigits } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'
import { type MarketTexts, textsOfMarkets } from './market-texts.ts'
import { type TagsRow, tagsOf } from './order-tags.ts'
import type { TradePlace, TradeRecord, TradeRowRead } from './trades.ts'

type UserTrades = {
  readonly trades: readonly UserTradeRecord[]
  /** Start of the next page; undefined at the end. */
  readonly next: TradePlace | undefined
}

/** The fields that a user's list shows; no other fields are read, because each column costs time. */
type UserTradeRecord = Pick<
  TradeRecord,
  | 'tradeId'
  | 'marketId'
  | 'seq'
  | 'fillIndex'
  | 'outcome'
  | 'price'
  | 'size'
  | 'cost'
  | 'status'
  | 'matchedAtMs'
  | 'takerSide'
  | 'txHash'
  | 'kind'
> & {
  /**
   * The user's role: `buyer` in a mint, `seller` in a merge, and the user's side in an ordinary trade. In a trade of
   * the user with themselves, the role is `buyer`.
   */
  readonly role: Role
  /** The user's order, and its tags. */
  readonly orderHash: OrderHash
  readonly tags: EchoedTags
  readonly market: MarketTexts
}

type Role = 'buyer' | 'seller'

const COLUMNS = `${hexColumn('t.market_id')} as market, t.seq, t.fill_index, t.outcome, t.price_e6,
  t.size_e6, t.cost_e6, t.status, t.matched_at_ms, t.taker_side, t.kind, ${hexColumn('t.tx_hash')} as tx, g.label, g.order_group`

const ORDER_OF = { buyer: 't.buy_order_hash', seller: 't.sell_order_hash' } as const

type Row = Pick<
  TradeRowRead,
  | 'seq'
  | 'fill_index'
  | 'outcome'
  | 'price_e6'
  | 'size_e6'
  | 'cost_e6'
  | 'status'
  | 'matched_at_ms'
  | 'taker_side'
  | 'kind'
> &
  TagsRow & {
    readonly market: string
    readonly tx: string | null
    readonly order_hash: string
    readonly place: number | string
  }

/** A row whose numeric columns were converted to numbers, with the user's role in the trade. */
type Placed = Omit<Row, 'seq' | 'matched_at_ms' | 'place'> & {
  readonly seq: number
  readonly matched_at_ms: number
  readonly place: number
  readonly role: Role
}

/** Returns a user's trades on a chain, newest first. A trade with themselves is listed once. */
export async function tradesOfUser(
  database: Database,
  filter: {
    readonly user: Address
    readonly chainId: number
    readonly limit: number
    readonly before?: TradePlace | undefined
  },
): Promise<UserTrades> {
  // Reads the user's newest trades as buyer from one index, and the newest trades as seller from another.
  const [bought, sold] = await Promise.all([
    tradesOfSide(database, 'buyer', filter),
    tradesOfSide(database, 'seller', filter),
  ])
  const all = new Map<number, Placed>()
  for (const placed of [...sold, ...bought]) all.set(placed.place, placed)
  const page = [...all.values()].sort(newestFirst).slice(0, filter.limit)
  const texts = await textsOfMarkets(
    database,
    page.map(({ market }) => market),
  )
  const last = page.at(-1)
  const next =
    last === undefined || page.length < filter.limit
      ? undefined
      : {
          atMs: last.matched_at_ms,
          seq: last.seq,
          fillIndex: last.fill_index,
          row: last.place,
        }
  return { trades: page.map((row) => recordOf(row, texts(row.market))), next }
}

function newestFirst(a: Placed, b: Placed): number {
  return (
    b.matched_at_ms - a.matched_at_ms ||
    b.seq - a.seq ||
    b.fill_index - a.fill_index ||
    b.place - a.place
  )
}

async function tradesOfSide(
  database: Database,
  side: Role,
  filter: Parameters<typeof tradesOfUser>[1],
): Promise<Placed[]> {
  const { user, chainId, limit, before } = filter
  const row = database.address.dialect === 'sqlite' ? 'rowid' : 'row_no'
  const values: (number | Buffer)[] = [bytesOf(user), chainId]
  let earlier = ''
  if (before !== undefined) {
    const { atMs, seq, fillIndex } = before
    // The first condition, on the time only, uses an index. The other conditions skip rows of the same millisecond that
    // were on an earlier page.
    earlier = `and t.matched_at_ms <= ? and (t.matched_at_ms < ? or t.seq < ? or (t.seq = ?
      and (t.fill_index < ? or (t.fill_index = ? and t.${row} < ?))))`
    values.push(atMs, atMs, seq, seq, fillIndex, fillIndex, before.row)
  }
  values.push(limit)
  const rows = await rowsOf<Row>(
    database,
    `select ${COLUMNS}, ${hexColumn(ORDER_OF[side])} as order_hash, t.${row} as place
      from trades as t left join order_tags as g on g.order_hash = ${ORDER_OF[side]}
      where t.${side} = ? and t.chain_id = ? ${earlier}
      order by t.matched_at_ms desc, t.seq desc, t.fill_index desc, t.${row} desc limit ?`,
    values,
  )
  return rows.map((each) => ({
    ...each,
    seq: Number(each.seq),
    matched_at_ms: Number(each.matched_at_ms),
    place: Number(each.place),
    role: side,
  }))
}

function recordOf(row: Placed, market: MarketTexts): UserTradeRecord {
  const marketId = hexOfDigits(row.market) as MarketId
  const { seq, fill_index: fillIndex, role, matched_at_ms: matchedAtMs } = row
  const common = {
    tradeId: tradeId(marketId, seq, fillIndex),
    ...{ marketId, seq, fillIndex, matchedAtMs, market },
    size: Number(row.size_e6) as Shares,
    status: row.status,
    txHash: hexOfDigits(row.tx),
    orderHash: hexOfDigits(row.order_hash) as OrderHash,
    tags: tagsOf(row),
  }
  const { kind, outcome, price_e6: price } = row
  const cost = Number(row.cost_e6)
  if (kind === null) {
    return { ...common, role, outcome, price, cost, takerSide: row.taker_side }
  }
  // In a mint both traders buy, and in a merge both sell. So show the user the side, outcome and price of the user's
  // own order.
  const leg = role === 'buyer' ? buyerLeg({ kind, outcome }) : sellerLeg({ kind, outcome })
  const isMaker = leg.outcome === outcome
  return {
    ...{ ...common, kind, outcome: leg.outcome },
    role: leg.side === BUY ? 'buyer' : 'seller',
    price: isMaker ? price : complementOf(price),
    cost: isMaker ? cost : common.size - cost,
    // The side of the trade's taker: the user's own side if the user was the taker, otherwise the opposite.
    takerSide: (leg.side === BUY) === isMaker ? SELL : BUY,
  }
}
