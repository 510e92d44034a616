/** Whether the exchange can do its work now, part by part. */

import Type from 'typebox'
import { type AnswerRoute, route } from '../route.ts'

type Check = {
  readonly ok: boolean
  readonly why?: string
  /** The exchange is ready without it: what needs it says so by itself. */
  readonly optional?: boolean
}
/** By the name of the part. */
export type Readiness = Readonly<Record<string, Check>>

const body = <Status extends string>(status: Status) =>
  Type.Object({
    status: Type.Literal(status),
    checks: Type.Record(
      Type.String(),
      Type.Object({
        ok: Type.Boolean(),
        why: Type.Optional(Type.String()),
        optional: Type.Optional(
          Type.Boolean({ description: 'Whether the exchange is ready without it' }),
        ),
      }),
    ),
  })

export function readyz(readiness: () => Readiness | Promise<Readiness>): AnswerRoute {
  return route({
    method: 'GET',
    path: '/readyz',
    operationId: 'getReadiness',
    auth: 'public',
    cost: 'free',
    tag: 'operation',
    summary: 'The exchange is ready to work',
    responses: { 200: body('ready'), 503: body('not ready') },
    async handle() {
      const checks: Record<string, Check> = { ...(await readiness()) }
      return Object.values(checks).every(({ ok, optional }) => ok || optional === true)
        ? { status: 200, body: { status: 'ready' as const, checks } }
        : {
            status: 503,
            body: { status: 'not ready' as const, checks },
            headers: { 'retry-after': '1' },
          }
    },
  })
}
