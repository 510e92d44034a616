/**
 * What a failed trade gives back meets the next order in line at once. If its trader has nothing either, the
 * quantity is away again until that trade has failed too: a hundred empty wallets keep a book empty for as long as
 * a hundred failures take. So before the markets hear of trades that strangers could not pay for, the other
 * strangers in that line are looked at, by one question. Who could not pay for the least that comes back leaves the
 * market as if he had been met, and pauses like one who was.
 *
 *   sells 5 at 0.51, taken by Ann      Bob and Cid wait with buys of 45 at 0.53
 *   Ann has nothing                    the sell will be back: who would meet it?
 *   Bob has nothing, Cid has 100       Bob leaves, then Ann's trade fails, and Cid buys 5 at 0.53
 */

import type { Need } from '#chain/settlement-look.ts'
import type { RefusedTrade } from '#chain/settlement-trial.ts'
import { outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import { costCeil, type Price, type Shares } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import type { InLine, Line } from '../trader-standing.ts'
import type { SettlementState } from './state.ts'

/** How many orders left; and why it could not be found out who had to, if so. */
export type ClearedLine = { readonly orders: number; readonly why?: string }

/** A line, and the least of what comes back to it. */
type Awaited = Line & { readonly least: Shares }

/** Lines that one look asks for. */
const LINES_MAX = 20

/** Where this cannot be done, what comes back meets whoever is there. */
export async function clearLine(
  state: SettlementState,
  trades: readonly TradeToSettle[],
  refused: readonly RefusedTrade[],
): Promise<ClearedLine> {
  try {
    const cleared = linesOf(trades, refused).map((line) => clear(state, line, trades))
    const orders = await Promise.all(cleared)
    return { orders: orders.reduce((sum, each) => sum + each, 0) }
  } catch (error) {
    return { orders: 0, why: error instanceof Error ? error.message : String(error) }
  }
}

async function clear(
  { ports, standing, held }: SettlementState,
  { least, ...line }: Awaited,
  trades: readonly TradeToSettle[],
): Promise<number> {
  const traders = await ports.nextInLine(line)
  // Who has a trade under way may be owed what he lacks; it tells by itself.
  const busy = new Set<Address>()
  for (const { buyer, seller } of trades) busy.add(buyer).add(seller)
  for (const { trade } of held.values()) busy.add(trade.buyer).add(trade.seller)
  const strangers = traders.filter(({ trader }) => !standing.has(trader) && !busy.has(trader))
  const short = await ports.lane.lookAtOwners(
    strangers.map((stranger) => needOf(stranger, line, least)),
  )
  const left = await Promise.all(short.map((trader) => ports.withdraw(line.marketId, trader)))
  return left.reduce((sum, each) => sum + each, 0)
}

/** What he would need for the least that could meet him. */
function needOf(
  { trader, least: wanted }: InLine,
  { marketId, outcome, side, price }: Line,
  least: Shares,
): Need {
  const size = Math.min(wanted, least) as Shares
  return side === BUY
    ? { owner: trader, token: STABLECOIN, amount: BigInt(costCeil(price, size)) }
    : { owner: trader, token: outcomeToken(marketId, outcome), amount: BigInt(size) }
}

/** Behind which trades somebody may wait for what comes back of the other side. */
function linesOf(
  trades: readonly TradeToSettle[],
  refused: readonly RefusedTrade[],
): readonly Awaited[] {
  const byId = new Map(trades.map((trade) => [trade.tradeId, trade]))
  const lines = new Map<string, Awaited>()
  for (const { tradeId, fault } of refused) {
    const trade = byId.get(tradeId)
    if (trade === undefined || (fault !== 'buyer' && fault !== 'seller')) continue
    const { marketId, outcome, size, buy, sell } = trade
    const side = fault === 'buyer' ? BUY : SELL
    const price = (fault === 'buyer' ? sell : buy).price
    const key = `${marketId} ${outcome} ${side}`
    const line = lines.get(key)
    if (line === undefined && lines.size === LINES_MAX) continue
    lines.set(key, {
      ...{ marketId, outcome, side },
      price: line === undefined ? price : furthest(side, line.price, price),
      least: Math.min(size, line?.least ?? size) as Shares,
    })
  }
  return [...lines.values()]
}

/** Of two prices of what comes back, the one that more of the line would meet. */
function furthest(side: Line['side'], a: Price, b: Price): Price {
  return (side === BUY ? Math.min(a, b) : Math.max(a, b)) as Price
}
