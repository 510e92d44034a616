/**
 * Computes the gas cost of settlement transactions, and charges it to traders by the rule of
 * `domain/trader-spending.ts`. The only inputs are the journal of transactions and the trades, so the sums are the same
 * after a restart.
 */

import type { Address, TradeId } from '#domain/ids.ts'
import { BUY } from '#domain/order.ts'
import { type ExtraGas, readReference } from '#domain/settlement-reference.ts'
import type { FaultySide } from '#domain/trade.ts'
import type { TraderSpending } from '#domain/trader-spending.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { tradeKey } from '../projection/columns.ts'

export type SettlementCharge = {
  readonly nonce: number
  /** True while the chain has not decided the transaction. While it is true, `charges` is empty. */
  readonly isOpen: boolean
  /** True while some trades of the transaction are still pending in the database. */
  readonly isUndecided: boolean
  readonly signedAtMs: number
  readonly finishedAtMs: number
  readonly charges: readonly TraderSpending[]
}

export type ChargesFilter = {
  readonly chainId: number
  readonly sender: Address
  /** Selects only transactions with nonces above `above` and below `below`. */
  readonly above: number
  readonly below: number
  readonly except: readonly number[]
  readonly limit: number
}

/**
 * If the chain refuses a trade, these sides pay for its gas. The key is the side at fault. The trade is stored with
 * this side, because the reason for the refusal does not reveal it. For example, either side of a mint may be at fault.
 */
const AT_FAULT: Readonly<Record<FaultySide, readonly ('buyer' | 'seller')[]>> = {
  buyer: ['buyer'],
  seller: ['seller'],
  both: ['buyer', 'seller'],
  none: [],
}

/**
 * Minimum gas in a full batch (see contracts/README.md). The three numbers are: gas per ordinary fill, gas per mint or
 * merge, and gas of the transaction without its fills.
 */
const FILL_GAS = 66_000
const SET_FILL_GAS = 145_000
const TRANSACTION_GAS = 60_000

type TransactionRead = {
  nonce: number | string
  state: string
  tx_hash: string | null
  gas_used: number | string | null
  reference: string
  signed_at_ms: number | string
  finished_at_ms: number | string | null
}

type TradeRead = {
  market_id: Uint8Array
  seq: number | string
  fill_index: number
  buyer: Uint8Array
  seller: Uint8Array
  taker_side: number
  status: string
  kind: string | null
  pending: number
  tx_hash: Uint8Array | null
  fault: FaultySide | null
  /** 1 if the same match has a fill after this one, otherwise 0. */
  more: number
}

/** Returns settlement transactions of a key, highest nonce first, with the gas that each trader is charged. */
export async function settlementCharges(
  database: Database,
  { chainId, sender, above, below, except, limit }: ChargesFilter,
): Promise<SettlementCharge[]> {
  const others = except.length === 0 ? '' : `and nonce not in (${except.map(() => '?')})`
  const rows = await read(database, () =>
    sqlConnection(database).execute<TransactionRead[]>(
      `select nonce, state, tx_hash, gas_used, reference, signed_at_ms, finished_at_ms from transactions
        where chain_id = ? and sender = ? and nonce > ? and nonce < ? and purpose = 'settlement' ${others}
        order by nonce desc limit ?`,
      [chainId, sender, above, below, ...except, limit],
      'all',
    ),
  )
  const found: SettlementCharge[] = []
  for (const row of rows) {
    const isOpen = row.state === 'open'
    const { tradeIds, extraGas } = readReference(row.reference)
    const trades = await tradesOf(database, isOpen ? [] : tradeIds)
    found.push({
      nonce: Number(row.nonce),
      isOpen,
      isUndecided: trades.some(({ pending }) => pending === 1),
      signedAtMs: Number(row.signed_at_ms),
      finishedAtMs: Number(row.finished_at_ms ?? 0),
      charges: chargesOf(trades, extraGas, row),
    })
  }
  return found
}

