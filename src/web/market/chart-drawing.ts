/** The chart itself: lines of both outcomes, or candles of one, with the account's own fills. */

import {
  type AutoscaleInfo,
  type CandlestickData,
  CandlestickSeries,
  createChart,
  createSeriesMarkers,
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
import type { Candle } from './candle-series.ts'
import type { ChartColours } from './chart-colours.ts'

export type ChartMode = 'line' | 'candles'

export type OwnFill = {
  readonly sec: number
  readonly side: 'buy' | 'sell'
  readonly text: string
}

export type PriceChart = {
  /** One array for candles, two for lines: YES and NO. */
  show(mode: ChartMode, all: readonly (readonly Candle[])[]): void
  /** The last candle of a series, changed or new. */
  update(series: number, candle: Candle): void
  mark(fills: readonly OwnFill[]): void
  recolour(colours: ChartColours): void
  destroy(): void
}

type Drawn = ISeriesApi<'Candlestick'> | ISeriesApi<'Line'>

const hour = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  hour12: false,
})
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

/** The library counts in UTC; a person reads the time of the place. */
const dateOf = (time: Time): Date => new Date(Number(time) * 1_000)
const timeOf = (candle: Candle) => candle.timestamp as UTCTimestamp

export function drawChart(place: HTMLElement, first: ChartColours): PriceChart {
  let colours = first
  let mode: ChartMode = 'line'
  let drawn: Drawn[] = []
  let markers: ISeriesMarkersPluginApi<Time> | undefined
  let fills: readonly OwnFill[] = []

  const chart = createChart(place, {
    autoSize: true,
    // The page names the maker of the library in its footer; the logo would bring styles of its own.
    layout: {
      attributionLogo: false,
      fontFamily: getComputedStyle(place).fontFamily,
      fontSize: 11,
    },
    handleScale: { axisPressedMouseMove: { price: false } },
    handleScroll: { vertTouchDrag: false },
    localization: {
      priceFormatter: (price: number) => roundCents(price),
      timeFormatter: (time: Time) => whole.format(dateOf(time)),
    },
    timeScale: {
      timeVisible: true,
      rightOffset: 3,
      maxBarSpacing: 24,
      tickMarkFormatter: (time: Time, type: number) =>
        (type <= DAY_MARK ? day : hour).format(dateOf(time)),
    },
  })

  function paint(): void {
    const { line, quiet, panel } = colours
    chart.applyOptions({
      layout: { background: { color: panel }, textColor: quiet },
      grid: { vertLines: { color: line }, horzLines: { color: line } },
      rightPriceScale: { borderColor: line, scaleMargins: { top: 0.12, bottom: 0.12 } },
      timeScale: { borderColor: line },
      crosshair: {
        vertLine: { color: quiet, labelBackgroundColor: quiet },
        horzLine: { color: quiet, labelBackgroundColor: quiet },
      },
    })
  }

  function seriesOf(which: number): Drawn {
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

  const pointOf = (candle: Candle): CandlestickData | LineData =>
    mode === 'candles'
      ? {
          time: timeOf(candle),
          open: candle.open,
          high: candle.high,
          low: candle.low,
          close: candle.close,
        }
      : { time: timeOf(candle), value: candle.close }

  function showFills(): void {
    markers?.setMarkers(
      fills.map(
        ({ sec, side, text }): SeriesMarker<Time> => ({
          time: sec as UTCTimestamp,
          position: side === 'buy' ? 'belowBar' : 'aboveBar',
          shape: side === 'buy' ? 'arrowUp' : 'arrowDown',
          color: colours.accent,
          text,
        }),
      ),
    )
  }

  paint()
  return {
    show(wanted, all) {
      for (const series of drawn) chart.removeSeries(series)
      mode = wanted
      drawn = all.map((candles, which) => {
        const series = seriesOf(which)
        // Which kind of point fits which kind of series follows from the mode.
        series.setData(candles.map(pointOf) as never)
        return series
      })
      markers = drawn[0] === undefined ? undefined : createSeriesMarkers(drawn[0], [])
      showFills()
      chart.timeScale().fitContent()
    },
    update(which, candle) {
      drawn[which]?.update(pointOf(candle) as never)
    },
    mark(own) {
      fills = own
      showFills()
    },
    recolour(next) {
      colours = next
      paint()
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
      showFills()
    },
    destroy: () => chart.remove(),
  }
}

/** A price that hardly moves is a flat line, and not a picture of its last digits. */
function roomFor(original: () => AutoscaleInfo | null): AutoscaleInfo | null {
  const found = original()
  const range = found?.priceRange
  if (!range) return found
  const lacking = Math.max(0, RANGE_MIN - (range.maxValue - range.minValue)) / 2
  const minValue = Math.max(0, range.minValue - lacking)
  return { ...found, priceRange: { minValue, maxValue: Math.min(ONE, range.maxValue + lacking) } }
}

/** Ten cents. */
const RANGE_MIN = 100_000

/** Of the library's kinds of marks: years, months and days come before times. */
const DAY_MARK = 2
