/** Shows the figures of the order in the ticket, such as cost, payout and average price. */

import { cents, decimal, money, NOTHING, roundCents, shares } from '../format.ts'
import type { MarketModel } from './market-model.ts'
import type { TicketModel } from './ticket-model.ts'

export function TicketFigures(props: {
  readonly model: MarketModel
  readonly ticket: TicketModel
}) {
  const { ticket } = props
  const isMarket = ticket.kind.value === 'market'
  const isBuy = ticket.side.value === 'buy'
  const found = ticket.estimate.value
  const fill = found?.fill
  // For a market order, show only the cost of the part that fills now. The cost of a limit buy also includes the
  // unfilled part, at the order's price.
  const cost = isMarket ? (fill?.cost ?? 0n) : (found?.cost ?? 0n)
  const payout = found === undefined ? 0n : isMarket ? BigInt(found.fill.filled) : found.payout
  const profit = payout - cost
  const isWhole = fill !== undefined && fill.rest === 0
  return (
    <dl class="figures num">
      <Figure name="Fills immediately">
        {fill === undefined
          ? NOTHING
          : fill.filled === 0
            ? 'nothing'
            : `${shares(fill.filled)} shares`}
      </Figure>
      {fill === undefined || fill.implied === 0 ? null : (
        <Figure name={`With orders for ${props.model.outcome.value === 'YES' ? 'NO' : 'YES'}`}>
          {`${shares(fill.implied)} shares`}
        </Figure>
      )}
      <Figure name="Average price">
        {fill?.average === undefined ? NOTHING : roundCents(fill.average)}
      </Figure>
      <Figure name="Slippage" isWarning={fill !== undefined && fill.slippage >= MUCH}>
        {fill?.average === undefined ? NOTHING : roundCents(fill.slippage)}
      </Figure>
      {isMarket ? (
        <>
          <Figure name="Worst price">{found === undefined ? NOTHING : cents(found.price)}</Figure>
          {fill === undefined || isWhole ? null : (
            <Figure name="Cancelled, not filled" isWarning={true}>
              {`${shares(fill.rest)} shares`}
            </Figure>
          )}
        </>
      ) : null}
      <Figure name="Fees">No fees</Figure>
      {isBuy ? (
        <>
          {isMarket ? (
            <Figure name="Cost">{fill === undefined ? NOTHING : money(roundUp(fill.cost))}</Figure>
          ) : null}
          <Figure name={isWhole && !isMarket ? 'Cost' : 'Cost at most'}>
            {found === undefined ? NOTHING : money(roundUp(found.cost))}
          </Figure>
          <Figure name={`Payout if ${props.model.outcome.value} wins`}>
            {found === undefined ? NOTHING : money(payout)}
          </Figure>
          <Figure name="Profit then">
            {cost === 0n
              ? NOTHING
              : `${money(profit)} (${decimal((profit * 100_000_000n) / cost, 0)}%)`}
          </Figure>
        </>
      ) : (
        <Figure name="You get immediately">
          {found === undefined ? NOTHING : money(found.cost)}
        </Figure>
      )}
    </dl>
  )
}

/** Minimum slippage that is highlighted, in millionths of a dollar: one cent. */
const MUCH = 10_000
const CENT = 10_000n

/** Rounds up to a cent, so that the shown cost is never less than the real cost. */
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
