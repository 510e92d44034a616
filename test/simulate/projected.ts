/** Compares the database with the log, after the projection has caught up. */

import type { Tables } from './database.ts'
import type { Oracle } from './oracle.ts'

type TradeRow = { market_id: Buffer; seq: number; fill_index: number; status: string }
type OrderRow = { order_hash: Buffer; status: string; remaining_e6: number }

/** Returns the first difference between the database and the log; undefined if there is none. */
export function projectionFlaw({ file }: Tables, oracle: Oracle): string | undefined {
  const trades = file
    .prepare<[], TradeRow>('select market_id, seq, fill_index, status from trades')
    .all()
  const known = oracle.allTrades()
  if (trades.length !== known.length) {
    return `${trades.length} trades, not ${known.length}`
  }
  for (const { market_id, seq, fill_index, status } of trades) {
    const id = `0x${market_id.toString('hex')}-${seq}-${fill_index}`
    const expected = oracle.tradeOf(id)?.status
    if (status !== expected) return `${id} is ${status}, not ${expected}`
  }
  const orders = file
    .prepare<[], OrderRow>('select order_hash, status, remaining_e6 from orders')
    .all()
  const stored = new Map(orders.map((row) => [`0x${row.order_hash.toString('hex')}`, row]))
  for (const { orders: all } of oracle.markets.values()) {
    for (const [orderHash, { ended }] of all) {
      const row = stored.get(orderHash)
      const isOpen = row?.status === 'open'
      if (row === undefined || isOpen !== (ended === undefined)) {
        return `${orderHash} is ${row?.status}, not ${ended ?? 'open'}`
      }
    }
  }
  return undefined
}
