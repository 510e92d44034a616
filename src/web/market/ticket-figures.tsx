/** What the order in the ticket would come to. */

import { decimal, money, NOTHING, roundCents, shares } from '../format.ts'
import type { MarketModel } from './market-model.ts'
import type { TicketModel } from './ticket-model.ts'

export function TicketFigures(props: {
  readonly model: MarketModel
  readonly ticket: TicketModel
}) {
  const { ticket } = props
  const isBuy = ticket.side.value === 'buy'
  const found = ticket.estimate.value
  const fill = found?.fill
  const profit = found === undefined ? 0n : found.payout - found.cost
  const isWhole = fill !== undefined && fill.rest === 0
  return (
    <dl class="figures num">
      <Figure name="Fills at once">
        {fill === undefined
          ? NOTHING
          : fill.filled === 0
            ? 'nothing'
            : `${shares(fill.filled)} shares`}
      </Figure>
      <Figure name="Average price">
        {fill?.average === undefined ? NOTHING : roundCents(fill.average)}
      </Figure>
      <Figure name="Slippage" isWarning={fill !== undefined && fill.slippage >= MUCH}>
        {fill?.average === undefined ? NOTHING : roundCents(fill.slippage)}
      </Figure>
      {isBuy ? (
        <>
          <Figure name={isWhole ? 'Cost' : 'Cost at most'}>
            {found === undefined ? NOTHING : money(roundUp(found.cost))}
          </Figure>
          <Figure name={`Payout if ${props.model.outcome.value} wins`}>
            {found === undefined ? NOTHING : `${money(found.payout)}`}
          </Figure>
          <Figure name="Profit then">
            {found === undefined || found.cost === 0n
              ? NOTHING
              : `${money(profit)} (${decimal((profit * 100_000_000n) / found.cost, 0)}%)`}
          </Figure>
        </>
      ) : (
        <Figure name="You get at once">{found === undefined ? NOTHING : money(found.cost)}</Figure>
      )}
    </dl>
  )
}

/** A cent and more from the best price deserves attention. */
const MUCH = 10_000
const CENT = 10_000n

/** A cost is never shown smaller than it is. */
function roundUp(amount: bigint): bigint {
  return ((amount + CENT - 1n) / CENT) * CENT
}

function Figure(props: {
  readonly name: string
  readonly children: string
  readonly isWarning?: boolean
}) {
  return (
    <div class={props.isWarning === true ? 'warn' : ''}>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  )
}
