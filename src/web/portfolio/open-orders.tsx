/** The open orders of the account, which can be cancelled one by one or all. */

import { useSignal } from '@preact/signals'
import type { StreamOrder } from '#client/stream-messages.ts'
import { ago, cents, shares } from '../format.ts'
import { nowSec } from '../state/clock.ts'
import { marketOf } from '../state/markets.ts'
import { cancelAll, cancelling, cancelOrder, ownOrders } from '../state/own-orders.ts'
import { marketLink } from '../state/router.ts'

/** Of one market if it is named, else of all. */
export function OpenOrders({ marketId }: { readonly marketId?: string }) {
  const all = ownOrders.value
  const orders = marketId === undefined ? all : all?.filter((order) => order.marketId === marketId)
  return (
    <section class="panel" aria-labelledby="open-orders">
      <div class="panel-head">
        <h2 id="open-orders">Open orders</h2>
        <span class="badge num">{orders?.length ?? 0}</span>
        <span class="space" />
        <CancelAll orders={orders ?? []} />
      </div>
      {orders === undefined ? (
        <p class="empty">Loading …</p>
      ) : orders.length === 0 ? (
        <p class="empty">You have no open orders.</p>
      ) : (
        <div class="scroll">
          <table class="table">
            <thead>
              <tr>
                {marketId === undefined ? <th scope="col">Market</th> : null}
                <th scope="col">Side</th>
                <th scope="col" class="number">
                  Price
                </th>
                <th scope="col" class="number">
                  Open
                </th>
                <th scope="col" class="number wide">
                  Filled
                </th>
                <th scope="col" class="number wide">
                  Placed
                </th>
                <th scope="col">
                  <span class="hidden-text">Cancel</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {orders.map((order) => (
                <OrderRow key={order.orderHash} order={order} withMarket={marketId === undefined} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

/** Asks for confirmation: every open order would lose its place in the book. */
function CancelAll({ orders }: { readonly orders: readonly StreamOrder[] }) {
  const isAsking = useSignal(false)
  const cannot = orders.length === 0 || cancelling.value.size > 0
  if (!isAsking.value || cannot) {
    return (
      <button
        type="button"
        class="small"
        disabled={cannot}
        onClick={() => {
          isAsking.value = true
        }}
      >
        Cancel all
      </button>
    )
  }
  const count = orders.length === 1 ? 'one order' : `${orders.length} orders`
  return (
    <span class="confirm" role="alertdialog" aria-label="Cancel all">
      <button
        type="button"
        class="small"
        onClick={() => {
          isAsking.value = false
          void cancelAll(orders)
        }}
      >
        Cancel {count}
      </button>
      <button
        type="button"
        class="plain small"
        onClick={() => {
          isAsking.value = false
        }}
      >
        Keep them
      </button>
    </span>
  )
}

function OrderRow(props: { readonly order: StreamOrder; readonly withMarket: boolean }) {
  const { order } = props
  const { orderHash, marketId, side, outcome, price, remainingSize, size, ts } = order
  const question = marketOf(marketId)?.question ?? marketId
  const said = `${side === 0 ? 'Buy' : 'Sell'} ${outcome === 0 ? 'YES' : 'NO'}`
  return (
    <tr>
      {props.withMarket ? (
        <td class="question">
          <a href={marketLink(marketId)}>{question}</a>
        </td>
      ) : null}
      <td class={side === 0 ? 'up' : 'down'}>{said}</td>
      <td class="num number">{cents(price)}</td>
      <td class="num number">{shares(remainingSize)}</td>
      <td class="num number wide quiet">
        {size === undefined ? '' : shares(size - remainingSize)}
      </td>
      <td class="num number wide quiet">{ago(nowSec.value - Math.floor(ts / 1_000))}</td>
      <td class="number">
        <button
          type="button"
          class="small"
          disabled={cancelling.value.has(orderHash)}
          aria-label={`Cancel: ${said} at ${cents(price)}, ${question}`}
          onClick={() => void cancelOrder(order)}
        >
          Cancel
        </button>
      </td>
    </tr>
  )
}
