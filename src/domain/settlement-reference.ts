/**
 * Reference of a settlement transaction in the journal: its trades, and the extra gas that traders may have caused
 * beyond the gas of their fills.
 */

import type { Address, TradeId } from './ids.ts'

/** Maximum extra gas of each trader whose orders have permits or whose account has code. */
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
