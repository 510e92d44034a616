/** What has happened to the account: trades and payouts, the newest first. */

import { trimEnd } from '#domain/trim-end.ts'
import { ago, cents, money, shares } from '../format.ts'
import { nowSec } from '../state/clock.ts'
import { chain } from '../state/exchange.ts'
import { ownTrades, payouts } from '../state/own-positions.ts'
import type { OwnTrade, Payout } from '../state/reads.ts'
import { marketLink } from '../state/router.ts'

/** How far a trade or a payout is, in words. */
const STATUSES: Readonly<Record<string, { readonly text: string; readonly badge: string }>> = {
  matched: { text: 'Settling', badge: 'badge' },
  submitted: { text: 'Settling', badge: 'badge' },
  reverted: { text: 'Settling again', badge: 'badge badge-warn' },
  confirmed: { text: 'Settled', badge: 'badge badge-up' },
  failed: { text: 'Failed', badge: 'badge badge-down' },
  pending: { text: 'On its way', badge: 'badge' },
}

export function Activity() {
  const trades = ownTrades.value
  const rows = [
    ...(trades ?? []).map((trade) => ({
      at: trade.timestamp,
      row: <TradeRow key={trade.tradeId} {...trade} />,
    })),
    ...payouts.value.map((payout) => ({
      at: payout.timestamp,
      row: <PayoutRow key={`${payout.marketId}${payout.txHash}`} {...payout} />,
    })),
  ].sort((a, b) => b.at - a.at)
  return (
    <section class="panel" aria-labelledby="activity">
      <div class="panel-head">
        <h2 id="activity">Activity</h2>
      </div>
      {trades === undefined ? (
        <p class="empty">Loading …</p>
      ) : rows.length === 0 ? (
        <p class="empty">Nothing has happened yet.</p>
      ) : (
        <div class="scroll">
          <table class="table">
            <thead>
              <tr>
                <th scope="col">Market</th>
                <th scope="col">What</th>
                <th scope="col" class="number wide">
                  Shares
                </th>
                <th scope="col" class="number wide">
                  Price
                </th>
                <th scope="col" class="number">
                  Amount
                </th>
                <th scope="col">State</th>
                <th scope="col" class="number wide">
                  When
                </th>
              </tr>
            </thead>
            <tbody>{rows.map(({ row }) => row)}</tbody>
          </table>
        </div>
      )}
    </section>
  )
}

function TradeRow(trade: OwnTrade) {
  const { marketId, marketQuestion, role, outcome, price, size, cost, status, timestamp } = trade
  const isBuyer = role === 'buyer'
  return (
    <tr>
      <td class="question">
        <a href={marketLink(marketId)}>{marketQuestion}</a>
      </td>
      <td class={isBuyer ? 'up' : 'down'}>
        {isBuyer ? 'Bought' : 'Sold'} {outcome === 0 ? 'YES' : 'NO'}
      </td>
      <td class="num number wide">{shares(size)}</td>
      <td class="num number wide">{cents(price)}</td>
      <td class="num number">{isBuyer ? `−${money(cost)}` : `+${money(cost)}`}</td>
      <td>
        <Status status={status} txHash={trade.txHash} />
      </td>
      <td class="num number wide quiet">{ago(nowSec.value - timestamp)}</td>
    </tr>
  )
}

function PayoutRow({ marketId, marketQuestion, payout, status, txHash, timestamp }: Payout) {
  return (
    <tr>
      <td class="question">
        <a href={marketLink(marketId)}>{marketQuestion}</a>
      </td>
      <td>Redeemed</td>
      <td class="wide" />
      <td class="wide" />
      <td class="num number">+{money(payout)}</td>
      <td>
        <Status status={status} txHash={txHash} />
      </td>
      <td class="num number wide quiet">{ago(nowSec.value - timestamp)}</td>
    </tr>
  )
}

/** With the way to its transaction, where the chain has a page for it. */
function Status({ status, txHash }: { readonly status: string; readonly txHash: string }) {
  const { text, badge } = STATUSES[status] ?? { text: status, badge: 'badge' }
  const explorer = chain.value?.blockExplorer
  if (explorer === undefined || txHash === '')
    return (
      <span class={badge} title={txHash}>
        {text}
      </span>
    )
  return (
    <a
      class={badge}
      href={`${trimEnd(explorer, '/')}/tx/${txHash}`}
      rel="noreferrer"
      target="_blank"
    >
      {text}
    </a>
  )
}
