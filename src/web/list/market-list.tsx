/** All markets. */

import { NOTHING, percent, timeLeft } from '../format.ts'
import { secondsUntil } from '../state/clock.ts'
import { markets } from '../state/markets.ts'
import { marketLink } from '../state/router.ts'
import { QuickStrip } from './quick-strip.tsx'

export function MarketList() {
  const all = markets.value
  if (all === undefined) return <p class="empty">Loading markets …</p>
  return (
    <>
      <h1 class="hidden-text">Markets</h1>
      <QuickStrip />
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Market</th>
            <th scope="col" class="number">
              Ask
            </th>
            <th scope="col" class="number">
              Ends
            </th>
          </tr>
        </thead>
        <tbody>
          {all.map((market) => (
            <tr key={market.id}>
              <td>
                <a href={marketLink(market.id)}>{market.question}</a>
              </td>
              <td class="num number">
                {market.bestAskPrice === 0 ? NOTHING : percent(market.bestAskPrice)}
              </td>
              <td class="num number">{timeLeft(secondsUntil(market.expiration))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  )
}
