/**
 * Chart of a quick market: the asset's price against the strike, from the start to the end of the market. While the
 * market runs, the right part of the chart is empty.
 */

import { effect, useSignal } from '@preact/signals'
import {
  BaselineSeries,
  type BaselineSeriesPartialOptions,
  LineStyle,
  type UTCTimestamp,
} from 'lightweight-charts'
import { useEffect, useRef } from 'preact/hooks'
import type { QuickMarket } from '#protocol/shapes/prices.ts'
import { nowSec } from '../state/clock.ts'
import { type AssetStep, assetSteps, assetWords, hasCourse } from './asset-series.ts'
import { createBaseChart, followColours, paintChart } from './base-chart.ts'
import { type ChartColours, readColours } from './chart-colours.ts'
import { oncePerFrame } from './next-frame.ts'
import type { QuickModel } from './quick-model.ts'

/** Number of price units per dollar. Prices have eight implied decimals; the chart library draws dollars. */
const DOLLAR = 100_000_000
/**
 * Minimum range of the price axis, as a fraction of the strike, so that an almost constant price is drawn as
 * a flat line.
 */
const RANGE_MIN = 0.0004

export function AssetChart({ quick }: { readonly quick: QuickModel }) {
  const place = useRef<HTMLDivElement>(null)
  const words = useSignal('')
  const strike = quick.market.value?.startPrice
  useEffect(() => {
    const element = place.current
    if (element === null || strike === undefined) return
    const drawn = drawAsset(element, strike)
    const show = oncePerFrame(() => {
      const market = quick.market.peek()
      if (market === undefined) return
      const steps = assetSteps(market, quick.course.peek(), nowSec.peek())
      drawn.show(steps)
      words.value = assetWords(market, steps, nowSec.peek())
    })
    const stop = effect(() => {
      void [quick.market.value, quick.course.value, nowSec.value]
      show.ask()
    })
    return () => {
      stop()
      show.stop()
      drawn.destroy()
    }
  }, [quick, strike, words])
  return (
    <>
      <div class="chart-place" ref={place} aria-hidden="true" />
      <p class="hidden-text">{words.value}</p>
      <Gap market={quick.market.value} quick={quick} />
    </>
  )
}

/**
 * Shows a note if the market has ended and all its prices between start and end are unknown. The chart is then only a
 * straight line from the start price to the end price.
 */
function Gap(props: { readonly market: QuickMarket | undefined; readonly quick: QuickModel }) {
  const { market, quick } = props
  if (market === undefined || nowSec.value < market.endTime) return null
  if (hasCourse(market, quick.course.value)) return null
  return (
    <p class="chart-note quiet">
      Only the strike and the end price are shown, because prices are kept for 20 minutes.{' '}
    </p>
  )
}

function drawAsset(place: HTMLElement, strikePrice: number) {
  const strike = strikePrice / DOLLAR
  const inDollars = new Intl.NumberFormat('en-US', {
    minimumFractionDigits: 2,
    maximumFractionDigits: 2,
  })
  const chart = createBaseChart(place, { priceFormatter: inDollars.format, rightOffset: 0 })
  // The chart always shows the market from its start to its end, also on a phone. So the chart can be neither moved nor
  // scaled.
  chart.applyOptions({ handleScroll: false, handleScale: false })
  chart.timeScale().applyOptions({ minBarSpacing: 0.05, lockVisibleTimeRangeOnResize: true })
  const series = chart.addSeries(BaselineSeries, {
    baseValue: { type: 'price', price: strike },
    lineWidth: 2,
    priceLineVisible: false,
    priceFormat: { type: 'price', minMove: 0.01 },
    autoscaleInfoProvider: (original: () => { priceRange: Range | null } | null) => {
      const range = original()?.priceRange
      const least = (strike * RANGE_MIN) / 2
      const minValue = Math.min(range?.minValue ?? strike, strike - least)
      const maxValue = Math.max(range?.maxValue ?? strike, strike + least)
      return { priceRange: { minValue, maxValue } }
    },
  })
  const line = series.createPriceLine({
    price: strike,
    title: 'Strike',
    lineStyle: LineStyle.Dashed,
  })
  const recolour = (colours: ChartColours) => {
    paintChart(chart, colours)
    series.applyOptions(coloursOf(colours))
    line.applyOptions({ color: colours.quiet, axisLabelColor: colours.quiet })
  }
  recolour(readColours(place))
  const stop = followColours(place, recolour)
  return {
    show(steps: readonly AssetStep[]) {
      series.setData(
        steps.map(({ sec, price }) => {
          const time = sec as UTCTimestamp
          return price === undefined ? { time } : { time, value: price / DOLLAR }
        }),
      )
      // By default, the chart library shows only times that have prices. The chart must also show the future part of
      // the market, so the range is set here.
      chart.timeScale().setVisibleLogicalRange({ from: 0, to: steps.length })
    },
    destroy() {
      stop()
      chart.remove()
    },
  }
}

type Range = { readonly minValue: number; readonly maxValue: number }

/** Colours the line above the strike like YES, below the strike like NO. The filled areas fade towards the strike. */
function coloursOf({ up, down }: ChartColours): BaselineSeriesPartialOptions {
  const faint = (colour: string, part: number) =>
    colour.replace(/^rgb\((.*)\)$/, `rgba($1, ${part})`)
  return {
    topLineColor: up,
    topFillColor1: faint(up, 0.28),
    topFillColor2: faint(up, 0.04),
    bottomLineColor: down,
    bottomFillColor1: faint(down, 0.04),
    bottomFillColor2: faint(down, 0.28),
  }
}
