/** Draws the price chart: lines of both outcomes, or candles of one outcome, with marks for trades. */

import {
  type AutoscaleInfo,
  type CandlestickData,
  CandlestickSeries,
  createSeriesMarkers,
  type IChartApi,
  type ISeriesApi,
  type ISeriesMarkersPluginApi,
  type LineData,
  LineSeries,
  type SeriesMarker,
  type Time,
  type UTCTimestamp,
} from 'lightweight-charts'
import { ONE } from '#domain/money.ts'
import { roundCents } from '../format.ts'
import { createBaseChart, paintChart } from './base-chart.ts'
import type { Candle } from './candle-series.ts'
import type { ChartColours } from './chart-colours.ts'
import type { TradeMark } from './trade-marks.ts'

export type ChartMode = 'line' | 'candles'

export type DrawnChart = {
  /** Shows new candles. `all` has one array in candle mode, and two arrays (YES and NO) in line mode. */
  show(mode: ChartMode, all: readonly (readonly Candle[])[]): void
  /** Replaces the last candle of a series, or appends a candle. */
  update(series: number, candle: Candle): void
  mark(marks: readonly TradeMark[]): void
  recolour(colours: ChartColours): void
  destroy(): void
}

type Drawn = ISeriesApi<'Candlestick'> | ISeriesApi<'Line'>

const timeOf = (candle: Candle) => candle.timestamp as UTCTimestamp

export function drawChart(place: HTMLElement, first: ChartColours): DrawnChart {
  let colours = first
  let mode: ChartMode = 'line'
  let drawn: Drawn[] = []
  let markers: readonly ISeriesMarkersPluginApi<Time>[] = []
  let marks: readonly TradeMark[] = []

  const chart = createBaseChart(place, { priceFormatter: roundCents, rightOffset: RIGHT_BARS })

  function showMarks(): void {
    for (const [which, one] of markers.entries()) {
      one.setMarkers(
        marks.filter(({ series }) => series === which).map((mark) => markerOf(mark, colours)),
      )
    }
  }

  paintChart(chart, colours)
  return {
    show(wanted, all) {
      for (const series of drawn) chart.removeSeries(series)
      mode = wanted
      drawn = all.map((candles, which) => {
        const series = addSeries(chart, { mode, colours, which })
        // The cast is safe, because `mode` determines both the type of the series and the type of its points.
        series.setData(candles.map((candle) => pointOf(candle, mode)) as never)
        return series
      })
      markers = drawn.map((series) => createSeriesMarkers(series as ISeriesApi<'Line'>, []))
      showMarks()
      // A mark may be wider than its candle, because it includes text. So leave some space before the first candle.
      const bars = new Set(all.flatMap((candles) => candles.map(timeOf))).size
      if (bars === 0) return
      chart
        .timeScale()
        .setVisibleLogicalRange({ from: -bars * LEFT_ROOM, to: bars - 1 + RIGHT_BARS })
    },
    update(which, candle) {
      drawn[which]?.update(pointOf(candle, mode) as never)
    },
    mark(wanted) {
      marks = wanted
      showMarks()
    },
    recolour(next) {
      colours = next
      paintChart(chart, colours)
      for (const [which, series] of drawn.entries()) {
        const { up, down } = colours
        if (mode === 'line') series.applyOptions({ color: which === 0 ? up : down })
        else
          series.applyOptions({
            upColor: up,
            downColor: down,
            wickUpColor: up,
            wickDownColor: down,
          })
      }
      showMarks()
    },
    destroy: () => chart.remove(),
  }
}

function addSeries(
  chart: IChartApi,
  { mode, colours, which }: { mode: ChartMode; colours: ChartColours; which: number },
): Drawn {
  const { up, down } = colours
  const shared = {
    priceFormat: { type: 'price', minMove: 1 },
    autoscaleInfoProvider: roomFor,
  } as const
  if (mode === 'candles') {
    const wick = { wickUpColor: up, wickDownColor: down, borderVisible: false }
    return chart.addSeries(CandlestickSeries, {
      upColor: up,
      downColor: down,
      ...wick,
      ...shared,
    })
  }
  const color = which === 0 ? up : down
  const title = which === 0 ? 'YES' : 'NO'
  return chart.addSeries(LineSeries, { color, title, lineWidth: 2, ...shared })
}

const pointOf = (candle: Candle, mode: ChartMode): CandlestickData | LineData =>
  mode === 'candles'
    ? {
        time: timeOf(candle),
        open: candle.open,
        high: candle.high,
        low: candle.low,
        close: candle.close,
      }
    : { time: timeOf(candle), value: candle.close }

function markerOf(
  { series, sec, kind, price, text }: TradeMark,
  colours: ChartColours,
): SeriesMarker<Time> {
  const time = sec as UTCTimestamp
  if (kind === 'other') {
    const color = series === 0 ? colours.up : colours.down
    return { time, position: 'atPriceMiddle', price, shape: 'circle', color, size: 0.5 }
  }
  return {
    time,
    position: kind === 'buy' ? 'belowBar' : 'aboveBar',
    shape: kind === 'buy' ? 'arrowUp' : 'arrowDown',
    color: colours.accent,
    text,
  }
}

/** Enlarges a small price range, so that an almost constant price is drawn as a flat line. */
function roomFor(original: () => AutoscaleInfo | null): AutoscaleInfo | null {
  const found = original()
  const range = found?.priceRange
  if (!range) return found
  const lacking = Math.max(0, RANGE_MIN - (range.maxValue - range.minValue)) / 2
  const minValue = Math.max(0, range.minValue - lacking)
  return { ...found, priceRange: { minValue, maxValue: Math.min(ONE, range.maxValue + lacking) } }
}

/** Fraction of the width that stays free before the first candle. */
const LEFT_ROOM = 0.04

/** Number of candle widths that stay free after the last candle. */
const RIGHT_BARS = 3

/** Ten cents. */
const RANGE_MIN = 100_000
