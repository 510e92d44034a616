/** Times in force of an order: their names, their numbers in the log, and the rule of each. */

import { notFilled, type Rejection, wouldMatch } from './rejection.ts'

/**
 * Times in force that a client can name.
 * - GTC (good till cancelled): the order matches, then rests.
 * - IOC (immediate or cancel): the part that is not filled on arrival is cancelled.
 * - FOK (fill or kill): the order is filled completely on arrival, or rejected.
 */
export const TIMES_IN_FORCE = ['GTC', 'IOC', 'FOK'] as const
export type NamedTimeInForce = (typeof TIMES_IN_FORCE)[number]

/** Time in force of an order that is not GTC. `POST_ONLY`: the order is rejected if it would match immediately. */
export type TimeInForce = 'POST_ONLY' | Exclude<NamedTimeInForce, 'GTC'>

/** Number of each time in force, as it is stored in the log and the public log. The numbers never change. */
export const TIME_IN_FORCE_NUMBERS: Readonly<Record<TimeInForce, number>> = {
  POST_ONLY: 1,
  IOC: 2,
  FOK: 3,
}

const BY_NUMBER = new Map(
  Object.entries(TIME_IN_FORCE_NUMBERS).map(([name, number]) => [number, name as TimeInForce]),
)

/** Returns the time in force with this number; undefined if no time in force has it. */
export const timeInForceByNumber = (number: unknown): TimeInForce | undefined =>
  BY_NUMBER.get(number as number)

/** Returns whether no part of an order may rest. */
export const isImmediate = (timeInForce: TimeInForce | undefined): boolean =>
  timeInForce === 'IOC' || timeInForce === 'FOK'

/**
 * Immediate matches of an order. `price`: the price of the first match, or 0 if nothing matches. `filled`: the
 * matched quantity.
 */
type Fill = { readonly price: number; readonly filled: number | bigint }

/** Returns a rejection if the time in force does not allow this fill for an order of this size. */
export function timeInForceFlaw(
  timeInForce: TimeInForce,
  { price, filled }: Fill,
  size: number,
): Rejection | undefined {
  switch (timeInForce) {
    case 'POST_ONLY':
      return price === 0 ? undefined : wouldMatch(price)
    case 'IOC':
      return filled > 0 ? undefined : notFilled(Number(filled), size)
    case 'FOK':
      return filled >= size ? undefined : notFilled(Number(filled), size)
  }
}
