/**
 * The trades of a user across markets, page by page. They are ordered by time, `seq`, fill, and at
 * last by the number of their row, which every index ends with anyway: so the order is total, and no
 * page repeats or skips a trade, whatever happened in the same millisecond.
 */

import { type Address, type MarketId, tradeId } from '#domain/ids.ts'
import type { Shares } from '#domain/money.ts'
import type { Database } from '../engine/database.ts'
import { bytesOf, hexColumn, hexOfDigits } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'
import type { TradePlace, TradeRecord, TradeRowRead } from './trades.ts'

export type UserTrades = {
  readonly trades: readonly UserTradeRecord[]
  /** Where to go on; undefined at the end. */
  readonly next: TradePlace | undefined
}

/** What a user's list shows of a trade, and no more: every column that is read costs. */
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
  | 'txHash'
> & {
  /** The user's; of a trade with themselves `buyer`. */
  readonly role: Role
  readonly marketQuestion: string
  readonly contractAddress: Address
}

type Role = 'buyer' | 'seller'

type Placed = { readonly record: UserTradeRecord; readonly row: number }

const COLUMNS = `${hexColumn('t.market_id')} as market, t.seq, t.fill_index, t.outcome, t.price_e6,
  t.size_e6, t.cost_e6, t.status, t.matched_at_ms, ${hexColumn('t.tx_hash')} as tx, m.question as question,
  ${hexColumn('m.contract_address')} as contract`

type Row = Pick<
  TradeRowRead,
  'seq' | 'fill_index' | 'outcome' | 'price_e6' | 'size_e6' | 'cost_e6' | 'status' | 'matched_at_ms'
> & {
  readonly market: string
  readonly tx: string | null
  readonly place: number | string
  readonly question: string | null
  readonly contract: string | null
}

/** The trades of a user on a chain, the newest first; one with themselves is there once. */
export async function tradesOfUser(
  database: Database,
  filter: {
    readonly user: Address
    readonly chainId: number
    readonly limit: number
    readonly before?: TradePlace | undefined
  },
): Promise<UserTrades> {
  // One index serves buyers, the other sellers; each gives the newest of its kind.
  const [bought, sold] = await Promise.all([
    tradesOfSide(database, 'buyer', filter),
    tradesOfSide(database, 'seller', filter),
  ])
  const all = new Map<number, Placed>()
  for (const placed of [...sold, ...bought]) all.set(placed.row, placed)
  const page = [...all.values()].sort(newestFirst).slice(0, filter.limit)
  const last = page.at(-1)
  const next =
    last === undefined || page.length < filter.limit
      ? undefined
      : {
          atMs: last.record.matchedAtMs,
          seq: last.record.seq,
          fillIndex: last.record.fillIndex,
          row: last.row,
        }
  return { trades: page.map(({ record }) => record), next }
}

function newestFirst(a: Placed, b: Placed): number {
  return (
    b.record.matchedAtMs - a.record.matchedAtMs ||
    b.record.seq - a.record.seq ||
    b.record.fillIndex - a.record.fillIndex ||
    b.row - a.row
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
    // The bound on the time alone is what the index serves; the rest skips one millisecond.
    earlier = `and t.matched_at_ms <= ? and (t.matched_at_ms < ? or t.seq < ? or (t.seq = ?
      and (t.fill_index < ? or (t.fill_index = ? and t.${row} < ?))))`
    values.push(atMs, atMs, seq, seq, fillIndex, fillIndex, before.row)
  }
  values.push(limit)
  const rows = await rowsOf<Row>(
    database,
    `select ${COLUMNS}, t.${row} as place
      from trades as t left join markets as m on m.market_id = t.market_id
      where t.${side} = ? and t.chain_id = ? ${earlier}
      order by t.matched_at_ms desc, t.seq desc, t.fill_index desc, t.${row} desc limit ?`,
    values,
  )
  return rows.map((each) => placed(each, side))
}

function placed(row: Row, role: Role): Placed {
  const marketId = hexOfDigits(row.market) as MarketId
  const seq = Number(row.seq)
  const record: UserTradeRecord = {
    tradeId: tradeId(marketId, seq, row.fill_index),
    ...{ marketId, seq, fillIndex: row.fill_index, role },
    outcome: row.outcome,
    price: row.price_e6,
    size: Number(row.size_e6) as Shares,
    cost: Number(row.cost_e6),
    status: row.status,
    matchedAtMs: Number(row.matched_at_ms),
    txHash: hexOfDigits(row.tx),
    marketQuestion: row.question ?? '',
    contractAddress: `0x${row.contract ?? ''}` as Address,
  }
  return { row: Number(row.place), record }
}
