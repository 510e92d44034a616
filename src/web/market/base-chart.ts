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

/** Converts the chart library's UTC seconds to a date. */
const dateOf = (time: Time): Date => new Date(Number(time) * 1_000)

/**
 * Largest tick mark type that gets a date as its label. The chart library's types for years, months and days have lower
 * numbers than its types for times.
 */
const DAY_MARK = 2

export function createBaseChart(
  place: HTMLElement,
  options: { readonly priceFormatter: (price: number) => string; readonly rightOffset: number },
): IChartApi {
  return createChart(place, {
    autoSize: true,
    // The logo of the chart library is off, because it brings its own styles. The footer of the page names the
    // library's maker instead.
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

/** Applies the page's colours to the axes, the grid and the background. Lines get their colours elsewhere. */
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

/**
 * Calls `recolour` after the user or the system has switched between light and dark mode. Returns a function
 * that ends these calls.
 */
export function followColours(
  element: HTMLElement,
  recolour: (colours: ChartColours) => void,
): () => void {
  const repaint = () => recolour(readColours(element))
  const stops = [
    onSchemeChange(repaint),
    effect(() => {
      void theme.value
      // Repaint later, because the document gets the new theme only after this effect has run.
      queueMicrotask(repaint)
    }),
  ]
  return () => {
    for (const stop of stops) stop()
  }
}
