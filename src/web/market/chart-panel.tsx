/**
 * The panel of charts: prices of the outcomes as lines or candles, the depth of the book, and the price of a quick
 * market's asset.
 */

import { useState } from 'preact/hooks'
import { countdown } from '../format.ts'
import { nowSec } from '../state/clock.ts'
import { AssetChart } from './asset-chart.tsx'
import { INTERVALS, type Interval } from './candle-series.ts'
import { DepthChart } from './depth-chart.tsx'
import type { MarketModel } from './market-model.ts'
import { OutcomeSwitch } from './outcome-switch.tsx'
import { PriceChart } from './price-chart.tsx'
import type { QuickModel } from './quick-model.ts'

type Kind = 'asset' | 'line' | 'candles' | 'depth'

const NAMES = Object.keys(INTERVALS) as Interval[]

export function ChartPanel(props: {
  readonly model: MarketModel
  readonly quick: QuickModel
  readonly first: Interval
  /** True if the market is open, so that its book can be drawn. */
  readonly isOpen: boolean
}) {
  const { model, quick } = props
  const [interval, setInterval] = useState<Interval>(props.first)
  const [chosen, choose] = useState<Kind | undefined>(undefined)
  const [isMid, setMid] = useState(false)
  const asset = quick.market.value?.asset
  const kinds: readonly (readonly [Kind, string])[] = [
    ...(asset === undefined ? [] : [['asset', asset] as const]),
    ['line', 'Line'],
    ['candles', 'Candles'],
    ...(props.isOpen ? [['depth', 'Depth'] as const] : []),
  ]
  const kind = kinds.find(([one]) => one === chosen)?.[0] ?? kinds[0]![0]
  return (
    <section class="panel chart" aria-label="Price chart">
      <div class="panel-head">
        <h2 class="hidden-text">Chart</h2>
        <fieldset class="switch">
          <legend class="hidden-text">Kind of chart</legend>
          {kinds.map(([one, name]) => (
            <button
              key={one}
              type="button"
              class="small"
              aria-pressed={kind === one}
              onClick={() => choose(one)}
            >
              {name}
            </button>
          ))}
        </fieldset>
        <span class="chart-of quiet">
          <ChartOf kind={kind} model={model} quick={quick} isMid={isMid} />
        </span>
        <span class="space" />
        {kind === 'depth' ? <OutcomeSwitch model={model} /> : null}
        {kind === 'line' || kind === 'candles' ? (
          <fieldset class="switch">
            <legend class="hidden-text">Interval</legend>
            {NAMES.map((one) => (
              <button
                key={one}
                type="button"
                class="small"
                aria-pressed={interval === one}
                onClick={() => setInterval(one)}
              >
                {one}
              </button>
            ))}
          </fieldset>
        ) : null}
      </div>
      {kind === 'asset' ? (
        <AssetChart quick={quick} />
      ) : kind === 'depth' ? (
        <DepthChart model={model} />
      ) : (
        <PriceChart model={model} interval={interval} mode={kind} setMid={setMid} />
      )}
    </section>
  )
}

/** Describes in a few words what the chosen chart shows. */
function ChartOf(props: {
  readonly kind: Kind
  readonly model: MarketModel
  readonly quick: QuickModel
  readonly isMid: boolean
}) {
  const running = props.quick.market.value
  switch (props.kind) {
    case 'asset': {
      const left = (running?.endTime ?? 0) - nowSec.value
      return <>Against the strike{left > 0 ? `, ${countdown(left)} left` : ''}</>
    }
    case 'depth':
      return <>Shares up to each price</>
    case 'line':
      return <>{props.isMid ? 'Mid price: no trades yet' : 'YES and NO'}</>
    case 'candles':
      return <>{props.isMid ? 'Mid price: no trades yet' : props.model.outcome.value}</>
  }
}
