/**
 * `POST /api/v1/orders/deadman`: sets a dead-man switch, which cancels all orders of the token's address
 * unless the same key renews the switch within `afterMs`.
 */

import Type from 'typebox'
import { DEADMAN_MS_MAX, DEADMAN_MS_MIN } from '#domain/limits.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { safeInteger } from '#http/schemas.ts'
import { DeadmanAnswer } from '#protocol/shapes/orders.ts'
import { actingTrader } from './acting-for.ts'
import type { OwnOrders } from './own-orders.ts'

export const deadmanAfterMs = () =>
  safeInteger({
    max: DEADMAN_MS_MAX,
    description:
      `Time from this request until the orders are cancelled, ${DEADMAN_MS_MIN} to ` +
      `${DEADMAN_MS_MAX} milliseconds; 0 turns the switch off`,
  })

export function deadman(own: OwnOrders): AnswerRoute {
  return route({
    method: 'POST',
    path: '/api/v1/orders/deadman',
    operationId: 'setDeadmanSwitch',
    auth: 'token',
    cost: 'write',
    tag: 'orders',
    summary: 'Set a dead-man switch, which cancels your orders unless you renew it',
    description:
      'Each API key has one switch. Each call of this operation with the key starts the time ' +
      '`afterMs` again. If the time ends without another call, the exchange cancels all orders ' +
      'of the key’s address in all markets. The cancels take about two seconds. Then the switch ' +
      'is off. The switch stays set if the exchange restarts. With `trader`, the switch of a ' +
      'delegate’s key cancels the orders of the account that appointed the delegate. If the ' +
      'delegate was revoked in the meantime, the switch cancels nothing. Revoking the API key ' +
      'removes its switch.',
    body: Type.Object(
      { afterMs: deadmanAfterMs(), trader: Type.Optional(actingTrader()) },
      { additionalProperties: false },
    ),
    responses: { 200: DeadmanAnswer },
    errors: ['NOT_ORDER_OWNER', 'OVERLOADED', 'OUTCOME_UNKNOWN'],
    examples: {
      body: { 'a minute': { value: { afterMs: 60_000 } }, off: { value: { afterMs: 0 } } },
      responses: {
        200: {
          on: { value: { status: 'on', cancelsAtMs: 1_800_000_060_000 } },
          off: { value: { status: 'off' } },
        },
      },
    },
    async handle({ body, principal, deadlineAtMs }) {
      if (principal === undefined) return reject('UNAUTHORIZED_MISSING_HEADER')
      const answer = await own.deadman(principal, body, deadlineAtMs)
      return isRejection(answer) ? answer : { status: 200, body: answer }
    },
  })
}
