/**
 * Reports whether the exchange is ready. The names and failures of single parts would help an attacker. So they are
 * shown only on the operators' port, or on a port that no other machine can reach.
 */

import Type from 'typebox'
import { type AnswerRoute, route } from '../route.ts'

type Check = {
  readonly ok: boolean
  readonly why?: string
  /**
   * True if the exchange counts as ready even if this part fails. Routes that need the part then return their own
   * error.
   */
  readonly optional?: boolean
}
/** Checks of the exchange's parts, by the name of the part. */
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
          Type.Boolean({ description: 'True if the exchange can be ready without this part' }),
        ),
      }),
      {
        description:
          'Status of each part of the exchange. It has content only on the admin port, and on a ' +
          'server that listens on a loopback address and has no trusted proxies configured. ' +
          'Otherwise it is empty',
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
    cost: 'health',
    tag: 'operation',
    summary: 'Check that the exchange is ready',
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
