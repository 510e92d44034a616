/** State of the order ticket. When the user changes a field, the other fields are updated. */

import { batch, effect, type Signal, signal, untracked } from '@preact/signals'
import { ONE } from '#domain/money.ts'
import type { NamedTimeInForce } from '#domain/time-in-force.ts'
import type { TradeIntent } from '../state/router.ts'
import { sharesFor } from './fill-simulation.ts'
import { bestOf, heldShares, type MarketModel } from './market-model.ts'
import {
  type Estimate,
  makeTicketEstimate,
  type TicketKind,
  type TicketSide,
} from './ticket-estimate.ts'
import { firstPrice, midOf, stepped } from './ticket-price.ts'
import { centsText, plainText, readCents, readDollars, readShares } from './ticket-text.ts'

export type TicketModel = {
  readonly kind: Signal<TicketKind>
  readonly side: Signal<TicketSide>
  /** Maximum distance of a market order's fill prices from the best price, in millionths of a dollar. */
  readonly slippage: Signal<number>
  /** Price in cents that the trader probably meant, if the typed price is less than a cent. */
  readonly meantPrice: Signal<string | undefined>
  readonly price: Signal<string>
  readonly size: Signal<string>
  readonly amount: Signal<string>
  readonly postOnly: Signal<boolean>
  readonly timeInForce: Signal<NamedTimeInForce>
  /** Error in the typed text; undefined if there is none. */
  readonly fault: Signal<string | undefined>
  readonly estimate: Signal<Estimate | undefined>
  choose(side: TicketSide): void
  /**
   * Returns the number of shares that an amount can pay for at the order's own price. No fill has a worse price, so the
   * amount suffices even if the book changes.
   */
  affordable(amount: bigint): number | undefined
  typePrice(text: string): void
  typeSize(text: string): void
  typeAmount(text: string): void
  step(direction: 1 | -1): void
  /**
   * Prepares a market order with the side and outcome of the intent. For a sell, sets the size to all held shares as
   * soon as their number is known.
   */
  prepare(intent: TradeIntent): void
  /** Prepares a limit order at a price that the user chose in the book. */
  take(level: { side: TicketSide; price: number; total: bigint }): void
  clear(): void
  start(): () => void
}

/** Initial slippage limit: two cents. */
const SLIPPAGE = 20_000
/** Interval at which the estimate is computed again while the book changes. */
const ESTIMATE_MS = 200

export function createTicket(model: MarketModel): TicketModel {
  const kind = signal<TicketKind>('market')
  const side = signal<TicketSide>('buy')
  const slippage = signal(SLIPPAGE)
  const price = signal('')
  const size = signal('')
  const amount = signal('')
  const postOnly = signal(false)
  const timeInForce = signal<NamedTimeInForce>('GTC')
  const best = bestOf(model)
  /** Increases when the book has changed, but at most once per `ESTIMATE_MS`. */
  const pulse = signal(0)
  /** The field in which the user typed last: size or amount. The other field is computed from it. */
  let typed: 'size' | 'amount' = 'amount'
  let isPriceTyped = false

  const estimating = makeTicketEstimate(model, { kind, side, slippage, price, size, best, pulse })
  const { priceRead, meantPrice, fault, estimate, sharesOf, amountOf } = estimating

  /** Computes the field in which the user did not type: the amount from the size, or the size from the amount. */
  function relate(): void {
    const at = priceRead.peek()
    if (!('value' in at)) return
    if (typed === 'amount') {
      const money = readDollars(amount.value)
      if (!('value' in money)) {
        size.value = ''
        return
      }
      // Rounds down to hundredths of a share, because a trader has no use for smaller parts.
      const found = sharesOf(BigInt(money.value), at.value)
      const even = found - (found % (ONE / 100))
      size.value = even === 0 ? '' : plainText(even)
      return
    }
    const wanted = readShares(size.value)
    amount.value = 'value' in wanted ? plainText(amountOf(wanted.value, at.value)) : ''
  }

  /**
   * True if the ticket is to sell all held shares, but their number is not known yet. Once the position is read, their
   * number becomes the size.
   */
  let isAllSold = false
  function sellAll(): void {
    const held = heldShares(model)
    if (!isAllSold || held === undefined) return
    isAllSold = false
    typed = 'size'
    size.value = held > 0 ? plainText(held) : ''
    relate()
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

  /**
   * Starts to update the ticket when the market or a field of the ticket changes. Returns a function that
   * stops these updates.
   */
  function start(): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined
    const stops = [
      effect(() => {
        // The price is cleared when the user chooses another outcome, because the two outcomes have different prices.
        void model.outcome.value
        isPriceTyped = false
        price.value = ''
      }),
      effect(() => {
        // The price follows the mid until the trader types a price or a size.
        const isThere = midOf(best.value) !== undefined
        if (isThere && !isPriceTyped && size.peek() === '') untracked(prefill)
      }),
      effect(() => {
        if (model.book.value === undefined) return
        timer ??= setTimeout(() => {
          timer = undefined
          pulse.value++
          // The cost of a market order depends on the book, so it is computed again.
          if (kind.peek() === 'market') relate()
        }, ESTIMATE_MS)
      }),
      effect(() => {
        void [kind.value, side.value, slippage.value]
        untracked(relate)
      }),
      effect(() => {
        void model.position.value
        untracked(sellAll)
      }),
    ]
    return () => {
      clearTimeout(timer)
      for (const stop of stops) stop()
    }
  }

  return {
    ...{ kind, side, slippage, meantPrice, price, size, amount, postOnly, timeInForce },
    ...{ fault, estimate },
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
    prepare({ side: wanted, outcome }) {
      batch(() => {
        model.outcome.value = outcome
        kind.value = 'market'
        side.value = wanted
        typed = 'amount'
        size.value = ''
        amount.value = ''
      })
      isAllSold = wanted === 'sell'
      sellAll()
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
    start,
  }
}
