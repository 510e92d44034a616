/**
 * Generates a long random history of one market: orders, resubmissions, cancels, passing time, and results of its
 * trades on the chain. Records the answers, so that a test can check the market against them.
 */

import type { OrderHash } from '#domain/ids.ts'
import { tradeId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { isTakerBuyer } from '#domain/match-trades.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import type { OrderAccepted, TradeReport } from '#protocol/market.ts'
import { buy, sell } from '../../support/orders.ts'
import type { Random } from '../../support/random.ts'
import { type given, START_SEC, signed } from './market-fixture.ts'

type Given = ReturnType<typeof given>
type Fill = { readonly report: Omit<TradeReport, 'status' | 'txHash' | 'fault' | 'reason'> }

export type Flow = {
  readonly placed: VerifiedOrder[]
  /** The first answer to each order that was accepted. */
  readonly firstAnswers: Map<OrderHash, OrderAccepted>
  /** Time in force of each accepted order that has one. */
  readonly manners: Map<OrderHash, TimeInForce>
  readonly trades: Fill[]
  /** Resubmissions and their answers. */
  readonly repeats: { orderHash: OrderHash; answer: unknown; open: boolean; reason: string }[]
  step(): void
}

const TRADERS = ['ann', 'bob', 'cat', 'dan', 'eve', 'fay']

/** `prefix` begins the names of the orders, so that several flows in one database have different orders. */
export function randomFlow(market: Given, random: Random, prefix = 'o'): Flow {
  const byHash = new Map<OrderHash, VerifiedOrder>()
  const ended = new Map<OrderHash, string>()
  let seconds = 0
  let count = 0
  let read = 0

  function newOrder(): VerifiedOrder {
    const side = random.chance(0.5) ? buy : sell
    // Prices are near the middle, and the sides overlap, so that about half of the orders cross.
    const price = 500_000 + random.int(-6, 6) * 1_000
    const lives = random.chance(0.2) ? random.int(60, 90) : random.int(60, 100_000)
    const order = signed(
      side(random.chance(0.5) ? 'YES' : 'NO')
        .exactly(random.int(1, 40) * 250_000)
        .by(random.pick(TRADERS))
        .until(START_SEC + seconds + lives)
        .named(`${prefix}${count++}`),
      market.marketId,
    )
    return { ...order, price: price as Price }
  }

  function newManner(): TimeInForce | undefined {
    return random.chance(0.25) ? random.pick(['POST_ONLY', 'IOC', 'FOK'] as const) : undefined
  }

  function place(order: VerifiedOrder, timeInForce: TimeInForce | undefined): unknown {
    const isNew = !flow.firstAnswers.has(order.orderHash)
    const answer = market.ask(
      'PlaceOrder',
      timeInForce === undefined ? { order } : { order, timeInForce },
    )
    if (!isRejection(answer) && isNew) {
      flow.firstAnswers.set(order.orderHash, answer)
      if (timeInForce !== undefined) flow.manners.set(order.orderHash, timeInForce)
    }
    return answer
  }

  function follow(events: readonly MarketEvent[]): void {
    for (const event of events) {
      if (event.type === 'OrderClosed') ended.set(event.orderHash, event.reason)
      if (event.type === 'OrderRested') ended.delete(event.orderHash)
      if (event.type !== 'OrdersMatched') continue
      for (const [index, fill] of event.fills.entries()) {
        const { makerHash, size } = fill
        const maker = byHash.get(makerHash)!
        const taker = event.taker
        const [bought, sold] = isTakerBuyer(taker, fill) ? [taker, maker] : [maker, taker]
        const id = tradeId(market.marketId, event.seq, index)
        flow.trades.push({ report: { tradeId: id, size: size as Shares, buy: bought, sell: sold } })
      }
    }
  }

  function repeat(): void {
    if (flow.placed.length === 0) return
    const order = random.pick(flow.placed)
    const { orderHash } = order
    const open = market.state.books[order.outcome].find(orderHash) !== undefined
    const isKnown = flow.firstAnswers.has(orderHash)
    // A resubmission gets the first answer, even if its options differ.
    const answer = place(order, newManner())
    // The resubmission itself may make the market expire the order.
    follow(market.events.slice(read))
    read = market.events.length
    if (!isKnown) return
    flow.repeats.push({ orderHash, answer, open, reason: ended.get(orderHash) ?? '' })
  }

  function report(): void {
    if (flow.trades.length === 0) return
    const { report: known } = random.pick(flow.trades)
    const status = random.pick(['submitted', 'confirmed', 'failed', 'reverted'] as const)
    const fault = random.pick(['buyer', 'seller', 'both', 'none'] as const)
    const txHash = `0x0${random.int(1, 3)}`
    const told: TradeReport = { ...known, status, fault, txHash, reason: 'whatever' }
    const { marketId } = market
    const answer = market.ask('ReportTrade', { marketId, report: told })
    if (isRejection(answer)) throw new Error(`a true report was refused: ${answer.rejected}`)
  }

  const flow: Flow = {
    placed: [],
    firstAnswers: new Map(),
    manners: new Map(),
    trades: [],
    repeats: [],
    step() {
      const { marketId } = market
      const chance = random.next()
      if (chance < 0.55) {
        const order = newOrder()
        byHash.set(order.orderHash, order)
        flow.placed.push(order)
        place(order, newManner())
      } else if (chance < 0.62) repeat()
      else if (chance < 0.8 && flow.placed.length > 0) {
        // Cancels one of the newest orders, because older ones have usually ended.
        const order = flow.placed.at(-random.int(1, Math.min(60, flow.placed.length)))!
        const { orderHash, side } = order
        market.ask('CancelOrder', { marketId, orderHash, side })
      } else if (chance < 0.81) {
        const [{ trader }] = [newOrder()]
        market.ask('CancelOrders', { marketId, trader })
      } else if (chance < 0.9) {
        seconds += random.int(0, 4)
        market.at(seconds)
        if (random.chance(0.5)) market.ask('Expire', { marketId })
      } else report()
      follow(market.events.slice(read))
      read = market.events.length
    },
  }
  return flow
}