async function tradesOf(database: Database, tradeIds: readonly TradeId[]): Promise<TradeRead[]> {
  if (tradeIds.length === 0) return []
  const keys = tradeIds.map(tradeKey)
  return read(database, () =>
    sqlConnection(database).execute<TradeRead[]>(
      `select t.market_id, t.seq, t.fill_index, t.buyer, t.seller, t.taker_side, t.status, t.kind, t.pending, t.tx_hash,
          t.fault, exists (select 1 from trades n where n.market_id = t.market_id and n.seq = t.seq
            and n.fill_index = t.fill_index + 1) as more
        from trades t
        where ${keys.map(() => '(t.market_id = ? and t.seq = ? and t.fill_index = ?)').join(' or ')}`,
      keys.flatMap(({ marketId, sequence, fillIndex }) => [bytesOf(marketId), sequence, fillIndex]),
      'all',
    ),
  )
}

/**
 * Divides the gas of a transaction among traders. If the transaction used more than its minimum gas, the excess is
 * charged to the traders in `extraGas`. Their permits or the code of their accounts may have caused it. Each of them
 * pays at most the gas listed there. So an honest fill does not pay for gas that another account burns. The remaining
 * gas is divided among the fills in proportion to their minimum gas.
 *
 * If no account burns gas, the excess is small. So no other trader can use up the budgets of the traders in `extraGas`
 * by taking their orders in pieces.
 */
function chargesOf(
  trades: readonly TradeRead[],
  extraGas: ExtraGas,
  { gas_used, tx_hash }: TransactionRead,
): TraderSpending[] {
  const gasUsed = Number(gas_used ?? 0)
  if (trades.length === 0 || gasUsed === 0) return []
  const extra = Object.entries(extraGas) as [Address, number][]
  const extraMax = extra.reduce((sum, [, gas]) => sum + gas, 0)
  const least = trades.reduce((sum, trade) => sum + weightOf(trade), 0)
  const extraUsed = Math.max(0, Math.min(extraMax, gasUsed - least - TRANSACTION_GAS))
  const gasOf = (trade: TradeRead) => Math.ceil((weightOf(trade) * (gasUsed - extraUsed)) / least)
  const charges = new Map<Address, TraderSpending>()
  const failing = new Set<Address>()
  const charge = (
    trader: Address,
    gas: number,
    { fills = 0, isFailure = false }: { fills?: number; isFailure?: boolean },
  ): void => {
    const before = charges.get(trader) ?? { fills: 0, gas: 0, failedGas: 0 }
    charges.set(trader, {
      trader,
      fills: before.fills + fills,
      gas: before.gas + (isFailure ? 0 : gas),
      failedGas: before.failedGas + (isFailure ? gas : 0),
    })
  }
  for (const trade of trades) {
    const sides = { buyer: hexOf(trade.buyer) as Address, seller: hexOf(trade.seller) as Address }
    const isRefusal =
      trade.status === 'failed' && trade.tx_hash !== null && hexOf(trade.tx_hash) === tx_hash
    const atFault = isRefusal ? AT_FAULT[trade.fault ?? 'none'] : []
    for (const side of atFault) {
      failing.add(sides[side])
      charge(sides[side], gasOf(trade), { isFailure: true })
    }
    if (atFault.length > 0) continue
    const takerPays = Number(trade.more) === 0
    const isBuyer = (trade.taker_side === BUY) === takerPays
    const fills = trade.status === 'failed' ? 0 : 1
    charge(isBuyer ? sides.buyer : sides.seller, gasOf(trade), { fills })
  }
  for (const [trader, gas] of extra) {
    charge(trader, Math.ceil((gas * extraUsed) / extraMax), { isFailure: failing.has(trader) })
  }
  return [...charges.values()]
}

function weightOf({ kind }: TradeRead): number {
  return kind === null || kind === '' ? FILL_GAS : SET_FILL_GAS
}
