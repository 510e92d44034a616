/** The AsyncAPI document of the stream, serialised once. */

import Type from 'typebox'
import type { DocumentInfo } from '#http/openapi.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { asyncapiDocument } from '../asyncapi.ts'

export function asyncapi(info: DocumentInfo): AnswerRoute {
  let raw: Buffer | undefined
  return route({
    method: 'GET',
    path: '/asyncapi.json',
    operationId: 'getAsyncapi',
    auth: 'public',
    cost: 'read',
    tag: 'operation',
    summary: 'Get the AsyncAPI document of the WebSocket stream',
    cacheControl: 'no-cache',
    responses: { 200: Type.Object({}, { description: 'The answer is an AsyncAPI 3 document.' }) },
    handle() {
      raw ??= Buffer.from(JSON.stringify(asyncapiDocument(info)))
      return { status: 200, raw }
    },
  })
}
