/** The order ticket: side, outcome, price and size of an order, and an estimate of its fills. */

import { useId } from 'preact/hooks'
import { ONE } from '#domain/money.ts'
import type { NamedTimeInForce } from '#domain/time-in-force.ts'
import { cents, NOTHING } from '../format.ts'
import type { MarketModel } from './market-model.ts'
import type { TicketKind } from './ticket-estimate.ts'
import { PriceField, SizeFields, SlippageField } from './ticket-fields.tsx'
import { TicketFigures } from './ticket-figures.tsx'
import type { TicketModel } from './ticket-model.ts'
import { TicketSend } from './ticket-send.tsx'
import type { Submitting } from './ticket-submit.ts'

type Props = {
  readonly model: MarketModel
  readonly ticket: TicketModel
  readonly submitting: Submitting
}

export function Ticket({ model, ticket, submitting }: Props) {
  return (
    <section class="panel ticket" aria-label="Ticket">
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          void submitting.submit()
        }}
      >
        <KindSwitch ticket={ticket} />
        <SideSwitch ticket={ticket} />
        <OutcomeChoice model={model} ticket={ticket} />
        {ticket.kind.value === 'limit' ? <PriceField ticket={ticket} /> : null}
        <SizeFields model={model} ticket={ticket} />
        {ticket.kind.value === 'limit' ? (
          <Options ticket={ticket} />
        ) : (
          <SlippageField ticket={ticket} />
        )}
        <TicketFigures model={model} ticket={ticket} />
        <TicketSend model={model} ticket={ticket} submitting={submitting} />
      </form>
    </section>
  )
}

const KINDS: Readonly<Record<TicketKind, string>> = { market: 'Market', limit: 'Limit' }

/**
 * Switches between market order and limit order. A market order trades immediately at the prices of the book. A limit
 * order can wait in the book at its own price.
 */
function KindSwitch({ ticket }: { readonly ticket: TicketModel }) {
  return (
    <fieldset class="ticket-kinds">
      <legend class="hidden-text">Kind of order</legend>
      {(['market', 'limit'] as const).map((one) => (
        <button
          key={one}
          type="button"
          class="plain ticket-kind"
          aria-pressed={ticket.kind.value === one}
          onClick={() => {
            ticket.kind.value = one
          }}
        >
          {KINDS[one]}
        </button>
      ))}
    </fieldset>
  )
}

function SideSwitch({ ticket }: { readonly ticket: TicketModel }) {
  return (
    <fieldset class="ticket-sides">
      <legend class="hidden-text">Side</legend>
      {(['buy', 'sell'] as const).map((one) => (
        <button
          key={one}
          type="button"
          class={`ticket-side ticket-${one}`}
          aria-pressed={ticket.side.value === one}
          onClick={() => ticket.choose(one)}
        >
          {one === 'buy' ? 'Buy' : 'Sell'}
        </button>
      ))}
    </fieldset>
  )
}

/** Shows each outcome with the best price at which the trader can buy or sell it now. */
function OutcomeChoice({ model, ticket }: Omit<Props, 'submitting'>) {
  const line = model.market.value
  const frame = model.book.value
  const isBuy = ticket.side.value === 'buy'
  const priceOf = (one: 'YES' | 'NO') => {
    const listed = isBuy ? line?.bestAskPrices : line?.bestBidPrices
    if (frame === undefined) return listed?.[one === 'YES' ? 0 : 1] ?? 0
    const [same, other] = isBuy ? [frame.asks, frame.bids] : [frame.bids, frame.asks]
    if (model.outcome.value === one) return same[0]?.price ?? 0
    if (!model.isComplementary.value) return listed?.[one === 'YES' ? 0 : 1] ?? 0
    // In a complementary market, an ask for one outcome at p appears in the other outcome's book as a bid at one dollar
    // minus p.
    return other[0] === undefined ? 0 : ONE - other[0].price
  }
  return (
    <fieldset class="ticket-outcomes">
      <legend class="hidden-text">Outcome</legend>
      {(['YES', 'NO'] as const).map((one) => (
        <button
          key={one}
          type="button"
          class={`ticket-outcome ${one === 'YES' ? 'switch-yes' : 'switch-no'}`}
          aria-pressed={model.outcome.value === one}
          onClick={() => {
            model.outcome.value = one
          }}
        >
          {one} <span class="num">{priceOf(one) === 0 ? NOTHING : cents(priceOf(one))}</span>
        </button>
      ))}
    </fieldset>
  )
}

const TIMES: Readonly<Record<NamedTimeInForce, string>> = {
  GTC: 'Until cancelled',
  IOC: 'Fill immediately, cancel the rest (IOC)',
  FOK: 'Fill completely and immediately, or not at all (FOK)',
}

function Options({ ticket }: { readonly ticket: TicketModel }) {
  const id = useId()
  return (
    <div class="ticket-options">
      <label for={id} class="hidden-text">
        How long
      </label>
      <select
        id={id}
        value={ticket.timeInForce.value}
        onChange={(event) => {
          ticket.timeInForce.value = event.currentTarget.value as NamedTimeInForce
          if (ticket.timeInForce.value !== 'GTC') ticket.postOnly.value = false
        }}
      >
        {Object.entries(TIMES).map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
      <label class="check" title="The order is rejected if it would trade immediately">
        <input
          type="checkbox"
          checked={ticket.postOnly.value}
          disabled={ticket.timeInForce.value !== 'GTC'}
          onChange={(event) => {
            ticket.postOnly.value = event.currentTarget.checked
          }}
        />
        Post only
      </label>
    </div>
  )
}
