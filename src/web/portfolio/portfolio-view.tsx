/** The account: money, positions, open orders, and activity. */

import { useEffect } from 'preact/hooks'
import { money, NOTHING, signedMoney } from '../format.ts'
import { account } from '../state/account.ts'
import { freeStablecoin, funds } from '../state/funds.ts'
import { ownOrders } from '../state/own-orders.ts'
import { realisedProfit, watchPositions } from '../state/own-positions.ts'
import { Activity } from './activity.tsx'
import { FaucetPanel } from './faucet-panel.tsx'
import { totalsOf } from './holdings.ts'
import { OpenOrders } from './open-orders.tsx'
import { Permissions } from './permissions.tsx'
import { holdings, Positions, tone } from './positions.tsx'
import { SessionPanel } from './session-panel.tsx'

export function PortfolioView() {
  useEffect(watchPositions, [])
  if (account.value === undefined) {
    return <p class="empty">Connect an account to see your orders and positions.</p>
  }
  return (
    <div class="portfolio">
      <h1 class="hidden-text">Portfolio</h1>
      <Sums />
      <FaucetPanel />
      <Permissions />
      <SessionPanel />
      <Positions />
      <OpenOrders />
      <Activity />
    </div>
  )
}

const OF_ALL = 'From shares that you sold, merged or redeemed, in all markets'

function Sums() {
  const { value, profit, isWhole } = totalsOf(holdings.value)
  const about = isWhole ? '' : 'Positions without a price are not included'
  const balance = funds.value?.stablecoin
  const free = freeStablecoin.value
  const made = realisedProfit.value
  return (
    <dl class="sums">
      <Sum name="Balance">{balance === undefined ? NOTHING : money(balance)}</Sum>
      {free === undefined ? null : <Sum name="Free for orders">{money(free)}</Sum>}
      <Sum name="Positions" about={about}>
        {value === undefined ? NOTHING : money(value)}
      </Sum>
      <Sum name="Unrealised profit" about={about} tone={tone(profit)}>
        {profit === undefined ? NOTHING : signedMoney(profit)}
      </Sum>
      <Sum name="Realised profit" about={OF_ALL} tone={tone(made)}>
        {made === undefined ? NOTHING : signedMoney(made)}
      </Sum>
      <Sum name="Open orders">{String(ownOrders.value?.length ?? NOTHING)}</Sum>
    </dl>
  )
}

function Sum(props: {
  readonly name: string
  readonly children: string
  readonly about?: string
  readonly tone?: string
}) {
  return (
    <div class="panel sum" title={props.about}>
      <dt class="quiet">{props.name}</dt>
      <dd class={`num ${props.tone ?? ''}`}>{props.children}</dd>
    </div>
  )
}
