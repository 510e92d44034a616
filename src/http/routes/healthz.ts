/** Answers that the thread is alive, without checking the services that it uses. */

import Type from 'typebox'
import { type AnswerRoute, route } from '../route.ts'

const ALIVE = { status: 200, raw: '{"status":"ok"}' }

export function healthz(): AnswerRoute {
  return route({
    method: 'GET',
    path: '/healthz',
    operationId: 'getHealth',
    auth: 'public',
    cost: 'health',
    tag: 'operation',
    summary: 'Check that the process is alive',
    responses: { 200: Type.Object({ status: Type.Literal('ok') }) },
    handle: () => ALIVE,
  })
}
