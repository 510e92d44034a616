/** Order book table of the chosen outcome: prices around the mid with cumulative totals. */

import { useMemo, useState } from 'preact/hooks'
import { cents, decimal, NOTHING, percent, shares } from '../format.ts'
import { demoTraders } from '../state/account.ts'
import { ownOrders } from '../state/own-orders.ts'
import { ordersSeenFrom } from './implied-levels.ts'
import { type LadderRow, ladderRows } from './ladder-rows.ts'
import type { MarketModel } from './market-model.ts'
import { OutcomeSwitch } from './outcome-switch.tsx'
import { midOf } from './ticket-price.ts'

/** Number of rows of each side. Rows without a level stay empty, so that the mid is always in the middle. */
const ROWS = 15

export type PickLevel = (level: { side: 'buy' | 'sell'; price: number; total: bigint }) => void

export function Ladder({ model, pick }: { readonly model: MarketModel; readonly pick: PickLevel }) {
  const outcome = model.outcome.value
  const frame = model.book.value
  const which = outcome === 'YES' ? 0 : 1
  const orders = ownOrders.value
  const other = outcome === 'YES' ? 'NO' : 'YES'
  const hasImplied = model.isComplementary.value === true
  const own = useMemo(() => {
    const here = (orders ?? []).filter((one) => one.marketId === model.marketId)
    return ordersSeenFrom(which, here, hasImplied)
  }, [orders, model.marketId, which, hasImplied])
  const { bids, asks } = ladderRows(
    frame?.bids.slice(0, ROWS) ?? [],
    frame?.asks.slice(0, ROWS) ?? [],
    own,
  )
  // Index of the row that the Tab key reaches. Only one row is a Tab stop; arrow keys move to the other rows.
  const [stop, setStop] = useState(ROWS)
  return (
    <section class="panel ladder" aria-label={`Order book of ${outcome}`}>
      <div class="panel-head">
        <h2>Book</h2>
        {hasImplied ? (
          <span
            class="badge ladder-implied"
            title={`A bid for ${other} at 40¢ counts as an ask for ${outcome} at 60¢, because both orders can be filled together`}
          >
            with orders of {other}
          </span>
        ) : null}
        <span class="space" />
        <OutcomeSwitch model={model} />
      </div>
      <div class="ladder-names quiet" aria-hidden="true">
        <span>Price</span>
        <span>Shares</span>
        <span>Total</span>
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: it is no part of a form */}
      <div
        class="ladder-rows"
        data-bare={frame !== undefined && bids.length + asks.length === 0}
        role="group"
        aria-label="Prices. Use the arrow keys to move, and Enter to use a price in the ticket"
        onKeyDown={(event) => {
          const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
          if (step === 0) return
          event.preventDefault()
          const rows = [...event.currentTarget.querySelectorAll<HTMLButtonElement>('button')]
          const at = rows.indexOf(document.activeElement as HTMLButtonElement)
          for (let next = at + step; rows[next] !== undefined; next += step) {
            if (rows[next]?.disabled) continue
            rows[next]?.focus()
            setStop(next)
            break
          }
        }}
      >
        {Array.from({ length: ROWS }, (_, slot) => {
          const row = asks[ROWS - 1 - slot]
          const tab = stop === slot
          return <Row key={slot} kind="ask" {...propsOf(row)} {...{ tab, pick, other }} />
        })}
        <Spread bid={bids[0]?.price ?? 0} ask={asks[0]?.price ?? 0} isThere={frame !== undefined} />
        {Array.from({ length: ROWS }, (_, slot) => {
          const tab = stop === ROWS + slot
          return <Row key={slot} kind="bid" {...propsOf(bids[slot])} {...{ tab, pick, other }} />
        })}
      </div>
    </section>
  )
}

/** Returns the row as plain values, so that a row with unchanged numbers is not rendered again. */
function propsOf(row: LadderRow | undefined) {
  if (row === undefined) return { price: 0, size: 0n, total: 0n, depth: 0, own: 0n, implied: 0n }
  return row
}

function Row(
  props: LadderRow & {
    readonly kind: 'bid' | 'ask'
    readonly tab: boolean
    readonly pick: PickLevel
    /** Name of the other outcome. In a complementary market, its orders also count in the rows. */
    readonly other: string
  },
) {
  const { kind, price, size, total, depth, own, implied, pick, other } = props
  if (price === 0)
    return <button type="button" class="ladder-row" disabled tabIndex={-1} aria-hidden="true" />
  return (
    <button
      type="button"
      class={`ladder-row ladder-${kind}`}
      tabIndex={props.tab ? 0 : -1}
      onClick={() => pick({ side: kind === 'ask' ? 'buy' : 'sell', price, total })}
    >
      <span class="ladder-bar" style={{ transform: `scaleX(${depth / 1_000})` }} />
      <span class="ladder-price">
        <span class="hidden-text">{kind === 'ask' ? 'Ask ' : 'Bid '}</span>
        {own === 0n ? null : <OwnMark own={own} />}
        {cents(price)}
      </span>
      {implied === 0n ? (
        <span>{decimal(size, 2)}</span>
      ) : (
        <span
          class="ladder-implied"
          title={`${shares(implied)} of these shares come from orders for ${other}`}
        >
          {decimal(size, 2)}
          <span class="hidden-text">
            , {shares(implied)} of these shares come from orders for {other}
          </span>
        </span>
      )}
      <span class="quiet">{decimal(total, 0)}</span>
    </button>
  )
}

function OwnMark({ own }: { readonly own: bigint }) {
  return (
    <span class="ladder-own" title={`${shares(own)} yours`}>
      <span class="hidden-text">with {shares(own)} of your own at </span>
    </span>
  )
}

function Spread(props: { readonly bid: number; readonly ask: number; readonly isThere: boolean }) {
  const { bid, ask, isThere } = props
  const mid = midOf({ bid, ask })
  return (
    <div class="ladder-spread num">
      {mid === undefined ? (
        <>
          <span class="quiet">{isThere ? 'No orders' : 'Loading …'}</span>
          {isThere && demoTraders.value.length > 0 ? (
            <span class="ladder-hint quiet">npm run demo:maker adds some</span>
          ) : null}
        </>
      ) : (
        <>
          <strong>{bid > 0 && ask > 0 ? percent(mid) : NOTHING}</strong>
          <span class="quiet">
            {bid > 0 && ask > 0 ? `spread ${cents(ask - bid)}` : 'one side only'}
          </span>
        </>
      )}
    </div>
  )
}
