/**
 * Tags that a client attaches to an order: a label, and a group with its protection. They are not signed, so they never
 * reach the chain.
 */

import type { Shares } from './money.ts'

/**
 * Market-maker protection of a group. If more than `fillsMax` fills or `sharesMax` shares of the group's orders happen
 * within `windowMs`, the market cancels the group's remaining orders in the same step.
 */
export type Protection = {
  readonly windowMs: number
  readonly fillsMax?: number
  readonly sharesMax?: Shares
}

/**
 * Tags of an order. Orders with the same `group` name form one group per trader and market. The newest order of a group
 * sets the group's protection.
 */
export type OrderTags = {
  readonly label?: string
  readonly group?: string
  readonly protection?: Protection
}

/** The part of the tags that events and answers repeat. */
export type EchoedTags = Pick<OrderTags, 'label' | 'group'>

export function echoOf({ label, group }: OrderTags): EchoedTags {
  return {
    ...(label === undefined ? {} : { label }),
    ...(group === undefined ? {} : { group }),
  }
}

/** Reasons why the market cancelled an order that its client did not cancel. */
export const CANCEL_CAUSES = ['replaced', 'protection', 'deadman'] as const
export type CancelCause = (typeof CANCEL_CAUSES)[number]
