/** Parses the price and size of an order ticket, and estimates the order's fills in the current book. */

import { computed, type ReadonlySignal, type Signal, untracked } from '@preact/signals'
import { costCeil, type Price, type Shares } from '#domain/money.ts'
import {
  costAtMost,
  type Fill,
  sharesFor,
  sharesFromBook,
  simulateFill,
} from './fill-simulation.ts'
import type { MarketModel } from './market-model.ts'
import { worstPrice } from './ticket-price.ts'
import { meantCents, type Read, readCents, readShares } from './ticket-text.ts'

export type TicketSide = 'buy' | 'sell'
/** A market order matches the current book within a slippage limit. Its unmatched part is cancelled. */
export type TicketKind = 'market' | 'limit'

/** Estimate for the order in the ticket. */
export type Estimate = {
  readonly price: number
  readonly size: number
  readonly fill: Fill
  /** Maximum cost for a buyer. For a seller, the proceeds from the part that fills on arrival. */
  readonly cost: bigint
  /** Payout of the shares if they win. */
  readonly payout: bigint
}

type TicketFields = {
  readonly kind: Signal<TicketKind>
  readonly side: Signal<TicketSide>
  readonly slippage: Signal<number>
  readonly price: Signal<string>
  readonly size: Signal<string>
  readonly best: ReadonlySignal<{ readonly bid: number; readonly ask: number }>
  /** Counter that increases after changes of the book. Each increase causes a new estimate. */
  readonly pulse: Signal<number>
}

export function makeTicketEstimate(model: MarketModel, fields: TicketFields) {
  const { kind, side, slippage, price, size, best, pulse } = fields

  const worst = computed(() => worstPrice(side.value, best.value, slippage.value))
  /**
   * Price of the order. A limit order has the price that the user typed. A market order has the worst price that it
   * accepts.
   */
  const priceRead = computed<Read>(() => {
    if (kind.value === 'limit') return readCents(price.value)
    if (worst.value !== undefined) return { value: worst.value }
    const [doing, same] = side.value === 'buy' ? ['sells', 'buys'] : ['buys', 'sells']
    const other = model.outcome.value === 'YES' ? 'NO' : 'YES'
    const or = model.isComplementary.value ? ` or ${same} ${other}` : ''
    const who = `No trader ${doing} ${model.outcome.value}${or} now.`
    return { error: `${who} Place a limit order instead.` }
  })
  const meantPrice = computed(() => (kind.value === 'limit' ? meantCents(price.value) : undefined))
  const sizeRead = computed(() => readShares(size.value))

  const fault = computed(() => {
    const [one, other] = [priceRead.value, sizeRead.value]
    if ('error' in one) return one.error
    return 'error' in other ? other.error : undefined
  })

  const estimate = computed<Estimate | undefined>(() => {
    const [one, other] = [priceRead.value, sizeRead.value]
    if (!('value' in one && 'value' in other)) return undefined
    void pulse.value
    const meeting = { side: side.value, price: one.value, size: other.value }
    const levels = untracked(() => model.levels(side.value === 'buy' ? 'asks' : 'bids'))
    const fill = simulateFill(meeting, levels)
    const most = kind.value === 'market' ? costOf(meeting) : costAtMost(meeting, fill)
    const cost = side.value === 'buy' ? most : fill.cost
    return { price: one.value, size: other.value, fill, cost, payout: BigInt(other.value) }
  })

  const met = () => model.levels(side.peek() === 'buy' ? 'asks' : 'bids')

  function sharesOf(money: bigint, at: number): number {
    if (kind.peek() === 'limit') return sharesFor(money, at)
    return sharesFromBook({ side: side.peek(), price: at, amount: money }, met())
  }

  function amountOf(shares: number, at: number): number {
    const meeting = { side: side.peek(), price: at, size: shares }
    if (kind.peek() === 'limit') return Number(costOf(meeting))
    return Number(simulateFill(meeting, met()).cost)
  }

  return { priceRead, meantPrice, fault, estimate, sharesOf, amountOf }
}

/** Returns the cost of the whole order at the order's own price. */
function costOf({ price, size }: { readonly price: number; readonly size: number }): bigint {
  return BigInt(costCeil(price as Price, size as Shares))
}
