/** Shows the open orders of the account. The user can cancel them individually or all at once. */

import type { StreamOrder } from '#protocol/shapes/stream.ts'
import { ConfirmButton } from '../confirm-button.tsx'
import { ago, cents, shares } from '../format.ts'
import { nowSec } from '../state/clock.ts'
import { marketOf } from '../state/markets.ts'
import { cancelAll, cancelling, cancelOrder, ownOrders } from '../state/own-orders.ts'
import { askForPublicLog, hasPublicLog, proofs, proveOrder } from '../state/proofs.ts'
import { marketLink } from '../state/router.ts'
import { type Column, Table } from '../table.tsx'

function questionOf(marketId: string): string {
  return marketOf(marketId)?.question ?? marketId
}

function wordsOf({ side, outcome }: StreamOrder): string {
  return `${side === 0 ? 'Buy' : 'Sell'} ${outcome === 0 ? 'YES' : 'NO'}`
}

const MARKET: Column<StreamOrder> = {
  name: 'Market',
  class: 'question',
  cell: ({ marketId }) => <a href={marketLink(marketId)}>{questionOf(marketId)}</a>,
}

const PROOF: Column<StreamOrder> = {
  name: 'Proof',
  isNameHidden: true,
  class: 'number',
  cell: (order) => <Proof order={order} />,
}

const COLUMNS: readonly Column<StreamOrder>[] = [
  { name: 'Side', tone: ({ side }) => (side === 0 ? 'up' : 'down'), cell: wordsOf },
  { name: 'Price', isNumber: true, cell: ({ price }) => cents(price) },
  { name: 'Open', isNumber: true, cell: ({ remainingSize }) => shares(remainingSize) },
  {
    name: 'Filled',
    isNumber: true,
    isWide: true,
    tone: 'quiet',
    cell: ({ size, remainingSize }) => (size === undefined ? '' : shares(size - remainingSize)),
  },
  {
    name: 'Placed',
    isNumber: true,
    isWide: true,
    tone: 'quiet',
    cell: ({ ts }) => ago(nowSec.value - Math.floor(ts / 1_000)),
  },
  PROOF,
  {
    name: 'Cancel',
    isNameHidden: true,
    class: 'number',
    cell: (order) => <Cancel order={order} />,
  },
]

const COLUMNS_WITH_MARKET = [MARKET, ...COLUMNS]

/** Lists the open orders of one market; of all markets if `marketId` is undefined. */
export function OpenOrders({ marketId }: { readonly marketId?: string }) {
  const all = ownOrders.value
  askForPublicLog()
  const columns = marketId === undefined ? COLUMNS_WITH_MARKET : COLUMNS
  const orders = marketId === undefined ? all : all?.filter((order) => order.marketId === marketId)
  return (
    <section class="panel" aria-labelledby="open-orders">
      <div class="panel-head">
        <h2 id="open-orders">Open orders</h2>
        <span class="badge num">{orders?.length ?? 0}</span>
        <span class="space" />
        <CancelAll orders={orders ?? []} />
      </div>
      <Table
        caption="Open orders"
        rows={orders}
        columns={hasPublicLog.value === true ? columns : columns.filter((one) => one !== PROOF)}
        keyOf={({ orderHash }) => orderHash}
        empty="You have no open orders."
      />
    </section>
  )
}

/**
 * The button that cancels all listed orders. It asks for confirmation, because a cancelled order loses its place in the
 * book.
 */
function CancelAll({ orders }: { readonly orders: readonly StreamOrder[] }) {
  const count = orders.length === 1 ? 'one order' : `${orders.length} orders`
  return (
    <ConfirmButton
      name="Cancel all"
      confirm={`Cancel ${count}`}
      keep="Keep the orders"
      isDisabled={orders.length === 0 || cancelling.value.size > 0}
      onConfirm={() => void cancelAll(orders)}
    />
  )
}

/**
 * Proves on request that the public log contains the order. The page itself verifies the entry, its inclusion proof and
 * the log's signature.
 */
function Proof({ order }: { readonly order: StreamOrder }) {
  const { orderHash, marketId, price } = order
  const proof = proofs.value.get(orderHash)
  if (proof !== undefined && proof !== 'checking') {
    const { index, size, origin } = proof
    return (
      <span class="badge badge-up" title={`Entry ${index} of ${size} in the log ${origin}`}>
        ✓ Proven
      </span>
    )
  }
  return (
    <button
      type="button"
      class="small"
      disabled={proof === 'checking'}
      aria-label={`Proof: ${wordsOf(order)} at ${cents(price)}, ${questionOf(marketId)}`}
      onClick={() => void proveOrder(orderHash)}
    >
      Proof
    </button>
  )
}

function Cancel({ order }: { readonly order: StreamOrder }) {
  const { orderHash, marketId, price } = order
  return (
    <button
      type="button"
      class="small"
      disabled={cancelling.value.has(orderHash)}
      aria-label={`Cancel: ${wordsOf(order)} at ${cents(price)}, ${questionOf(marketId)}`}
      onClick={() => void cancelOrder(order)}
    >
      Cancel
    </button>
  )
}
