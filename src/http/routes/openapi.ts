/** The OpenAPI document, serialised once. */

import Type from 'typebox'
import { type AnswerRoute, route } from '../route.ts'

export function openapi(document: () => string): AnswerRoute {
  let raw: Buffer | undefined
  return route({
    method: 'GET',
    path: '/openapi.json',
    auth: 'public',
    cost: 'free',
    tag: 'operation',
    summary: 'This document',
    cacheControl: 'no-cache',
    responses: { 200: Type.Object({}, { description: 'An OpenAPI 3.1 document.' }) },
    handle() {
      raw ??= Buffer.from(document())
      return { status: 200, raw }
    },
  })
}
