/**
 * What a failed trade gives back meets the next order in line at once. If its trader has nothing either, the
 * quantity is away again until that trade has failed too: a hundred empty wallets keep a book empty for as long as
 * a hundred failures take. So before the markets hear of trades that strangers could not pay for, the other
 * strangers who would meet what comes back are looked at, by one question. Who could not pay for what he would get
 * leaves the market as if he had been met, and pauses like one who was.
 *
 *   a sell of 5 at 0.51, taken by Ann, who has nothing        what comes back: 5
 *   in line: Bob buys 45 at 0.53 and has nothing              would be met, cannot pay: leaves
 *            Cid buys 3 at 0.53 and has 100                   would be met with 3, can pay
 *            Dan buys 9 at 0.52 and has 1.10                  would be met with 2 for 1.04, can pay
 *            Eve buys 9 at 0.52 and has nothing               nothing is left for her: stays
 */

import {
  type ChainFunds,
  type FundsQuestion,
  type FundsToken,
  outcomeToken,
  STABLECOIN,
} from '#domain/funds.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { costCeil, type Shares } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import type { ComingBack, InLine, NextInLine } from '#protocol/market-host.ts'
import type { LinePlan, SettlementState } from './state.ts'

/** Lines that are asked for at once, and traders that are looked at. */
const LINES_MAX = 8
const LOOKED_MAX = 300

type Failing = { readonly trade: TradeToSettle; readonly fault: 'buyer' | 'seller' }

export type Leaving = { readonly marketId: MarketId; readonly trader: Address }

/** Undefined when nobody can be in line. */
export function planOf(state: SettlementState, failing: readonly Failing[]): LinePlan | undefined {
  const lines = linesOf(failing)
  if (lines.length === 0) return undefined
  const { standing, held } = state
  const busy = new Set<Address>()
  for (const { trade } of held.values()) busy.add(trade.buyer).add(trade.seller)
  return {
    lines,
    gone: new Set(failing.map(({ trade, fault }) => trade[fault])),
    // Who has settled a trade is believed; who has one under way may be owed what he lacks.
    isStranger: ({ trader, isPending }) => !isPending && !standing.has(trader) && !busy.has(trader),
  }
}

/** What is asked of the chain about the first strangers of the lines that were found. */
export function questionsOf(
  { lines, isStranger }: LinePlan,
  found: readonly NextInLine[],
): FundsQuestion[] {
  const asked = new Map<Address, Set<FundsToken>>()
  for (const [at, line] of lines.entries()) {
    for (const each of found[at]?.line ?? []) {
      if (!isStranger(each)) continue
      const tokens = asked.get(each.trader) ?? new Set()
      if (tokens.size === 0 && asked.size === LOOKED_MAX) break
      asked.set(each.trader, tokens.add(tokenOf(line)))
    }
  }
  return [...asked].map(([owner, tokens]) => ({ owner, tokens: [...tokens] }))
}

/** Who has to leave which market. */
export function leavingOf(
  { lines, gone }: LinePlan,
  found: readonly NextInLine[],
  funds: readonly ChainFunds[],
): Leaving[] {
  const known = new Map(funds.map((each) => [each.owner, each]))
  return lines.flatMap((line, at) => {
    const answer = found[at]
    return answer === undefined ? [] : unable(line, answer, known, gone)
  })
}

/**
 * Those who would be met and could not pay; of whom nothing is known, it is believed that he can. Those who are at
 * fault leave with their trades.
 */
function unable(
  line: ComingBack,
  found: NextInLine,
  funds: ReadonlyMap<Address, ChainFunds>,
  gone: ReadonlySet<Address>,
): Leaving[] {
  const leaving = new Set<Address>()
  let left = found.size
  for (const each of found.line) {
    if (left <= 0) break
    if (gone.has(each.trader) || leaving.has(each.trader)) continue
    const met = Math.min(each.remaining, left) as Shares
    if (lacks(funds.get(each.trader), line, each, met)) leaving.add(each.trader)
    else left -= met
  }
  return [...leaving].map((trader) => ({ marketId: line.marketId, trader }))
}

/** Of a buyer the allowance does not tell: his order may bring a permit. */
function lacks(
  funds: ChainFunds | undefined,
  line: ComingBack,
  { price }: InLine,
  size: Shares,
): boolean {
  if (funds === undefined) return false
  if (line.side === BUY) return funds.balance < BigInt(costCeil(price, size))
  const has = funds.tokens.get(tokenOf(line)) ?? 0n
  return has < BigInt(size) || !funds.isApproved
}

function tokenOf({ side, marketId, outcome }: ComingBack): FundsToken {
  return side === BUY ? STABLECOIN : outcomeToken(marketId, outcome)
}

/** What the trades take back with them, by the side of a book that waits for it. */
function linesOf(failing: readonly Failing[]): readonly ComingBack[] {
  const lines = new Map<string, ComingBack & { orders: ComingBack['orders'][number][] }>()
  for (const { trade, fault } of failing) {
    const { marketId, outcome } = trade
    const side = fault === 'buyer' ? BUY : SELL
    const key = `${marketId} ${outcome} ${side}`
    const line = lines.get(key) ?? { marketId, outcome, side, orders: [] }
    if (line.orders.length === 0 && lines.size === LINES_MAX) continue
    lines.set(key, line)
    const { orderHash, price, expiration } = fault === 'buyer' ? trade.sell : trade.buy
    line.orders.push({ orderHash, price, expiration, size: trade.size })
  }
  return [...lines.values()]
}
