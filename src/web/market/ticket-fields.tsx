/** The fields of the ticket: price, amount, shares and slippage limit. */

import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { cents, money, shares } from '../format.ts'
import { funds } from '../state/funds.ts'
import { heldShares, type MarketModel } from './market-model.ts'
import type { TicketModel } from './ticket-model.ts'
import { hasGroups, plainText, type Read, readDollars, readShares } from './ticket-text.ts'

type Props = { readonly model: MarketModel; readonly ticket: TicketModel }

function Field(props: {
  readonly label: string
  readonly unit: string
  readonly value: string
  readonly type: (text: string) => void
  readonly keys?: (event: KeyboardEvent) => void
  /**
   * The number that the page parsed from the typed text, shown for the user to check. Set only if the text has
   * thousands separators, because a separator could be mistaken for the decimal point.
   */
  readonly understood?: string | undefined
  readonly children?: ComponentChildren
}) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>
        {props.label}
        {props.understood === undefined ? null : (
          <span class="field-understood num"> = {props.understood}</span>
        )}
      </label>
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

export function PriceField({ ticket }: { readonly ticket: TicketModel }) {
  const meant = ticket.meantPrice.value
  return (
    <>
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
        <button
          type="button"
          class="small"
          aria-label="Lower price"
          onClick={() => ticket.step(-1)}
        >
          −
        </button>
        <button
          type="button"
          class="small"
          aria-label="Higher price"
          onClick={() => ticket.step(1)}
        >
          +
        </button>
      </Field>
      {meant === undefined ? null : (
        <p class="ticket-hint" role="status">
          This is {ticket.price.value.trim()} of a cent.{' '}
          <button type="button" class="plain small" onClick={() => ticket.typePrice(meant)}>
            Did you mean {meant}¢?
          </button>
        </p>
      )}
    </>
  )
}

export function SizeFields({ model, ticket }: Props) {
  const isBuy = ticket.side.value === 'buy'
  const own = heldShares(model)
  const has = isBuy ? funds.value?.stablecoin : own
  const max = () => {
    if (has === undefined) return
    const most = isBuy ? ticket.affordable(BigInt(has)) : Number(has)
    if (most !== undefined) ticket.typeSize(plainText(most))
  }
  return (
    <>
      <div class="field-pair">
        <Field
          label={isBuy ? 'Amount' : 'Proceeds'}
          unit="$"
          value={ticket.amount.value}
          type={ticket.typeAmount}
          understood={understood(ticket.amount.value, readDollars, money)}
        />
        <Field
          label="Shares"
          unit=""
          value={ticket.size.value}
          type={ticket.typeSize}
          understood={understood(ticket.size.value, readShares, shares)}
        />
      </div>
      <div class="ticket-has quiet">
        <span class="num">
          {has === undefined ? '' : isBuy ? `You have ${money(has)}` : `You have ${shares(has)}`}
        </span>
        <span class="ticket-steps">
          {isBuy
            ? STEPS.map((dollars) => (
                <button
                  key={dollars}
                  type="button"
                  class="small num"
                  onClick={() => ticket.typeAmount(plainText(typedAmount(ticket) + dollars))}
                >
                  +{money(dollars, 0)}
                </button>
              ))
            : PARTS.map((part) => (
                <button
                  key={part}
                  type="button"
                  class="small num"
                  disabled={own === undefined || own === 0}
                  onClick={() => ticket.typeSize(plainText(partOf(own ?? 0, part)))}
                >
                  {part}%
                </button>
              ))}
          <button
            type="button"
            class="small"
            onClick={max}
            disabled={has === undefined || BigInt(has) === 0n}
          >
            Max
          </button>
        </span>
      </div>
    </>
  )
}

/** Amounts that the buttons add to the typed amount, in millionths of a dollar. */
const STEPS = [10_000_000, 100_000_000, 1_000_000_000]
/** Percentages of the account's shares that can be chosen with one click. */
const PARTS = [25, 50, 75]

function typedAmount(ticket: TicketModel): number {
  const read = readDollars(ticket.amount.value)
  return 'value' in read ? read.value : 0
}

/** Returns a percentage of the held shares, rounded down to hundredths of a share. */
function partOf(held: number, part: number): number {
  const found = Math.floor((held / 100) * part)
  return found - (found % 10_000)
}

function understood(
  text: string,
  read: (text: string) => Read,
  write: (value: number) => string,
): string | undefined {
  if (!hasGroups(text)) return undefined
  const found = read(text)
  return 'value' in found ? write(found.value) : undefined
}

/** Slippage limits that the user can choose, in millionths of a dollar: from half a cent to ten cents. */
const SLIPPAGES = [5_000, 10_000, 20_000, 50_000, 100_000]

export function SlippageField({ ticket }: { readonly ticket: TicketModel }) {
  const id = useId()
  return (
    <div class="ticket-options">
      <label for={id} title="The order accepts prices up to this distance from the best price">
        Slippage limit
      </label>
      <select
        id={id}
        value={ticket.slippage.value}
        onChange={(event) => {
          ticket.slippage.value = Number(event.currentTarget.value)
        }}
      >
        {SLIPPAGES.map((slippage) => (
          <option key={slippage} value={slippage}>
            {cents(slippage)}
          </option>
        ))}
      </select>
    </div>
  )
}
