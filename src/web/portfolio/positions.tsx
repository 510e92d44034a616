/** Positions of the account: shares, cost, value, and redemptions. */

import { computed } from '@preact/signals'
import { cents, money, NOTHING, roundCents, shares, signedMoney, UNIT } from '../format.ts'
import { marketOf } from '../state/markets.ts'
import { positions, redeem, redeeming, winnerOf } from '../state/own-positions.ts'
import { marketLink } from '../state/router.ts'
import { type Column, Table } from '../table.tsx'
import { type Holding, holdingsOf } from './holdings.ts'
import { positionsCsv } from './positions-csv.ts'

export const holdings = computed(() => holdingsOf(positions.value ?? [], marketOf, winnerOf))

const COLUMNS: readonly Column<Holding>[] = [
  { name: 'Market', class: 'question', cell: Market },
  {
    name: 'Outcome',
    tone: ({ outcome }) => (outcome === 0 ? 'up' : 'down'),
    cell: ({ outcome }) => (outcome === 0 ? 'YES' : 'NO'),
  },
  { name: 'Shares', isNumber: true, cell: (held) => shares(held.shares) },
  { name: 'Average', isNumber: true, isWide: true, tone: 'quiet', cell: averageOf },
  {
    name: 'Price',
    isNumber: true,
    isWide: true,
    cell: ({ price }) => (price === undefined ? NOTHING : cents(price)),
  },
  {
    name: 'Cost',
    isNumber: true,
    isWide: true,
    tone: 'quiet',
    cell: ({ cost }) => money(cost),
  },
  {
    name: 'Value',
    isNumber: true,
    cell: ({ value }) => (value === undefined ? NOTHING : money(value)),
  },
  {
    name: 'Profit',
    isNumber: true,
    tone: ({ profit }) => tone(profit),
    cell: ({ profit }) => (profit === undefined ? NOTHING : signedMoney(profit)),
  },
  { name: 'Redeem or sell', isNameHidden: true, class: 'number', cell: WayOut },
]

export function Positions() {
  return (
    <section class="panel" aria-labelledby="positions">
      <div class="panel-head">
        <h2 id="positions">Positions</h2>
        <span class="badge num">{holdings.value.length}</span>
        <span class="space" />
        <button
          type="button"
          class="small"
          disabled={holdings.value.length === 0}
          onClick={() => download('positions.csv', positionsCsv(holdings.value))}
        >
          Export CSV
        </button>
      </div>
      <Table
        caption="Positions"
        rows={positions.value === undefined ? undefined : holdings.value}
        columns={COLUMNS}
        keyOf={({ position, outcome }) => `${position.marketId}${outcome}`}
        empty="You hold no shares."
        hasCards
      />
    </section>
  )
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv;charset=utf-8' }))
  const link = Object.assign(document.createElement('a'), { href: url, download: name })
  link.click()
  URL.revokeObjectURL(url)
}

function averageOf({ cost, shares: held }: Holding): string {
  return roundCents(Number((cost * UNIT) / held))
}

function Market({ position }: Holding) {
  return (
    <>
      <a href={marketLink(position.marketId)}>{position.marketQuestion}</a>{' '}
      {position.resolved ? <span class="badge">Resolved</span> : null}
    </>
  )
}

/**
 * The button that closes a position. Shares of a decided market are redeemed, and shares of an open market are sold.
 */
function WayOut(held: Holding) {
  const { marketId, marketQuestion, resolved } = held.position
  if (resolved) return <Redeem {...held} />
  if (marketOf(marketId)?.status !== 'open') return null
  const outcome = held.outcome === 0 ? 'YES' : 'NO'
  return (
    <a
      class="button small"
      aria-label={`Sell ${outcome} of ${marketQuestion}`}
      href={marketLink(marketId, { side: 'sell', outcome })}
    >
      Sell
    </a>
  )
}

function Redeem({ position, value }: Holding) {
  const { marketId, marketQuestion, resolved } = position
  if (!resolved || value === undefined || value === 0n) return null
  const isBusy = redeeming.value.has(marketId)
  return (
    <button
      type="button"
      class="small main"
      disabled={isBusy}
      aria-label={`Redeem ${marketQuestion}`}
      onClick={() => void redeem(position)}
    >
      {isBusy ? 'Redeeming …' : 'Redeem'}
    </button>
  )
}

export function tone(amount: bigint | undefined): string {
  if (amount === undefined || amount === 0n) return 'quiet'
  return amount > 0n ? 'up' : 'down'
}
