/**
 * Whether the exchange can do its work now; and part by part, where only operators ask: the names and troubles
 * of its threads are of use to an attacker.
 */

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
      {
        description:
          'Part by part; empty but at the port of operation, or where no other machine can ask',
      },
    ),
  })

export function readyz(
  readiness: () => Readiness | Promise<Readiness>,
  { details }: { readonly details: boolean },
): AnswerRoute {
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
      const shown = { checks: details ? checks : {} }
      return Object.values(checks).every(({ ok, optional }) => ok || optional === true)
        ? { status: 200, body: { status: 'ready' as const, ...shown } }
        : {
            status: 503,
            body: { status: 'not ready' as const, ...shown },
            headers: { 'retry-after': '1' },
          }
    },
  })
}
