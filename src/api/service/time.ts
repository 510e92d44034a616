/** `GET /api/v1/time`: the clock of the exchange, which decides when orders and tokens expire. */

import { type AnswerRoute, route } from '#http/route.ts'
import { TimeAnswer } from '#protocol/shapes/config.ts'
import type { Clock } from '#runtime/clock.ts'

export function time(clock: Clock): AnswerRoute {
  const bodyAt = (nowMs: number) => ({
    serverTime: Math.floor(nowMs / 1_000),
    serverTimeMs: Math.floor(nowMs),
  })
  return route({
    method: 'GET',
    path: '/api/v1/time',
    operationId: 'getTime',
    auth: 'public',
    cost: 'read',
    tag: 'operation',
    summary: 'Get the time of the exchange',
    responses: { 200: TimeAnswer },
    examples: { responses: { 200: { 'a time': { value: bodyAt(1_800_000_000_250) } } } },
    handle: () => ({ status: 200, body: bodyAt(clock.nowMs()) }),
  })
}
