/** Describes the price chart in words, for traders who do not see it. */

import { cents, roundCents, shares } from '../format.ts'
import type { Candle } from './candle-series.ts'
import type { TapeTrade } from './tape-merge.ts'

export function chartWords(
  series: readonly { readonly name: string; readonly candles: readonly Candle[] }[],
  newest?: TapeTrade,
): string {
  const sentences = series.flatMap(({ name, candles }) => {
    const last = candles.at(-1)
    if (last === undefined) return []
    const low = Math.min(...candles.map((candle) => candle.low))
    const high = Math.max(...candles.map((candle) => candle.high))
    return [
      `${name} is at ${roundCents(last.close)}, with prices between ${roundCents(low)} and ` +
        `${roundCents(high)} in this chart.`,
    ]
  })
  if (sentences.length === 0) return 'There is no price yet.'
  if (newest !== undefined) {
    const { size, outcome, price } = newest
    sentences.push(
      `Last trade: ${shares(size)} ${outcome === 0 ? 'YES' : 'NO'} at ${cents(price)}.`,
    )
  }
  return sentences.join(' ')
}
