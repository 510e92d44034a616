/** The trades of the market as they happen, each with its way to the chain. */

import { cents, decimal } from '../format.ts'
import { account } from '../state/account.ts'
import type { MarketModel } from './market-model.ts'
import { ownSideOf, type TapeTrade } from './tape-merge.ts'
import { TransactionLink } from './transaction-link.tsx'

/** What fits; older ones are in the API. */
const SHOWN = 40

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
})

export function Tape({ model }: { readonly model: MarketModel }) {
  const trades = model.tape.value.slice(0, SHOWN)
  return (
    <section class="panel tape" aria-labelledby="tape-title">
      <div class="panel-head">
        <h2 id="tape-title">Trades</h2>
      </div>
      {trades.length === 0 ? (
        <p class="empty">No trades yet.</p>
      ) : (
        <div class="tape-rows">
          <table class="table tape-table">
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col">Of</th>
                <th scope="col" class="number">
                  Price
                </th>
                <th scope="col" class="number">
                  Shares
                </th>
                <th scope="col">Chain</th>
              </tr>
            </thead>
            <tbody>
              {trades.map((trade) => (
                <TradeRow key={trade.tradeId} trade={trade} owner={account.value?.address} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

function TradeRow(props: { readonly trade: TapeTrade; readonly owner: string | undefined }) {
  const { trade } = props
  const own = ownSideOf(trade, props.owner)
  return (
    <tr class={own === undefined ? '' : 'tape-own'}>
      <td class="num quiet">{clock.format(trade.ts)}</td>
      <td class={trade.outcome === 0 ? 'up' : 'down'}>
        {trade.outcome === 0 ? 'YES' : 'NO'}
        {own === undefined ? null : (
          <span class="hidden-text">{own === 'buy' ? ', you bought' : ', you sold'}</span>
        )}
      </td>
      <td class="num number">
        <TakerSign side={trade.takerSide} />
        {cents(trade.price)}
      </td>
      <td class="num number">{decimal(trade.size, 2)}</td>
      <td>
        <TradeStatus {...trade} compact />
      </td>
    </tr>
  )
}

/** Whether it was bought or sold into the book. */
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

export function TradeStatus(props: {
  readonly status: string
  readonly txHash: string
  readonly reason?: string
  readonly compact?: boolean
}) {
  const { status, txHash, reason = '', compact = false } = props
  const badge = (
    <span class={STATUS_CLASSES[status] ?? 'badge'} title={reason || undefined}>
      {status}
    </span>
  )
  return (
    <TransactionLink txHash={txHash} compact={compact}>
      {badge}
    </TransactionLink>
  )
}
