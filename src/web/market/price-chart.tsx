/** Chart of the outcomes' prices over time. New trades extend the chart and are marked in it. */

import { effect, type Signal, useSignal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { account } from '../state/account.ts'
import { nowSec } from '../state/clock.ts'
import { onReconnect, reader } from '../state/exchange.ts'
import { showError } from '../state/toasts.ts'
import { followColours } from './base-chart.ts'
import {
  type Candle,
  flatLine,
  INTERVALS,
  type Interval,
  withoutHoles,
  withTrades,
} from './candle-series.ts'
import { readColours } from './chart-colours.ts'
import { type ChartMode, type DrawnChart, drawChart } from './chart-drawing.ts'
import { chartWords } from './chart-words.ts'
import type { Outcome } from './market-book.ts'
import { bestOf, type MarketModel } from './market-model.ts'
import type { TapeTrade } from './tape-merge.ts'
import { tradeMarks } from './trade-marks.ts'

export function PriceChart(props: {
  readonly model: MarketModel
  readonly interval: Interval
  readonly mode: ChartMode
  /** Called with true when the chart shows the mid because there are no trades, and with false otherwise. */
  readonly setMid: (isMid: boolean) => void
}) {
  const { model, interval, mode, setMid } = props
  const [isEmpty, setEmpty] = useState(false)
  const words = useSignal('')
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<DrawnChart | undefined>(undefined)
  const outcome = model.outcome.value

  useEffect(() => {
    const element = place.current
    if (element === null) return
    const drawn = drawChart(element, readColours(element))
    chart.current = drawn
    const stop = followColours(element, drawn.recolour)
    return () => {
      stop()
      drawn.destroy()
      chart.current = undefined
    }
  }, [])

  const candlesOf = mode === 'candles' ? outcome : undefined
  useEffect(() => {
    const shown: readonly Outcome[] = candlesOf === undefined ? ['YES', 'NO'] : [candlesOf]
    return follow({ model, chart, interval, mode, shown, setEmpty, setMid, words })
  }, [model, interval, mode, candlesOf, words, setMid])

  return (
    <>
      <div class="chart-place" ref={place} aria-hidden="true" data-empty={isEmpty} />
      <p class="hidden-text">{words.value}</p>
      {isEmpty ? <p class="chart-empty quiet">No trades and no orders yet.</p> : null}
    </>
  )
}

type Followed = {
  readonly model: MarketModel
  readonly chart: { readonly current: DrawnChart | undefined }
  readonly interval: Interval
  readonly mode: ChartMode
  readonly shown: readonly Outcome[]
  readonly setEmpty: (isEmpty: boolean) => void
  readonly setMid: (isMid: boolean) => void
  /** Content of the chart in words. */
  readonly words: Signal<string>
}

/** Reads the candles and extends them with new trades. Before the first trade, the chart shows the mid of the book. */
function follow(followed: Followed): () => void {
  const { model, chart, interval, mode, shown, setEmpty, setMid, words } = followed
  const best = bestOf(model)
  const intervalSec = INTERVALS[interval]
  /** Candles of each shown outcome, as the exchange returned them; undefined until they are read. */
  let read: readonly (readonly Candle[])[] | undefined
  /** Candles of each shown outcome, extended with later trades and without gaps. */
  let series: (readonly Candle[])[] = []
  let isTraded = false
  /** The newest trade that is drawn. */
  let seen: TapeTrade | undefined
  let isOver = false

  async function load(): Promise<void> {
    try {
      const answers = await Promise.all(
        shown.map((one) => reader.candles(model.marketId, { outcome: one, interval })),
      )
      if (isOver) return
      read = answers.map(({ candles }) => candles)
      draw()
    } catch (error) {
      if (!isOver) showError(error)
    }
  }

  /**
   * Draws the whole chart. Adds the newest trades from the tape, because the candles come from the database, which may
   * not have these trades yet.
   */
  function draw(): void {
    const tape = model.tape.peek()
    series = (read ?? []).map((candles, at) => {
      const trades = ticksOf(tape, shown[at]).toReversed()
      return withoutHoles(withTrades(candles, trades, intervalSec), intervalSec, nowSec.peek())
    })
    seen = tape[0]
    isTraded = series.some((candles) => candles.length > 0)
    if (isTraded) chart.current?.show(mode, series)
    setMid(false)
    setEmpty(!isTraded)
    showMid(best.peek())
    mark(tape)
    describe()
  }

  function describe(): void {
    if (!isTraded) return
    const named = shown.map((name, at) => ({ name, candles: series[at] ?? [] }))
    words.value = chartWords(named, model.tape.peek()[0])
  }

  function showMid({ bid, ask }: { readonly bid: number; readonly ask: number }): void {
    const hasMid = bid > 0 && ask > 0
    if (read === undefined || isTraded) return
    const mid = flatLine((bid + ask) / 2, intervalSec, nowSec.peek())
    const name = model.outcome.peek()
    chart.current?.show('line', hasMid ? (name === 'YES' ? [mid] : [[], mid]) : [])
    words.value = hasMid
      ? `There are no trades yet. ${chartWords([{ name: `The mid of ${name}`, candles: mid }])}`
      : chartWords([])
    setMid(hasMid)
    setEmpty(!hasMid)
  }

  function mark(tape: readonly TapeTrade[]): void {
    const how = { shown, intervalSec, owner: account.peek()?.address, hasOthers: mode === 'line' }
    chart.current?.mark(isTraded ? tradeMarks(tape, how) : [])
  }

  function take(tape: readonly TapeTrade[]): void {
    if (read === undefined) return
    const fresh = newerThan(tape, seen)
    seen = tape[0]
    if (fresh.length > 0 && !isTraded) {
      // The first trade has arrived. Draw the trades instead of the mid.
      draw()
      return
    }
    for (const [at, outcome] of shown.entries()) {
      for (const tick of ticksOf(fresh, outcome).toReversed()) {
        series[at] = withTrades(series[at] ?? [], [tick], intervalSec)
        chart.current?.update(at, series[at].at(-1)!)
      }
    }
    mark(tape)
    describe()
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

/** Returns the trades that are newer than `seen`. Returns all trades of the tape if it does not contain `seen`. */
function newerThan(tape: readonly TapeTrade[], seen: TapeTrade | undefined) {
  const end = tape.findIndex(({ tradeId }) => tradeId === seen?.tradeId)
  return end === -1 ? tape : tape.slice(0, end)
}

function ticksOf(tape: readonly TapeTrade[], outcome: Outcome | undefined) {
  return tape
    .filter((trade) => (trade.outcome === 0 ? 'YES' : 'NO') === outcome)
    .map(({ price, ts }) => ({ price, sec: Math.floor(ts / 1_000) }))
}
