/**
 * Time spans of the sums, and the format of a sum that may exceed 64 bits. A new trade is added to the sums
 * of every span. After a failed trade, only the candle of the shortest span is computed from trades; each
 * longer candle is computed from the next shorter ones.
 */

import { ONE } from '#domain/money.ts'

export const MINUTE_SEC = 60
export const HOUR_SEC = 3_600
export const DAY_SEC = 86_400

/** Stored spans, shortest first; candles of any other interval are combined from the candles of one of these spans. */
export const SPANS_SEC = [MINUTE_SEC, HOUR_SEC, DAY_SEC] as const
export type SpanSec = (typeof SPANS_SEC)[number]

/** Returns the start of the span that contains this instant, in Unix seconds. */
export function spanStartSec(atMs: number, spanSec: number): number {
  const atSec = Math.floor(atMs / 1_000)
  return atSec - (atSec % spanSec)
}

/**
 * A sum of collateral in two integers: whole units and millionths. A database adds each of them separately, without a
 * carry. One 64-bit integer would overflow after about a thousand orders of 2^53 millionths. Such orders are possible,
 * because orders may match before the traders' funds are checked.
 */
export type Sum = { whole: number; millionths: number }

export function noSum(): Sum {
  return { whole: 0, millionths: 0 }
}

export function addTo(sum: Sum, amount: number, sign: 1 | -1 = 1): void {
  const millionths = amount % ONE
  sum.whole += (sign * (amount - millionths)) / ONE
  sum.millionths += sign * millionths
}

/** Returns the sum from its two columns. */
export function sumOf(
  whole: number | string | bigint,
  millionths: number | string | bigint,
): bigint {
  return BigInt(whole) * BigInt(ONE) + BigInt(millionths)
}
