/** Metrics of all threads, in the format of Prometheus. */

import Type from 'typebox'
import { type AnswerRoute, route } from '../route.ts'

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export function metrics(collect: () => Promise<string>): AnswerRoute {
  return route({
    method: 'GET',
    path: '/metrics',
    operationId: 'getMetrics',
    auth: 'public',
    // The route costs more than other reads, because its text is long and computing it queries all threads.
    cost: 'read',
    weight: 10,
    tag: 'operation',
    summary: 'Get metrics in the Prometheus text format',
    produces: 'text/plain',
    responses: { 200: Type.String() },
    handle: async () => ({ status: 200, raw: await collect(), contentType: CONTENT_TYPE }),
  })
}
