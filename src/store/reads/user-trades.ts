/**
 * The trades of a user across markets, page by page. They are ordered by time, `seq`, fill, and at
 * last by the number of their row, which every index ends with anyway: so the order is total, and no
 * page repeats or skips a trade, whatever happened in the same millisecond.
 */

import type { Address } from '#domain/ids.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { type TradePlace, type TradeRecord, type TradeRowRead, tradeOfRow } from './trades.ts'

export type UserTrades = {
  readonly trades: readonly (TradeRecord & MarketContext)[]
  /** Where to go on; undefined at the end. */
  readonly next: TradePlace | undefined
}

type MarketContext = { readonly marketQuestion: string; readonly contractAddress: Address }

type Placed = { readonly record: TradeRecord & MarketContext; readonly row: number }

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
  for (const placed of [...bought, ...sold]) all.set(placed.row, placed)
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
  side: 'buyer' | 'seller',
  filter: Parameters<typeof tradesOfUser>[1],
): Promise<Placed[]> {
  const { user, chainId, limit, before } = filter
  const row = database.address.dialect === 'sqlite' ? 'rowid' : 'row_no'
  const values: (number | Buffer)[] = [Buffer.from(user.slice(2), 'hex'), chainId]
  let earlier = ''
  if (before !== undefined) {
    const { atMs, seq, fillIndex } = before
    // The bound on the time alone is what the index serves; the rest skips one millisecond.
    earlier = `and t.matched_at_ms <= ? and (t.matched_at_ms < ? or t.seq < ? or (t.seq = ?
      and (t.fill_index < ? or (t.fill_index = ? and t.${row} < ?))))`
    values.push(atMs, atMs, seq, seq, fillIndex, fillIndex, before.row)
  }
  values.push(limit)
  type Raw = TradeRowRead & {
    place: number | string
    question: string
    contract: Buffer
  }
  return read(database, async () => {
    const rows = await sqlConnection(database).execute<Raw[]>(
      `select t.*, t.${row} as place, m.question as question, m.contract_address as contract
        from trades as t left join markets as m on m.market_id = t.market_id
        where t.${side} = ? and t.chain_id = ? ${earlier}
        order by t.matched_at_ms desc, t.seq desc, t.fill_index desc, t.${row} desc limit ?`,
      values,
      'all',
    )
    return rows.map((raw) => ({
      row: Number(raw.place),
      record: {
        ...tradeOfRow(raw),
        marketQuestion: raw.question ?? '',
        contractAddress: `0x${raw.contract?.toString('hex') ?? ''}` as Address,
      },
    }))
  })
}
