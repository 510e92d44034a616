/** Unsigned options of an order: its time in force, the order that it replaces, and its tags. */

import type { Shares } from '#domain/money.ts'
import { echoOf, type OrderTags } from '#domain/order-tags.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { OrderContext, OrderOptions } from '#live/market-gateway.ts'
import type { OrderSubmission } from './order-shapes.ts'
import { timeInForceOf } from './time-in-force.ts'

/** Returns a copy of the request's context with the options of one of the request's orders. */
export function withOptions(context: OrderContext, submission: OrderSubmission): OrderContext {
  const { deadlineAtMs, requestId, stages, session, ip, principal } = context
  return {
    ...{ deadlineAtMs, ip, principal },
    ...(requestId === undefined ? {} : { requestId }),
    ...(stages === undefined ? {} : { stages }),
    ...(session === undefined ? {} : { session }),
    ...optionsOf(submission),
  }
}

export function optionsOf(submission: OrderSubmission): OrderOptions {
  const { bookByMs, replaces, replaceMode } = submission
  const timeInForce = timeInForceOf(submission)
  const tags = tagsOf(submission)
  return {
    ...(timeInForce === undefined ? {} : { timeInForce }),
    ...(tags === undefined ? {} : { tags }),
    ...(bookByMs === undefined ? {} : { bookByMs }),
    ...(replaces === undefined ? {} : { replaces }),
    ...(replaceMode === 'always' ? { replaceMode } : {}),
  }
}

function tagsOf({ label, group, protection }: OrderSubmission): OrderTags | undefined {
  if (label === undefined && group === undefined) return undefined
  const echoed = echoOf({
    ...(label === undefined ? {} : { label }),
    ...(group === undefined ? {} : { group }),
  })
  if (protection === undefined) return echoed
  const { windowMs, fillsMax, sharesMax } = protection
  return {
    ...echoed,
    protection: {
      windowMs,
      ...(fillsMax === undefined ? {} : { fillsMax }),
      ...(sharesMax === undefined ? {} : { sharesMax: sharesMax as Shares }),
    },
  }
}

/** Returns a rejection if the options of an order contradict each other. */
export function optionsFlaw(submission: OrderSubmission): Rejection | undefined {
  const { postOnly, timeInForce = 'GTC', group, protection, replaces, replaceMode } = submission
  if (postOnly === true && timeInForce !== 'GTC') {
    const detail = `timeInForce must be GTC if postOnly is true, not ${timeInForce}`
    return reject('INVALID_FIELD', 'timeInForce', detail)
  }
  if (replaceMode !== undefined && replaces === undefined) {
    return reject(
      'INVALID_FIELD',
      'replaceMode',
      'replaceMode is allowed only together with replaces',
    )
  }
  if (protection === undefined) return undefined
  if (group === undefined) {
    return reject('INVALID_FIELD', 'protection', 'protection is allowed only together with group')
  }
  const isEmpty = protection.fillsMax === undefined && protection.sharesMax === undefined
  const detail = 'protection must have the field fillsMax, sharesMax or both'
  return isEmpty ? reject('INVALID_FIELD', 'protection', detail) : undefined
}
