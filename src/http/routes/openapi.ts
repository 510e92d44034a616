/** The OpenAPI document, serialised once, or for each who asks where its examples grow old. */

import Type from 'typebox'
import { type AnswerRoute, route } from '../route.ts'

export function openapi(
  document: () => Promise<string>,
  { growsOld }: { readonly growsOld: boolean },
): AnswerRoute {
  let raw: Promise<Buffer> | undefined
  return route({
    method: 'GET',
    path: '/openapi.json',
    operationId: 'getOpenapi',
    auth: 'public',
    cost: 'free',
    tag: 'operation',
    summary: 'This document',
    cacheControl: 'no-cache',
    responses: { 200: Type.Object({}, { description: 'An OpenAPI 3.1 document.' }) },
    async handle() {
      if (raw === undefined || growsOld) raw = document().then((text) => Buffer.from(text))
      return { status: 200, raw: await raw }
    },
  })
}
