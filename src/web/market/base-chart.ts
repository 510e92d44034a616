/** Common parts of all charts over time: axes, local times, and the colours of the page. */

import { effect } from '@preact/signals'
import { createChart, type IChartApi, type Time } from 'lightweight-charts'
import { theme } from '../state/theme.ts'
import { type ChartColours, onSchemeChange, readColours } from './chart-colours.ts'

const hour = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  hour12: false,
})
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

/** Converts the library's UTC seconds to local time. */
const dateOf = (time: Time): Date => new Date(Number(time) * 1_000)

/** The library numbers tick marks of years, months and days first; times come after them. */
const DAY_MARK = 2

export function createBaseChart(
  place: HTMLElement,
  options: { readonly priceFormatter: (price: number) => string; readonly rightOffset: number },
): IChartApi {
  return createChart(place, {
    autoSize: true,
    // The logo is off, because it brings its own styles; the footer of the page names the library's maker.
    layout: {
      attributionLogo: false,
      fontFamily: getComputedStyle(place).fontFamily,
      fontSize: 11,
    },
    handleScale: { axisPressedMouseMove: { price: false } },
    handleScroll: { vertTouchDrag: false },
    localization: {
      priceFormatter: options.priceFormatter,
      timeFormatter: (time: Time) => whole.format(dateOf(time)),
    },
    timeScale: {
      timeVisible: true,
      rightOffset: options.rightOffset,
      maxBarSpacing: 24,
      tickMarkFormatter: (time: Time, type: number) =>
        (type <= DAY_MARK ? day : hour).format(dateOf(time)),
    },
  })
}

/** Paints the axes; the lines have their own colours. */
export function paintChart(chart: IChartApi, { line, quiet, panel }: ChartColours): void {
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

/** Calls `recolour` after a switch between light and dark mode, by the system or the user. */
export function followColours(
  element: HTMLElement,
  recolour: (colours: ChartColours) => void,
): () => void {
  const repaint = () => recolour(readColours(element))
  const stops = [
    onSchemeChange(repaint),
    effect(() => {
      void theme.value
      // The document gets the new theme after this effect has run.
      queueMicrotask(repaint)
    }),
  ]
  return () => {
    for (const stop of stops) stop()
  }
}
