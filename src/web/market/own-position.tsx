/** What the account has of this market: shares, what they cost, what they are worth. */

import { money, NOTHING, roundCents, shares, signedMoney } from '../format.ts'
import { account } from '../state/account.ts'
import type { MarketModel } from './market-model.ts'
import { worthOf } from './position-value.ts'
import { midOf } from './ticket-price.ts'

export function OwnPosition({ model }: { readonly model: MarketModel }) {
  const held = model.position.value
  if (account.value === undefined) return null
  const hasAny = held !== undefined && held.yesShares + held.noShares > 0
  return (
    <section class="panel" aria-labelledby="position-title">
      <div class="panel-head">
        <h2 id="position-title">Your position</h2>
      </div>
      {held === undefined ? (
        <p class="empty">Loading …</p>
      ) : hasAny ? (
        <div class="scroll">
          <table class="table">
            <thead>
              <tr>
                <th scope="col">Outcome</th>
                <th scope="col" class="number">
                  Shares
                </th>
                <th scope="col" class="number">
                  Average
                </th>
                <th scope="col" class="number">
                  Cost
                </th>
                <th scope="col" class="number">
                  Value
                </th>
                <th scope="col" class="number">
                  Profit
                </th>
              </tr>
            </thead>
            <tbody>
              <Held model={model} which={0} count={held.yesShares} cost={held.yesCost} />
              <Held model={model} which={1} count={held.noShares} cost={held.noCost} />
            </tbody>
          </table>
        </div>
      ) : (
        <p class="empty">You have no shares of this market.</p>
      )}
    </section>
  )
}

function Held(props: {
  readonly model: MarketModel
  readonly which: 0 | 1
  readonly count: number
  readonly cost: number
}) {
  const { which, count, cost } = props
  if (count === 0) return null
  const worth = worthOf({ shares: count, cost }, priceOf(props.model, which))
  const colour = worth === undefined || worth.profit === 0n ? '' : worth.profit > 0n ? 'up' : 'down'
  return (
    <tr>
      <td class={which === 0 ? 'up' : 'down'}>{which === 0 ? 'YES' : 'NO'}</td>
      <td class="num number">{shares(count)}</td>
      <td class="num number quiet">
        {worth?.averageCost === undefined ? NOTHING : roundCents(worth.averageCost)}
      </td>
      <td class="num number">{money(cost)}</td>
      <td class="num number">{worth === undefined ? NOTHING : money(worth.value)}</td>
      <td class={`num number ${colour}`}>
        {worth === undefined ? NOTHING : signedMoney(worth.profit)}
      </td>
    </tr>
  )
}

/** What one share is worth now: all or nothing when it is decided, else the mid, else the last price. */
function priceOf(model: MarketModel, which: 0 | 1): number | undefined {
  const winner = model.resolution.value?.winningOutcome
  if (winner !== undefined) return winner === which ? 1_000_000 : 0
  const market = model.market.value
  if (market === undefined || market === null) return undefined
  const last = market.lastPrices?.[which] ?? 0
  const mid = midOf({ bid: market.bestBidPrices[which], ask: market.bestAskPrices[which] })
  return mid ?? (last > 0 ? last : undefined)
}
