/** The account's position in this market: shares, cost and value. */

import { money, NOTHING, roundCents, shares, signedMoney } from '../format.ts'
import { account } from '../state/account.ts'
import type { TradeIntent } from '../state/router.ts'
import { type Column, Table } from '../table.tsx'
import { FullSets } from './full-sets.tsx'
import type { Outcome } from './market-book.ts'
import type { MarketModel } from './market-model.ts'
import { worthOf } from './position-value.ts'
import { midOf } from './ticket-price.ts'

export function OwnPosition(props: {
  readonly model: MarketModel
  readonly prepare: (intent: TradeIntent) => void
}) {
  const { model, prepare } = props
  const held = model.position.value
  const isOpen = model.market.value?.status === 'open'
  if (account.value === undefined) return null
  return (
    <section class="panel" aria-labelledby="position-title">
      <div class="panel-head">
        <h2 id="position-title">Your position</h2>
      </div>
      <Table
        caption="Your position"
        rows={held === undefined ? undefined : holdingsOf(model, held)}
        columns={isOpen ? [...COLUMNS, sellColumn(prepare)] : COLUMNS}
        keyOf={({ outcome }) => outcome}
        empty="You have no shares of this market."
        hasCards
      />
      {isOpen ? <FullSets model={model} /> : null}
    </section>
  )
}

type Holding = {
  readonly outcome: Outcome
  readonly count: number
  readonly cost: number
  readonly worth: ReturnType<typeof worthOf>
}

function holdingsOf(
  model: MarketModel,
  held: NonNullable<MarketModel['position']['value']>,
): readonly Holding[] {
  const all = [
    { outcome: 'YES', count: held.yesShares, cost: held.yesCost, price: priceOf(model, 0) },
    { outcome: 'NO', count: held.noShares, cost: held.noCost, price: priceOf(model, 1) },
  ] as const
  return all
    .filter(({ count }) => count > 0)
    .map(({ price, ...one }) => ({
      ...one,
      worth: worthOf({ shares: one.count, cost: one.cost }, price),
    }))
}

const COLUMNS: readonly Column<Holding>[] = [
  {
    name: 'Outcome',
    tone: ({ outcome }) => (outcome === 'YES' ? 'up' : 'down'),
    cell: ({ outcome }) => outcome,
  },
  { name: 'Shares', isNumber: true, cell: ({ count }) => shares(count) },
  {
    name: 'Average',
    isNumber: true,
    tone: 'quiet',
    cell: ({ worth }) =>
      worth?.averageCost === undefined ? NOTHING : roundCents(worth.averageCost),
  },
  { name: 'Cost', isNumber: true, cell: ({ cost }) => money(cost) },
  {
    name: 'Value',
    isNumber: true,
    cell: ({ worth }) => (worth === undefined ? NOTHING : money(worth.value)),
  },
  {
    name: 'Profit',
    isNumber: true,
    tone: ({ worth }) =>
      worth === undefined || worth.profit === 0n ? '' : worth.profit > 0n ? 'up' : 'down',
    cell: ({ worth }) => (worth === undefined ? NOTHING : signedMoney(worth.profit)),
  },
]

/** Returns the column with a button that prepares the sale of all shares of an outcome in the ticket. */
function sellColumn(prepare: (intent: TradeIntent) => void): Column<Holding> {
  return {
    name: 'Sell',
    isNameHidden: true,
    class: 'number',
    cell: ({ outcome }) => (
      <button
        type="button"
        class="small"
        aria-label={`Sell all ${outcome}`}
        onClick={() => prepare({ side: 'sell', outcome })}
      >
        Sell
      </button>
    ),
  }
}

/**
 * Returns the current value of one share; undefined if it is unknown. In a decided market, a share is worth one dollar
 * or nothing. Otherwise its value is the mid, or the last price if there is no mid.
 */
function priceOf(model: MarketModel, which: 0 | 1): number | undefined {
  const winner = model.resolution.value?.winningOutcome
  if (winner !== undefined) return winner === which ? 1_000_000 : 0
  const market = model.market.value
  if (market === undefined || market === null) return undefined
  const last = market.lastPrices?.[which] ?? 0
  const mid = midOf({ bid: market.bestBidPrices[which], ask: market.bestAskPrices[which] })
  return mid ?? (last > 0 ? last : undefined)
}
