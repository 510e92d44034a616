/** Candles for the chart. Adds later trades to the exchange's candles, and fills intervals without trades. */

export type Candle = {
  /** Start, Unix seconds. */
  readonly timestamp: number
  readonly open: number
  readonly high: number
  readonly low: number
  readonly close: number
}

type Tick = { readonly price: number; readonly sec: number }

export const INTERVALS = {
  '1m': 60,
  '5m': 300,
  '15m': 900,
  '1h': 3_600,
  '4h': 14_400,
  '1d': 86_400,
}
export type Interval = keyof typeof INTERVALS

/** Maximum number of points of a chart; the oldest are dropped first. */
const POINTS_MAX = 1_500
const FLAT_POINTS = 60

/**
 * Returns the candle that contains the trade: `last` with the trade added, or a new candle after `last`. Returns
 * undefined if the trade belongs before `last`.
 */
export function nextCandle(
  last: Candle | undefined,
  { price, sec }: Tick,
  intervalSec: number,
): Candle | undefined {
  const timestamp = sec - (sec % intervalSec)
  if (last === undefined || timestamp > last.timestamp) {
    const open = last?.close ?? price
    return {
      timestamp,
      open,
      high: Math.max(open, price),
      low: Math.min(open, price),
      close: price,
    }
  }
  if (timestamp < last.timestamp) return undefined
  return {
    ...last,
    high: Math.max(last.high, price),
    low: Math.min(last.low, price),
    close: price,
  }
}

/**
 * Adds trades, oldest first, to the candles. Adding a trade twice changes nothing, so the candles may already
 * include some of the trades.
 */
export function withTrades(
  candles: readonly Candle[],
  trades: readonly Tick[],
  intervalSec: number,
): readonly Candle[] {
  const all = [...candles]
  for (const trade of trades) {
    const last = all.at(-1)
    const next = nextCandle(last, trade, intervalSec)
    if (next === undefined) continue
    if (last?.timestamp === next.timestamp) all.pop()
    all.push(next)
  }
  return all
}

/** Fills intervals without trades up to now. Each filled interval gets the closing price of the candle before it. */
export function withoutHoles(
  candles: readonly Candle[],
  intervalSec: number,
  nowSec: number,
): readonly Candle[] {
  const filled: Candle[] = []
  const untilSec = nowSec - (nowSec % intervalSec)
  for (const [at, candle] of candles.entries()) {
    filled.push(candle)
    const endSec = candles[at + 1]?.timestamp ?? untilSec + intervalSec
    // A chart has at most `POINTS_MAX` points. So if the gap before the next candle is longer, fill only the last
    // `POINTS_MAX` intervals of the gap.
    const first = Math.max(candle.timestamp + intervalSec, endSec - POINTS_MAX * intervalSec)
    for (let sec = first; sec < endSec; sec += intervalSec) filled.push(flat(sec, candle.close))
  }
  return filled.slice(-POINTS_MAX)
}

/** Returns a line at one price up to now. It shows the mid of a market without trades. */
export function flatLine(price: number, intervalSec: number, nowSec: number): readonly Candle[] {
  const endSec = nowSec - (nowSec % intervalSec)
  return Array.from({ length: FLAT_POINTS }, (_, at) =>
    flat(endSec - (FLAT_POINTS - 1 - at) * intervalSec, price),
  )
}

function flat(timestamp: number, price: number): Candle {
  return { timestamp, open: price, high: price, low: price, close: price }
}

/**
 * Returns the chart's initial interval. An older market gets a longer interval, so that the chart needs fewer candles.
 */
export function firstInterval(ageSec: number): Interval {
  if (ageSec <= 6 * 3_600) return '1m'
  if (ageSec <= 2 * 86_400) return '15m'
  return ageSec <= 30 * 86_400 ? '1h' : '1d'
}
