/**
 * The text that the journal stores with a settlement transaction. It lists the trades, and the extra gas that traders
 * may have caused in addition to the gas of their fills.
 */

import type { Address, TradeId } from './ids.ts'

/** Maximum extra gas per trader. Only permits of orders and the code of a contract account cause extra gas. */
export type ExtraGas = Readonly<Record<Address, number>>

type SettlementReference = {
  readonly tradeIds: readonly TradeId[]
  readonly extraGas: ExtraGas
}

export function writeReference({ tradeIds, extraGas }: SettlementReference): string {
  return JSON.stringify(
    Object.keys(extraGas).length === 0 ? tradeIds : { trades: tradeIds, extraGas },
  )
}

export function readReference(text: string): SettlementReference {
  const read = JSON.parse(text) as TradeId[] | { trades: TradeId[]; extraGas: ExtraGas }
  return Array.isArray(read)
    ? { tradeIds: read, extraGas: {} }
    : { tradeIds: read.trades, extraGas: read.extraGas }
}
