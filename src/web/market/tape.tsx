/** Live trades of the market, each with its settlement status. */

import { cents, decimal } from '../format.ts'
import { account } from '../state/account.ts'
import { type Column, Table } from '../table.tsx'
import type { MarketModel } from './market-model.ts'
import { ownLegOf, type TapeTrade } from './tape-merge.ts'
import { TransactionLink } from './transaction-link.tsx'

/** Number of rows that fit on the page. Older trades are available from the API. */
const SHOWN = 40

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
})

const COLUMNS: readonly Column<TapeTrade>[] = [
  { name: 'Time', class: 'num', tone: 'quiet', cell: ({ ts }) => clock.format(ts) },
  {
    name: 'Of',
    tone: ({ outcome }) => (outcome === 0 ? 'up' : 'down'),
    cell: (trade) => <Of trade={trade} />,
  },
  {
    name: 'Price',
    isNumber: true,
    cell: ({ takerSide, price }) => (
      <>
        <TakerSign side={takerSide} />
        {cents(price)}
      </>
    ),
  },
  { name: 'Shares', isNumber: true, cell: ({ size }) => decimal(size, 2) },
  { name: 'Chain', cell: (trade) => <TradeStatus {...trade} /> },
]

export function Tape({ model }: { readonly model: MarketModel }) {
  const trades = model.tape.value.slice(0, SHOWN)
  return (
    <section class="panel tape" aria-labelledby="tape-title">
      <div class="panel-head">
        <h2 id="tape-title">Trades</h2>
      </div>
      <Table
        caption="Trades"
        rows={trades}
        columns={COLUMNS}
        keyOf={({ tradeId }) => tradeId}
        empty="No trades yet."
        class="tape-table"
        rowClass={(trade) => (ownLeg(trade) === undefined ? '' : 'tape-own')}
      />
    </section>
  )
}

function ownLeg(trade: TapeTrade) {
  return ownLegOf(trade, account.value?.address)
}

const KIND_WORDS = {
  mint: 'Both traders bought: their dollars were split into YES and NO',
  merge: 'Both traders sold: their YES and NO were merged into dollars',
} as const

function Of({ trade }: { readonly trade: TapeTrade }) {
  const own = ownLeg(trade)
  const { kind } = trade
  return (
    <>
      {trade.outcome === 0 ? 'YES' : 'NO'}
      {kind === undefined ? null : (
        <span class="badge" title={KIND_WORDS[kind]}>
          {kind}
        </span>
      )}
      {own === undefined ? null : (
        <span class="hidden-text">
          {own.side === 'buy' ? ', you bought ' : ', you sold '}
          {own.outcome === 0 ? 'YES' : 'NO'}
        </span>
      )}
    </>
  )
}

/** Shows whether the taker bought or sold. */
function TakerSign({ side }: { readonly side: 0 | 1 | undefined }) {
  if (side === undefined) return null
  return (
    <span class={side === 0 ? 'up' : 'down'}>
      <span aria-hidden="true">{side === 0 ? '▲' : '▼'} </span>
      <span class="hidden-text">{side === 0 ? 'bought at ' : 'sold at '}</span>
    </span>
  )
}

const STATUS_CLASSES: Readonly<Record<string, string>> = {
  confirmed: 'badge badge-up',
  failed: 'badge badge-down',
  reverted: 'badge badge-warn',
  submitted: 'badge badge-warn',
}

function TradeStatus(props: {
  readonly status: string
  readonly txHash: string
  readonly reason: string
}) {
  const { status, txHash, reason } = props
  const badge = (
    <span class={STATUS_CLASSES[status] ?? 'badge'} title={reason || undefined}>
      {status}
    </span>
  )
  return (
    <TransactionLink txHash={txHash} compact>
      {badge}
    </TransactionLink>
  )
}
