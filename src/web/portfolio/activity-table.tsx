/** The account's trades and payouts as one table, newest first. */

import { useState } from 'preact/hooks'
import type { UserActivity } from '#protocol/shapes/users.ts'
import { ago, cents, money, shares } from '../format.ts'
import { TransactionLink } from '../market/transaction-link.tsx'
import { nowSec } from '../state/clock.ts'
import { marketLink } from '../state/router.ts'
import { type Column, Table } from '../table.tsx'

type Deed = {
  readonly key: string
  readonly marketId: string
  readonly question: string
  readonly words: string
  readonly tone: string
  /** Size of a trade; undefined for a payout. */
  readonly size: number | undefined
  readonly price: number | undefined
  readonly amount: string
  readonly status: string
  readonly txHash: string
  readonly atSec: number
}

/** Status of a trade or a payout, in words. */
const STATUSES: Readonly<Record<string, { readonly text: string; readonly badge: string }>> = {
  matched: { text: 'Settling', badge: 'badge' },
  submitted: { text: 'Settling', badge: 'badge' },
  reverted: { text: 'Settling again', badge: 'badge badge-warn' },
  confirmed: { text: 'Settled', badge: 'badge badge-up' },
  failed: { text: 'Failed', badge: 'badge badge-down' },
  pending: { text: 'On its way', badge: 'badge' },
}

const MARKET: Column<Deed> = {
  name: 'Market',
  class: 'question',
  cell: ({ marketId, question }) => <a href={marketLink(marketId)}>{question}</a>,
}

const COLUMNS: readonly Column<Deed>[] = [
  { name: 'What', class: 'num', tone: ({ tone }) => tone, cell: ({ words }) => words },
  {
    name: 'Shares',
    isNumber: true,
    isWide: true,
    cell: ({ size }) => (size === undefined ? '' : shares(size)),
  },
  {
    name: 'Price',
    isNumber: true,
    isWide: true,
    cell: ({ price }) => (price === undefined ? '' : cents(price)),
  },
  { name: 'Amount', isNumber: true, cell: ({ amount }) => amount },
  { name: 'State', cell: Status },
  {
    name: 'When',
    isNumber: true,
    isWide: true,
    tone: 'quiet',
    cell: ({ atSec }) => ago(nowSec.value - atSec),
  },
]

/** Number of rows shown at first, and number of rows added by each click. */
const LISTED = 10

const COLUMNS_WITH_MARKET = [MARKET, ...COLUMNS]

export function ActivityTable(props: {
  /** Trades and payouts; undefined until they are read. */
  readonly activity: UserActivity | undefined
  readonly hasMarket: boolean
  readonly empty: string
}) {
  const [count, setCount] = useState(LISTED)
  const deeds = props.activity === undefined ? undefined : deedsOf(props.activity)
  return (
    <>
      <Table
        caption="Activity"
        rows={deeds?.slice(0, count)}
        columns={props.hasMarket ? COLUMNS_WITH_MARKET : COLUMNS}
        keyOf={({ key }) => key}
        empty={props.empty}
        hasCards={props.hasMarket}
      />
      {count < (deeds?.length ?? 0) ? (
        <button type="button" class="plain show-more" onClick={() => setCount(count + LISTED)}>
          Show more
        </button>
      ) : null}
    </>
  )
}

function deedsOf({ activity, settlements }: UserActivity): readonly Deed[] {
  const trades = activity.map((trade): Deed => {
    const isBuyer = trade.role === 'buyer'
    return {
      ...placeOf(trade),
      key: trade.tradeId,
      words: `${isBuyer ? 'Bought' : 'Sold'} ${trade.outcome === 0 ? 'YES' : 'NO'}`,
      tone: isBuyer ? 'up' : 'down',
      size: trade.size,
      price: trade.price,
      amount: `${isBuyer ? '−' : '+'}${money(trade.cost)}`,
    }
  })
  const payouts = settlements.map(
    (payout): Deed => ({
      ...placeOf(payout),
      key: `${payout.marketId}${payout.txHash}`,
      words: `Redeemed ${payout.winningOutcome === 0 ? 'YES' : 'NO'}`,
      tone: '',
      size: undefined,
      price: undefined,
      amount: `+${money(payout.payout)}`,
    }),
  )
  return [...trades, ...payouts].sort((a, b) => b.atSec - a.atSec)
}

function placeOf(one: UserActivity['activity'][number] | UserActivity['settlements'][number]) {
  const { marketId, marketQuestion, status, txHash, timestamp } = one
  return { marketId, question: marketQuestion, status, txHash, atSec: timestamp }
}

function Status({ status, txHash }: Deed) {
  const { text, badge } = STATUSES[status] ?? { text: status, badge: 'badge' }
  return (
    <TransactionLink txHash={txHash} compact>
      <span class={badge}>{text}</span>
    </TransactionLink>
  )
}
