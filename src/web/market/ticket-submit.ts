/** Sends what stands in the ticket: asks for permissions where they lack, signs once, and says what became of it. */

import { signal } from '@preact/signals'
import type { PlacedOrder } from '#client/answers.ts'
import type { Client, PlaceIntent } from '#client/client.ts'
import type { OrderSubmission } from '#client/order-submission.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { cents, shares } from '../format.ts'
import { trading } from '../state/account.ts'
import { nowSec } from '../state/clock.ts'
import { refreshFunds } from '../state/funds.ts'
import { ensureShares, ensureStablecoin } from '../state/permissions.ts'
import { showToast } from '../state/toasts.ts'
import type { MarketModel } from './market-model.ts'
import { orderWords } from './order-words.ts'
import type { Estimate, TicketModel } from './ticket-model.ts'

export type Stage = 'idle' | 'permission' | 'signature' | 'sending'

/** The exchange asks for a minute; a slow wallet needs some more. */
const LIFE_SEC_MIN = 180

/** What an order goes through, and what was wrong with the last one: a line each. */
export type Submitting = {
  readonly stage: { readonly value: Stage }
  readonly faults: { readonly value: readonly string[] }
  submit(): Promise<void>
}

export function createSubmitting(model: MarketModel, ticket: TicketModel): Submitting {
  const stage = signal<Stage>('idle')
  const faults = signal<readonly string[]>([])

  async function submit(): Promise<void> {
    const wanted = ticket.estimate.peek()
    if (wanted === undefined || stage.peek() !== 'idle') return
    faults.value = []
    try {
      stage.value = 'permission'
      if (ticket.side.peek() === 'buy') await ensureStablecoin(wanted.cost)
      else await ensureShares()
      stage.value = 'signature'
      const client = await trading()
      const submission = await client.orders.sign(intentOf(model, ticket, wanted))
      stage.value = 'sending'
      await send(client, submission, wanted)
    } catch (error) {
      faults.value = [orderWords(error)]
    } finally {
      stage.value = 'idle'
    }
  }

  async function send(
    client: Client,
    submission: OrderSubmission,
    wanted: Estimate,
  ): Promise<void> {
    try {
      const placed = await client.orders.submit(submission)
      showToast('done', `${wordsFor(model, ticket, wanted)}: ${placedWords(placed)}.`)
      ticket.clear()
      void refreshFunds()
    } catch (error) {
      faults.value = await faultsOf(client, submission, error)
    }
  }

  return { stage, faults, submit }
}

/** They are not signed, and what is usual is left out. */
function optionsOf({ postOnly, timeInForce }: TicketModel) {
  if (timeInForce.peek() !== 'GTC') return { timeInForce: timeInForce.peek() }
  return postOnly.peek() ? { postOnly: true } : {}
}

function intentOf(model: MarketModel, ticket: TicketModel, wanted: Estimate): PlaceIntent {
  const leftSec = (model.market.peek()?.expiration ?? 0) - nowSec.peek()
  return {
    marketId: model.marketId,
    side: ticket.side.peek(),
    outcome: model.outcome.peek(),
    price: wanted.price,
    size: wanted.size,
    // Orders end with the market.
    ttlSeconds: Math.max(LIFE_SEC_MIN, leftSec),
    ...optionsOf(ticket),
  }
}

function wordsFor(model: MarketModel, ticket: TicketModel, wanted: Estimate): string {
  const side = ticket.side.peek() === 'buy' ? 'Buy' : 'Sell'
  return `${side} ${shares(wanted.size)} ${model.outcome.peek()} at ${cents(wanted.price)}`
}

function placedWords({ matches, filled }: PlacedOrder): string {
  if (filled !== undefined) return `${shares(filled)} filled`
  if (matches === 0) return 'the order is in the book'
  return `matched with ${matches === 1 ? 'one order' : `${matches} orders`}`
}

/** Everything that is wrong with it, where the exchange can say more than the first thing. */
async function faultsOf(
  client: Client,
  submission: OrderSubmission,
  error: unknown,
): Promise<readonly string[]> {
  const first = orderWords(error)
  if (!(error instanceof SibylError) || error.outcomeUnknown || error.status === undefined) {
    return [first]
  }
  try {
    const { errors } = await client.orders.validate(submission)
    const all = errors.map((one) => orderWords(new SibylError(one.code, one.error)))
    return [...new Set([first, ...all])]
  } catch {
    return [first]
  }
}
