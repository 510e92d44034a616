/** Open orders of the account, from the stream. */

import { effect, signal, untracked } from '@preact/signals'
import type { OrdersMessage, StreamOrder } from '#protocol/shapes/stream.ts'
import { isCalledOff } from '../error-words.ts'
import { account, client, trading } from './account.ts'
import { stream } from './exchange.ts'
import { refreshFunds } from './funds.ts'
import { showError, showToast } from './toasts.ts'

/** Open orders of the account, newest first; undefined until they are known. */
export const ownOrders = signal<readonly StreamOrder[] | undefined>(undefined)
/** Hashes of orders with a cancel in progress. */
export const cancelling = signal<ReadonlySet<string>>(new Set())

const ENDED: ReadonlySet<string> = new Set(['filled', 'cancelled', 'expired'])

/** Returns the open orders after this message. Returns undefined if all open orders must be read by REST. */
export function applyOrders(
  before: readonly StreamOrder[] | undefined,
  message: OrdersMessage,
): readonly StreamOrder[] | undefined {
  switch (message.type) {
    case 'orders.snapshot':
      return message.nextCursor === null ? message.orders.toReversed() : undefined
    case 'orders.ended':
      return before?.filter(({ marketId }) => marketId !== message.marketId)
    case 'order': {
      if (before === undefined) return undefined
      const at = before.findIndex(({ orderHash }) => orderHash === message.orderHash)
      if (ENDED.has(message.status)) return before.filter((_, index) => index !== at)
      if (at === -1) return [message, ...before]
      // Later messages omit unchanged fields.
      return before.with(at, { ...before[at], ...message })
    }
  }
}

export function followOwnOrders(): void {
  effect(() => {
    const trader = account.value?.address
    ownOrders.value = undefined
    if (trader === undefined) return
    const subscription = untracked(() =>
      stream().orders(trader, (message) => receive(trader, message)),
    )
    subscription.ready.catch((error: unknown) => {
      if (!isCalledOff(error)) showError(error)
    })
    return () => subscription.close()
  })
}

function receive(trader: string, message: OrdersMessage): void {
  const next = applyOrders(ownOrders.value, message)
  if (next === undefined) void readAll(trader)
  else ownOrders.value = next
  if (message.type === 'order' && message.status !== 'accepted') void refreshFunds()
}

/** Reads all open orders by REST. Needed if the account has more orders than a snapshot contains. */
async function readAll(trader: string): Promise<void> {
  try {
    const orders = await client.value.orders.listOfUser({ address: trader })
    if (account.value?.address !== trader) return
    ownOrders.value = orders
      .map((order) => ({ ...order, status: 'accepted' as const, ts: order.timestamp * 1_000 }))
      .sort((a, b) => b.ts - a.ts)
  } catch (error) {
    showError(error)
  }
}

export async function cancelOrder(order: StreamOrder): Promise<void> {
  await cancelAll([order])
}

/**
 * Cancels each order with a separate request. A single request for many orders needs a token, even if the exchange
 * requires no token for other requests.
 */
export async function cancelAll(orders: readonly StreamOrder[]): Promise<void> {
  const hashes = orders.map(({ orderHash }) => orderHash)
  cancelling.value = new Set([...cancelling.value, ...hashes])
  try {
    const { orders: calls } = await trading()
    const results = await Promise.allSettled(
      orders.map(({ orderHash, marketId, side }) =>
        calls.cancel({ orderHash, marketId, side: side === 0 ? 'buy' : 'sell' }),
      ),
    )
    const failed = results.filter((result) => result.status === 'rejected')
    for (const { reason } of failed) showError(reason)
    const done = results.length - failed.length
    if (done > 0) showToast('done', done === 1 ? 'Order cancelled.' : `${done} orders cancelled.`)
  } catch (error) {
    showError(error)
  } finally {
    cancelling.value = new Set([...cancelling.value].filter((hash) => !hashes.includes(hash)))
  }
}
