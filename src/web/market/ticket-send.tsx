/** The button that sends the order, with the reasons why the order cannot be sent. */

import { money } from '../format.ts'
import { account } from '../state/account.ts'
import { connection } from '../state/exchange.ts'
import { funds } from '../state/funds.ts'
import type { MarketModel } from './market-model.ts'
import type { Estimate } from './ticket-estimate.ts'
import type { TicketModel } from './ticket-model.ts'
import type { Stage, Submitting } from './ticket-submit.ts'

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

export function TicketSend({ model, ticket, submitting }: Props) {
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
  const obstacle = wanted === undefined ? undefined : obstacleOf(ticket, wanted)
  const isOpen = model.market.value?.status === 'open'
  const cannot =
    !isOpen || wanted === undefined || obstacle !== undefined || connection.value.state === 'lost'
  const warning = cannot ? undefined : submitting.warning.value
  return (
    <>
      <button
        type="submit"
        class={`ticket-send ${isBuy ? 'ticket-send-buy' : 'ticket-send-sell'}`}
        disabled={cannot || stage !== 'idle'}
      >
        {stage === 'idle'
          ? `${isBuy ? 'Buy' : 'Sell'} ${model.outcome.value}${warning === undefined ? '' : ' anyway'}`
          : STAGES[stage]}
      </button>
      {stage === 'permission' || stage === 'signature' ? (
        <button type="button" class="plain small" onClick={submitting.stopWaiting}>
          Stop waiting for the wallet
        </button>
      ) : null}
      <ul class="ticket-faults" role="alert">
        {faultsOf(ticket, submitting, obstacle).map((words) => (
          <li key={words}>{words}</li>
        ))}
      </ul>
    </>
  )
}

/** Returns the reason why a complete order cannot be sent; undefined if it can be sent. */
function obstacleOf(ticket: TicketModel, wanted: Estimate): string | undefined {
  if (ticket.side.value === 'sell') return undefined
  const has = funds.value?.stablecoin ?? wanted.cost
  if (wanted.cost <= has) return undefined
  return `The order may cost ${money(wanted.cost)}, but you have only ${money(has)}.`
}

function faultsOf(
  ticket: TicketModel,
  submitting: Submitting,
  obstacle: string | undefined,
): readonly string[] {
  if (obstacle !== undefined) return [obstacle]
  const isTyped = ticket.size.value !== '' || ticket.amount.value !== ''
  if (isTyped && ticket.fault.value !== undefined) return [ticket.fault.value]
  const { warning, faults } = submitting
  return warning.value === undefined ? faults.value : [warning.value, ...faults.value]
}
