/** The ticket: what to buy or sell, at which price, and what that would come to. */

import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { cents, money, NOTHING, shares } from '../format.ts'
import { account } from '../state/account.ts'
import { connection } from '../state/exchange.ts'
import { funds } from '../state/funds.ts'
import type { MarketModel } from './market-model.ts'
import { TicketFigures } from './ticket-figures.tsx'
import type { TicketModel, TimeInForce } from './ticket-model.ts'
import type { Stage, Submitting } from './ticket-submit.ts'
import { plainText } from './ticket-text.ts'

type Props = {
  readonly model: MarketModel
  readonly ticket: TicketModel
  readonly submitting: Submitting
}

const STAGES: Readonly<Record<Exclude<Stage, 'idle'>, string>> = {
  permission: 'Asking for permission …',
  signature: 'Sign the order in your wallet …',
  sending: 'Sending …',
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
        <SideSwitch ticket={ticket} />
        <OutcomeChoice model={model} ticket={ticket} />
        <PriceField ticket={ticket} />
        <SizeFields model={model} ticket={ticket} />
        <Options ticket={ticket} />
        <TicketFigures model={model} ticket={ticket} />
        <Send model={model} ticket={ticket} submitting={submitting} />
      </form>
    </section>
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

/** With the price at which each could be had at once. */
function OutcomeChoice({ model, ticket }: Omit<Props, 'submitting'>) {
  const line = model.market.value
  const frame = model.book.value
  const isBuy = ticket.side.value === 'buy'
  const priceOf = (one: 'YES' | 'NO') => {
    const listed = isBuy ? line?.bestAskPrices : line?.bestBidPrices
    const live = isBuy ? frame?.asks[0]?.price : frame?.bids[0]?.price
    return model.outcome.value === one && frame !== undefined
      ? (live ?? 0)
      : (listed?.[one === 'YES' ? 0 : 1] ?? 0)
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

function Field(props: {
  readonly label: string
  readonly unit: string
  readonly value: string
  readonly type: (text: string) => void
  readonly keys?: (event: KeyboardEvent) => void
  readonly children?: ComponentChildren
}) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <span class="field-box">
        <input
          id={id}
          class="num"
          inputMode="decimal"
          autocomplete="off"
          value={props.value}
          onInput={(event) => props.type(event.currentTarget.value)}
          onKeyDown={props.keys}
        />
        <span class="field-unit quiet">{props.unit}</span>
        {props.children}
      </span>
    </div>
  )
}

function PriceField({ ticket }: { readonly ticket: TicketModel }) {
  return (
    <Field
      label="Limit price"
      unit="¢"
      value={ticket.price.value}
      type={ticket.typePrice}
      keys={(event) => {
        if (event.key !== 'ArrowUp' && event.key !== 'ArrowDown') return
        event.preventDefault()
        ticket.step(event.key === 'ArrowUp' ? 1 : -1)
      }}
    >
      <button type="button" class="small" aria-label="Lower price" onClick={() => ticket.step(-1)}>
        −
      </button>
      <button type="button" class="small" aria-label="Higher price" onClick={() => ticket.step(1)}>
        +
      </button>
    </Field>
  )
}

function SizeFields({ model, ticket }: Omit<Props, 'submitting'>) {
  const isBuy = ticket.side.value === 'buy'
  const held = model.position.value
  const own = model.outcome.value === 'YES' ? held?.yesShares : held?.noShares
  const has = isBuy ? funds.value?.stablecoin : own
  const max = () => {
    if (has === undefined) return
    if (isBuy) ticket.typeAmount(plainText(Number(has)))
    else ticket.typeSize(plainText(Number(has)))
  }
  return (
    <>
      <div class="field-pair">
        <Field label="Shares" unit="" value={ticket.size.value} type={ticket.typeSize} />
        <Field
          label={isBuy ? 'Amount' : 'Proceeds'}
          unit="$"
          value={ticket.amount.value}
          type={ticket.typeAmount}
        />
      </div>
      {has === undefined ? null : (
        <div class="ticket-has quiet">
          <span class="num">
            {isBuy ? `You have ${money(has)}` : `You have ${shares(has)} shares`}
          </span>
          <button type="button" class="plain small" onClick={max} disabled={BigInt(has) === 0n}>
            Max
          </button>
        </div>
      )}
    </>
  )
}

const TIMES: Readonly<Record<TimeInForce, string>> = {
  GTC: 'Until cancelled',
  IOC: 'At once, cancel the rest (IOC)',
  FOK: 'At once and whole, or not at all (FOK)',
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
          ticket.timeInForce.value = event.currentTarget.value as TimeInForce
          if (ticket.timeInForce.value !== 'GTC') ticket.postOnly.value = false
        }}
      >
        {Object.entries(TIMES).map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
      <label class="check" title="The order is refused if it would trade at once">
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

function Send({ model, ticket, submitting }: Props) {
  const stage = submitting.stage.value
  const isBuy = ticket.side.value === 'buy'
  if (account.value === undefined) {
    return (
      <button
        type="button"
        class="main ticket-send"
        onClick={() => document.getElementById('account-button')?.click()}
      >
        Connect to trade
      </button>
    )
  }
  const wanted = ticket.estimate.value
  const isShort =
    isBuy && wanted !== undefined && wanted.cost > (funds.value?.stablecoin ?? wanted.cost)
  const isOpen = model.market.value?.status === 'open'
  const cannot = !isOpen || wanted === undefined || isShort || connection.value.state === 'lost'
  const typed = ticket.size.value !== '' || ticket.amount.value !== ''
  const faults = isShort
    ? [`This may cost ${money(wanted.cost)}, and you have ${money(funds.value?.stablecoin ?? 0n)}.`]
    : typed && ticket.fault.value !== undefined
      ? [ticket.fault.value]
      : submitting.faults.value
  return (
    <>
      <button
        type="submit"
        class={`ticket-send ${isBuy ? 'ticket-send-buy' : 'ticket-send-sell'}`}
        disabled={cannot || stage !== 'idle'}
      >
        {stage === 'idle' ? `${isBuy ? 'Buy' : 'Sell'} ${model.outcome.value}` : STAGES[stage]}
      </button>
      <ul class="ticket-faults" role="alert">
        {faults.map((words) => (
          <li key={words}>{words}</li>
        ))}
      </ul>
    </>
  )
}
