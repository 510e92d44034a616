/** What the account holds, what it cost, what it is worth, and what can be redeemed. */

import { computed } from '@preact/signals'
import { cents, money, NOTHING, roundCents, shares, signedMoney, UNIT } from '../format.ts'
import { marketOf } from '../state/markets.ts'
import { positions, redeem, redeeming, winnerOf } from '../state/own-positions.ts'
import { marketLink } from '../state/router.ts'
import { type Holding, holdingsOf } from './holdings.ts'

export const holdings = computed(() => holdingsOf(positions.value ?? [], marketOf, winnerOf))

export function Positions() {
  return (
    <section class="panel" aria-labelledby="positions">
      <div class="panel-head">
        <h2 id="positions">Positions</h2>
        <span class="badge num">{holdings.value.length}</span>
      </div>
      {positions.value === undefined ? (
        <p class="empty">Loading …</p>
      ) : holdings.value.length === 0 ? (
        <p class="empty">You hold no shares.</p>
      ) : (
        <div class="scroll">
          <table class="table">
            <thead>
              <tr>
                <th scope="col">Market</th>
                <th scope="col">Outcome</th>
                <NumberHead>Shares</NumberHead>
                <NumberHead wide>Average</NumberHead>
                <NumberHead wide>Price</NumberHead>
                <NumberHead wide>Cost</NumberHead>
                <NumberHead>Value</NumberHead>
                <NumberHead>Profit</NumberHead>
                <th scope="col">
                  <span class="hidden-text">Redeem</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {holdings.value.map((holding) => (
                <Row key={`${holding.position.marketId}${holding.outcome}`} {...holding} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

function NumberHead({ children, wide }: { readonly children: string; readonly wide?: boolean }) {
  return (
    <th scope="col" class={wide === true ? 'number wide' : 'number'}>
      {children}
    </th>
  )
}

function Row(holding: Holding) {
  const { position, outcome, cost, price, value, profit } = holding
  const { marketId, marketQuestion, resolved } = position
  const average = Number((cost * UNIT) / holding.shares)
  return (
    <tr>
      <td class="question">
        <a href={marketLink(marketId)}>{marketQuestion}</a>{' '}
        {resolved ? <span class="badge">Resolved</span> : null}
      </td>
      <td class={outcome === 0 ? 'up' : 'down'}>{outcome === 0 ? 'YES' : 'NO'}</td>
      <td class="num number">{shares(holding.shares)}</td>
      <td class="num number wide quiet">{roundCents(average)}</td>
      <td class="num number wide">{price === undefined ? NOTHING : cents(price)}</td>
      <td class="num number wide quiet">{money(cost)}</td>
      <td class="num number">{value === undefined ? NOTHING : money(value)}</td>
      <td class={`num number ${tone(profit)}`}>
        {profit === undefined ? NOTHING : signedMoney(profit)}
      </td>
      <td class="number">
        {resolved && value !== undefined && value > 0n ? (
          <button
            type="button"
            class="small main"
            disabled={redeeming.value.has(marketId)}
            aria-label={`Redeem ${marketQuestion}`}
            onClick={() => void redeem(position)}
          >
            {redeeming.value.has(marketId) ? 'Redeeming …' : 'Redeem'}
          </button>
        ) : null}
      </td>
    </tr>
  )
}

export function tone(amount: bigint | undefined): string {
  if (amount === undefined || amount === 0n) return 'quiet'
  return amount > 0n ? 'up' : 'down'
}
