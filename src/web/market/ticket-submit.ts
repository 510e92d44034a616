/**
 * Submits the order of the ticket: requests missing permissions, has the order signed once, sends it, and reports the
 * result.
 */

import { computed, signal } from '@preact/signals'
import type { Client, PlaceIntent } from '#client/client.ts'
import type { OrderSubmission } from '#client/order-submission.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { PlacedOrder } from '#protocol/shapes/orders.ts'
import { cents, shares } from '../format.ts'
import { trading } from '../state/account.ts'
import { nowSec } from '../state/clock.ts'
import { refreshFunds } from '../state/funds.ts'
import { ensureShares, ensureStablecoin } from '../state/permissions.ts'
import { sessionFor } from '../state/session-key.ts'
import { showToast } from '../state/toasts.ts'
import { heldShares, type MarketModel } from './market-model.ts'
import { orderWords } from './order-words.ts'
import type { Estimate } from './ticket-estimate.ts'
import type { TicketModel } from './ticket-model.ts'

export type Stage = 'idle' | 'permission' | 'signature' | 'sending'

/** Minimum lifetime of an order in seconds. The exchange requires one minute, but a slow wallet needs more. */
const LIFE_SEC_MIN = 180

/** Progress of the order's submission, and the errors of the last attempt. */
export type Submitting = {
  readonly stage: { readonly value: Stage }
  readonly faults: { readonly value: readonly string[] }
  /**
   * Warning about the order in the ticket. The first `submit` only shows the warning. The next `submit` of the same
   * order signs and sends it.
   */
  readonly warning: { readonly value: string | undefined }
  submit(): Promise<void>
  /** Gives up waiting for a wallet that does not answer. If the wallet signs the order later, the order is not sent. */
  stopWaiting(): void
}

export function createSubmitting(model: MarketModel, ticket: TicketModel): Submitting {
  const stage = signal<Stage>('idle')
  const faults = signal<readonly string[]>([])
  /**
   * The last warning, and the order to which it applies. If the user changes the order in the ticket, the warning is
   * hidden.
   */
  const warned = signal<{ readonly text: string; readonly order: string } | undefined>(undefined)
  const warning = computed(() =>
    warned.value?.order === orderOf(ticket, model) ? warned.value.text : undefined,
  )
  /**
   * Number of the latest attempt. `stopWaiting` increases it. An attempt whose own number is lower was abandoned, so it
   * stops.
   */
  let attempt = 0

  async function submit(): Promise<void> {
    const wanted = ticket.estimate.peek()
    if (wanted === undefined || stage.peek() !== 'idle') return
    faults.value = []
    const text = warning.peek() === undefined ? shortSale(model, ticket) : undefined
    if (text !== undefined) {
      warned.value = { text, order: orderOf(ticket, model) }
      return
    }
    const own = ++attempt
    const intent = intentOf(model, ticket, wanted)
    try {
      stage.value = 'permission'
      if (intent.side === 'buy') await ensureStablecoin(wanted.cost)
      else await ensureShares()
      if (own !== attempt) return
      stage.value = 'signature'
      const client = await trading()
      const submission = await signed(client, intent)
      if (own !== attempt) return
      stage.value = 'sending'
      await send(client, submission, wanted)
    } catch (error) {
      if (own === attempt) faults.value = [orderWords(error)]
    } finally {
      if (own === attempt) stage.value = 'idle'
    }
  }

  function stopWaiting(): void {
    if (stage.peek() !== 'permission' && stage.peek() !== 'signature') return
    attempt++
    stage.value = 'idle'
    faults.value = ['The wallet did not answer. No order was sent.']
  }

  async function send(
    client: Client,
    submission: OrderSubmission,
    wanted: Estimate,
  ): Promise<void> {
    try {
      const placed = await client.orders.submit(submission)
      showToast('done', `${wordsFor(model, ticket, wanted)}: ${placedWords(placed, wanted.size)}.`)
      ticket.clear()
      void refreshFunds()
    } catch (error) {
      faults.value = await faultsOf(client, submission, error)
    }
  }

  return { stage, faults, warning, submit, stopWaiting }
}

/** Signs the order with the session key if the key's size limit and lifetime allow it. Otherwise the wallet signs. */
function signed(client: Client, intent: PlaceIntent): Promise<OrderSubmission> {
  const session = sessionFor(Number(intent.size))
  const { ttlSeconds = LIFE_SEC_MIN, ...terms } = intent
  const now = nowSec.peek()
  if (session === undefined || session.until < now + LIFE_SEC_MIN) return client.orders.sign(intent)
  // Pass a fixed expiration instead of a lifetime. From a lifetime, the SDK computes the expiration with its own clock.
  // The order could then expire a second after the session key, and the exchange would reject it.
  const expiration = Math.min(session.until, now + ttlSeconds)
  return session.client.orders.sign({ ...terms, expiration } as PlaceIntent)
}

/** Returns a warning if the trader sells more shares than the account holds; otherwise undefined. */
function shortSale(model: MarketModel, ticket: TicketModel): string | undefined {
  const wanted = ticket.estimate.peek()
  const held = heldShares(model)
  if (ticket.side.peek() === 'buy' || wanted === undefined || held === undefined) return undefined
  if (wanted.size <= held) return undefined
  const missing = shares(wanted.size - held)
  return (
    `You have ${shares(held)} ${model.outcome.peek()} shares: ${missing} are missing. The sale fails unless the ` +
    'missing shares arrive before the sale settles.'
  )
}

/**
 * Returns text that identifies the order in the ticket, so that the trader's confirmation of a warning applies only to
 * that order.
 */
function orderOf({ kind, side, price, size }: TicketModel, { outcome }: MarketModel): string {
  return [kind.value, side.value, price.value, size.value, outcome.value].join(' ')
}

/** Returns the options that the order's signature does not cover. Options with default values are left out. */
function optionsOf({ kind, postOnly, timeInForce }: TicketModel) {
  if (kind.peek() === 'market') return { timeInForce: 'IOC' as const }
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
    // The order expires when the market ends, but not earlier than `LIFE_SEC_MIN` from now.
    ttlSeconds: Math.max(LIFE_SEC_MIN, leftSec),
    ...optionsOf(ticket),
  }
}

function wordsFor(model: MarketModel, ticket: TicketModel, wanted: Estimate): string {
  const side = ticket.side.peek() === 'buy' ? 'Buy' : 'Sell'
  const what = `${side} ${shares(wanted.size)} ${model.outcome.peek()}`
  // The price of a market order is only the worst price that it accepts, so the message omits it.
  return ticket.kind.peek() === 'market' ? `${what} now` : `${what} at ${cents(wanted.price)}`
}

function placedWords({ matches, filled }: PlacedOrder, size: number): string {
  if (filled !== undefined) {
    return `${shares(filled)} filled${filled < size ? ', the rest is cancelled' : ''}`
  }
  if (matches === 0) return 'the order is in the book'
  return `matched with ${matches === 1 ? 'one order' : `${matches} orders`}`
}

/**
 * Returns all errors of a rejected order. The rejection contains only the first error, so the exchange is asked to
 * validate the order again.
 */
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
