/**
 * The spans of time that trades are added up in, and how a sum that may leave 64 bits is kept. Only
 * the shortest span is computed from trades; each longer one follows from the one below it.
 */

import { ONE } from '#domain/money.ts'

export const MINUTE_SEC = 60
export const HOUR_SEC = 3_600
export const DAY_SEC = 86_400

/** What is kept, from short to long; every other interval is put together from one of them. */
export const SPANS_SEC = [MINUTE_SEC, HOUR_SEC, DAY_SEC] as const
export type SpanSec = (typeof SPANS_SEC)[number]

/** Where the span that holds this instant begins, in Unix seconds. */
export function spanStartSec(atMs: number, spanSec: number): number {
  const atSec = Math.floor(atMs / 1_000)
  return atSec - (atSec % spanSec)
}

/**
 * A sum of collateral as two integers that a database adds without overflowing: whole units and
 * millionths, neither carried over into the other. One order may be worth 2^53, and its
 * funds are not checked before it is matched, so a thousand of them would break a plain 64-bit sum.
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

/** What the two columns of a row stand for. */
export function sumOf(
  whole: number | string | bigint,
  millionths: number | string | bigint,
): bigint {
  return BigInt(whole) * BigInt(ONE) + BigInt(millionths)
}
