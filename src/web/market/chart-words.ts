/** A chart in words, for those who do not see it. */

import { roundCents } from '../format.ts'
import type { Candle } from './candle-series.ts'

export function chartWords(
  series: readonly { readonly name: string; readonly candles: readonly Candle[] }[],
): string {
  const sentences = series.flatMap(({ name, candles }) => {
    const last = candles.at(-1)
    if (last === undefined) return []
    const low = Math.min(...candles.map((candle) => candle.low))
    const high = Math.max(...candles.map((candle) => candle.high))
    return [
      `${name} is at ${roundCents(last.close)}, between ${roundCents(low)} and ${roundCents(high)}.`,
    ]
  })
  return sentences.length === 0 ? 'There is no price yet.' : sentences.join(' ')
}
