/** Prices over time, with the trades of this moment and the account's own. */

import { effect, type Signal, useSignal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { decimal } from '../format.ts'
import { account } from '../state/account.ts'
import { nowSec } from '../state/clock.ts'
import { onReconnect, reader } from '../state/exchange.ts'
import { theme } from '../state/theme.ts'
import { showError } from '../state/toasts.ts'
import {
  type Candle,
  flatLine,
  INTERVALS,
  type Interval,
  nextCandle,
  withoutHoles,
} from './candle-series.ts'
import { onSchemeChange, readColours } from './chart-colours.ts'
import { type ChartMode, drawChart, type OwnFill, type PriceChart } from './chart-drawing.ts'
import { chartWords } from './chart-words.ts'
import { bestOf, type MarketModel, type Outcome } from './market-model.ts'
import { ownSideOf, type TapeTrade } from './tape-merge.ts'

/** More marks than this are shown without their sizes. */
const NAMED_MAX = 8

const NAMES = Object.keys(INTERVALS) as Interval[]

export function PriceChartPanel(props: { readonly model: MarketModel; readonly first: Interval }) {
  const { model } = props
  const [interval, setInterval] = useState<Interval>(props.first)
  const [mode, setMode] = useState<ChartMode>('line')
  const [isEmpty, setEmpty] = useState(false)
  const [isMid, setMid] = useState(false)
  const words = useSignal('')
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<PriceChart | undefined>(undefined)
  const outcome = model.outcome.value

  useEffect(() => {
    const element = place.current
    if (element === null) return
    const drawn = drawChart(element, readColours(element))
    chart.current = drawn
    const recolour = () => drawn.recolour(readColours(element))
    const stops = [
      onSchemeChange(recolour),
      effect(() => {
        void theme.value
        // The document wears the new theme after this.
        queueMicrotask(recolour)
      }),
    ]
    return () => {
      for (const stop of stops) stop()
      drawn.destroy()
      chart.current = undefined
    }
  }, [])

  const candlesOf = mode === 'candles' ? outcome : undefined
  useEffect(() => {
    const shown: readonly Outcome[] = candlesOf === undefined ? ['YES', 'NO'] : [candlesOf]
    return follow({ model, chart, interval, mode, shown, setEmpty, setMid, words })
  }, [model, interval, mode, candlesOf, words])

  return (
    <section class="panel chart" aria-label="Price chart">
      <div class="panel-head">
        <h2 class="hidden-text">Chart</h2>
        <fieldset class="switch">
          <legend class="hidden-text">Kind of chart</legend>
          {(['line', 'candles'] as const).map((one) => (
            <button
              key={one}
              type="button"
              class="small"
              aria-pressed={mode === one}
              onClick={() => setMode(one)}
            >
              {one === 'line' ? 'Line' : 'Candles'}
            </button>
          ))}
        </fieldset>
        <span class="chart-of quiet">
          {isMid ? 'Mid price: no trades yet' : mode === 'line' ? 'YES and NO' : outcome}
        </span>
        <span class="space" />
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
      </div>
      <div class="chart-place" ref={place} aria-hidden="true" data-empty={isEmpty} />
      <p class="hidden-text">{words.value}</p>
      {isEmpty ? <p class="chart-empty quiet">No trades and no orders yet.</p> : null}
    </section>
  )
}

type Followed = {
  readonly model: MarketModel
  readonly chart: { readonly current: PriceChart | undefined }
  readonly interval: Interval
  readonly mode: ChartMode
  readonly shown: readonly Outcome[]
  readonly setEmpty: (isEmpty: boolean) => void
  readonly setMid: (isMid: boolean) => void
  /** What the chart shows, in words. */
  readonly words: Signal<string>
}

/** Reads the candles, and then goes on with the trades of the tape; before the first trade the mid of the book is shown. */
function follow(followed: Followed): () => void {
  const { model, chart, interval, mode, shown, setEmpty, setMid, words } = followed
  const best = bestOf(model)
  let isTraded = false
  const intervalSec = INTERVALS[interval]
  let last: (Candle | undefined)[] | undefined
  /** Trades up to this one are in what was read. */
  let seen: TapeTrade | undefined
  let isOver = false

  async function load(): Promise<void> {
    try {
      const read = await Promise.all(
        shown.map((one) => reader.candles(model.marketId, { outcome: one, interval })),
      )
      if (isOver) return
      const filled = read.map(({ candles }) => withoutHoles(candles, intervalSec, nowSec.peek()))
      last = filled.map((candles) => candles.at(-1))
      seen = model.tape.peek()[0]
      isTraded = filled.some((candles) => candles.length > 0)
      if (isTraded) {
        chart.current?.show(mode, filled)
        words.value = chartWords(shown.map((name, at) => ({ name, candles: filled[at] ?? [] })))
      }
      setMid(false)
      setEmpty(!isTraded)
      showMid(best.peek())
      mark(model.tape.peek())
    } catch (error) {
      if (!isOver) showError(error)
    }
  }

  function showMid({ bid, ask }: { readonly bid: number; readonly ask: number }): void {
    const hasMid = bid > 0 && ask > 0
    if (last === undefined || isTraded) return
    const mid = flatLine((bid + ask) / 2, intervalSec, nowSec.peek())
    const name = model.outcome.peek()
    chart.current?.show('line', hasMid ? (name === 'YES' ? [mid] : [[], mid]) : [])
    words.value = hasMid
      ? `Nobody has traded yet. ${chartWords([{ name: `The mid of ${name}`, candles: mid }])}`
      : chartWords([])
    setMid(hasMid)
    setEmpty(!hasMid)
  }

  function mark(tape: readonly TapeTrade[]): void {
    chart.current?.mark(marksOf(tape, shown, intervalSec))
  }

  function take(tape: readonly TapeTrade[]): void {
    if (last === undefined) return
    const end =
      seen === undefined ? tape.length : tape.findIndex((one) => one.tradeId === seen?.tradeId)
    // Not found: more was traded than a tape has.
    const fresh = tape.slice(0, end === -1 ? tape.length : end).reverse()
    seen = tape[0]
    if (fresh.length > 0 && !isTraded) {
      // The first trade takes the place of the mid.
      void load()
      return
    }
    for (const { outcome, price, ts } of fresh) {
      const at = shown.indexOf(outcome === 0 ? 'YES' : 'NO')
      if (at === -1) continue
      const next = nextCandle(last[at], { price, sec: Math.floor(ts / 1_000) }, intervalSec)
      if (next === undefined) continue
      last[at] = next
      chart.current?.update(at, next)
    }
    mark(tape)
  }

  void load()
  const stops = [
    effect(() => {
      void account.value
      take(model.tape.value)
    }),
    effect(() => showMid(best.value)),
    onReconnect(() => void load()),
  ]
  return () => {
    isOver = true
    for (const stop of stops) stop()
  }
}

/** One mark for all of the account's fills of a candle on one side: more of them would cover the price. */
function marksOf(
  tape: readonly TapeTrade[],
  shown: readonly Outcome[],
  intervalSec: number,
): readonly OwnFill[] {
  const owner = account.peek()?.address
  const fills = new Map<string, OwnFill & { readonly size: number }>()
  for (const trade of tape.toReversed()) {
    const side = ownSideOf(trade, owner)
    const which = trade.outcome === 0 ? 'YES' : 'NO'
    if (side === undefined || !shown.includes(which) || trade.status === 'failed') continue
    const sec = Math.floor(trade.ts / 1_000)
    const at = sec - (sec % intervalSec)
    const size = trade.size + (fills.get(`${at} ${side}`)?.size ?? 0)
    fills.set(`${at} ${side}`, { sec: at, side, size, text: decimal(size, 0) })
  }
  const marks = [...fills.values()]
  return marks.length <= NAMED_MAX ? marks : marks.map((one) => ({ ...one, text: '' }))
}
