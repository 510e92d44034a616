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

import { type ChainFunds, type FundsToken, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { costCeil, type Shares } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import type { ComingBack, InLine, NextInLine } from '../trader-standing.ts'
import type { SettlementState } from './state.ts'

/** How many orders left; and why not all that had to, if so. */
export type ClearedLine = { readonly orders: number; readonly why?: string }

type Failing = { readonly trade: TradeToSettle; readonly fault: 'buyer' | 'seller' }
type Leaving = { readonly marketId: MarketId; readonly trader: Address }

/** Lines that are asked for at once, traders that are looked at, and withdrawals that are under way together. */
const LINES_MAX = 8
const LOOKED_MAX = 300
const WITHDRAWALS_MAX = 25
/** Trades of strangers wait for this; who has not left by then stays. */
const CLEARED_WITHIN_MS = 2_000

/** Where it cannot be found out, what comes back meets whoever is there. */
export async function clearLine(
  state: SettlementState,
  failing: readonly Failing[],
): Promise<ClearedLine> {
  const lines = linesOf(failing)
  if (lines.length === 0) return { orders: 0 }
  const untilMs = performance.now() + CLEARED_WITHIN_MS
  const { ports } = state
  const asked = await Promise.allSettled(lines.map((line) => ports.nextInLine(line)))
  const whys = asked.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
  const found = asked.map((each) => (each.status === 'fulfilled' ? each.value : NOBODY))
  const isStranger = strangersOf(state)
  let orders = 0
  try {
    const funds = await fundsOf(state, lines, found, isStranger)
    const gone = new Set(failing.map(({ trade, fault }) => trade[fault]))
    const leaving = lines.flatMap((line, at) => unable(line, found[at]!, funds, gone))
    while (leaving.length > 0 && performance.now() < untilMs) {
      const left = await Promise.allSettled(
        leaving
          .splice(0, WITHDRAWALS_MAX)
          .map(({ marketId, trader }) => ports.withdraw(marketId, trader)),
      )
      for (const each of left) {
        if (each.status === 'fulfilled') orders += each.value
        else whys.push(each.reason)
      }
    }
    if (leaving.length > 0) whys.push(`${leaving.length} traders could not be withdrawn in time`)
  } catch (error) {
    whys.push(error)
  }
  if (whys.length === 0) return { orders }
  const [why] = whys
  return { orders, why: why instanceof Error ? why.message : String(why) }
}

const NOBODY: NextInLine = { size: 0, line: [] }

/** Who has settled a trade is believed; who has one under way may be owed what he lacks. */
function strangersOf({ standing, held }: SettlementState): (each: InLine) => boolean {
  const busy = new Set<Address>()
  for (const { trade } of held.values()) busy.add(trade.buyer).add(trade.seller)
  return ({ trader, isPending }) => !isPending && !standing.has(trader) && !busy.has(trader)
}

/** What the first strangers of these lines have. */
async function fundsOf(
  { ports }: SettlementState,
  lines: readonly ComingBack[],
  found: readonly NextInLine[],
  isStranger: (each: InLine) => boolean,
): Promise<ReadonlyMap<Address, ChainFunds>> {
  const asked = new Map<Address, Set<FundsToken>>()
  for (const [at, line] of lines.entries()) {
    for (const each of found[at]!.line) {
      if (!isStranger(each)) continue
      const tokens = asked.get(each.trader) ?? new Set()
      if (tokens.size === 0 && asked.size === LOOKED_MAX) break
      asked.set(each.trader, tokens.add(tokenOf(line)))
    }
  }
  const questions = [...asked].map(([owner, tokens]) => ({ owner, tokens: [...tokens] }))
  const answers = questions.length === 0 ? [] : await ports.lane.lookAtOwners(questions)
  return new Map(answers.map((funds) => [funds.owner, funds]))
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
