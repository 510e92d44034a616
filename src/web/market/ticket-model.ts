/** What stands in the ticket, and what it comes to against the book of the moment. */

import { computed, effect, type Signal, signal, untracked } from '@preact/signals'
import { costCeil, ONE, type Price, type Shares } from '#domain/money.ts'
import {
  costAtMost,
  type Fill,
  sharesFor,
  sharesFromBook,
  simulateFill,
} from './fill-simulation.ts'
import { bestOf, type MarketModel } from './market-model.ts'
import { firstPrice, midOf, stepped, worstPrice } from './ticket-price.ts'
import {
  centsText,
  meantCents,
  plainText,
  type Read,
  readCents,
  readDollars,
  readShares,
} from './ticket-text.ts'

type TicketSide = 'buy' | 'sell'
/** A market order takes what is offered now, within a slippage limit; the rest of it is cancelled. */
export type TicketKind = 'market' | 'limit'
export type TimeInForce = 'GTC' | 'IOC' | 'FOK'

/** What the ticket comes to; undefined while it says nothing. */
export type Estimate = {
  readonly price: number
  readonly size: number
  readonly fill: Fill
  /** The most that a buyer can pay, or a seller's proceeds from the part that fills at once. */
  readonly cost: bigint
  /** What the shares pay if they win. */
  readonly payout: bigint
}

export type TicketModel = {
  readonly kind: Signal<TicketKind>
  readonly side: Signal<TicketSide>
  /** How far a market order may go beyond the best price, in millionths. */
  readonly slippage: Signal<number>
  /** The price in cents that was probably meant by one below a cent. */
  readonly meantPrice: Signal<string | undefined>
  readonly price: Signal<string>
  readonly size: Signal<string>
  readonly amount: Signal<string>
  readonly postOnly: Signal<boolean>
  readonly timeInForce: Signal<TimeInForce>
  /** What is wrong with what was typed; undefined where nothing is. */
  readonly fault: Signal<string | undefined>
  readonly estimate: Signal<Estimate | undefined>
  choose(side: TicketSide): void
  /** The most shares that an amount can pay for, whatever the book does meanwhile. */
  affordable(amount: bigint): number | undefined
  typePrice(text: string): void
  typeSize(text: string): void
  typeAmount(text: string): void
  step(direction: 1 | -1): void
  /** Takes a price of the book. */
  take(level: { side: TicketSide; price: number; total: bigint }): void
  clear(): void
  start(): () => void
}

/** Two cents. */
const SLIPPAGE = 20_000
/** The estimate follows the book so often. */
const ESTIMATE_MS = 200

export function createTicket(model: MarketModel): TicketModel {
  const kind = signal<TicketKind>('market')
  const side = signal<TicketSide>('buy')
  const slippage = signal(SLIPPAGE)
  const price = signal('')
  const size = signal('')
  const amount = signal('')
  const postOnly = signal(false)
  const timeInForce = signal<TimeInForce>('GTC')
  const best = bestOf(model)
  /** Rises when the book has changed, a few times a second. */
  const pulse = signal(0)
  /** Which of size and amount was typed: the other one follows it. */
  let typed: 'size' | 'amount' = 'amount'
  let isPriceTyped = false

  const worst = computed(() => worstPrice(side.value, best.value, slippage.value))
  /** The price of the order: the typed one, or the worst that a market order accepts. */
  const priceRead = computed<Read>(() => {
    if (kind.value === 'limit') return readCents(price.value)
    if (worst.value !== undefined) return { value: worst.value }
    const doing = side.value === 'buy' ? 'sells' : 'buys'
    return { error: `No trader ${doing} ${model.outcome.value} now. Place a limit order instead.` }
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

  /** Keeps size and amount in step. */
  function relate(): void {
    const at = priceRead.peek()
    if (!('value' in at)) return
    if (typed === 'amount') {
      const money = readDollars(amount.value)
      if (!('value' in money)) {
        size.value = ''
        return
      }
      // Whole hundredths of a share: what is less buys nothing that anybody wants.
      const found = sharesOf(BigInt(money.value), at.value)
      const even = found - (found % (ONE / 100))
      size.value = even === 0 ? '' : plainText(even)
      return
    }
    const wanted = readShares(size.value)
    amount.value = 'value' in wanted ? plainText(amountOf(wanted.value, at.value)) : ''
  }

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

  function setPrice(text: string, byHand: boolean): void {
    isPriceTyped = byHand
    price.value = text
    relate()
  }

  function prefill(): void {
    isPriceTyped = false
    if (model.book.peek() === undefined) price.value = ''
    else setPrice(centsText(firstPrice(side.peek(), best.peek())), false)
  }

  return {
    kind,
    side,
    slippage,
    meantPrice,
    price,
    size,
    amount,
    postOnly,
    timeInForce,
    fault,
    estimate,
    choose(wanted) {
      side.value = wanted
      if (!isPriceTyped) prefill()
    },
    typePrice: (text) => setPrice(text, true),
    typeSize(text) {
      typed = 'size'
      size.value = text
      relate()
    },
    typeAmount(text) {
      typed = 'amount'
      amount.value = text
      relate()
    },
    step(direction) {
      const at = readCents(price.value)
      const from = 'value' in at ? at.value : firstPrice(side.value, best.value)
      setPrice(centsText(stepped(from, direction)), true)
    },
    affordable(money) {
      const at = priceRead.peek()
      return 'value' in at ? sharesFor(money, at.value) : undefined
    },
    take(level) {
      kind.value = 'limit'
      side.value = level.side
      setPrice(centsText(level.price), true)
      if (size.value !== '') return
      typed = 'size'
      size.value =
        level.total > BigInt(Number.MAX_SAFE_INTEGER) ? '' : plainText(Number(level.total))
      relate()
    },
    clear() {
      size.value = ''
      amount.value = ''
      prefill()
    },
    start() {
      let timer: ReturnType<typeof setTimeout> | undefined
      const stops = [
        effect(() => {
          // Another outcome has other prices.
          void model.outcome.value
          isPriceTyped = false
          price.value = ''
        }),
        effect(() => {
          // Until something is typed, the price stays at the mid.
          const isThere = midOf(best.value) !== undefined
          if (isThere && !isPriceTyped && size.peek() === '') untracked(prefill)
        }),
        effect(() => {
          if (model.book.value === undefined) return
          timer ??= setTimeout(() => {
            timer = undefined
            pulse.value++
            // The cost of a market order depends on the book.
            if (kind.peek() === 'market') relate()
          }, ESTIMATE_MS)
        }),
        effect(() => {
          void [kind.value, side.value, slippage.value]
          untracked(relate)
        }),
      ]
      return () => {
        clearTimeout(timer)
        for (const stop of stops) stop()
      }
    },
  }
}

/** What the whole order costs at its own price. */
function costOf({ price, size }: { readonly price: number; readonly size: number }): bigint {
  return BigInt(costCeil(price as Price, size as Shares))
}
