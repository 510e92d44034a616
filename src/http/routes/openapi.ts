/** The OpenAPI document, written once, or every few seconds where its examples grow old. */

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import Type from 'typebox'
import { entityTag } from '../entity-tag.ts'
import { encodingFor } from '../header-values.ts'
import { type AnswerRoute, route } from '../route.ts'

type Made = { readonly plain: Buffer; readonly zipped: Buffer; readonly etag: string }

/** Its examples are signed for an hour. */
const KEPT_MS = 10_000

const zip = promisify(gzip)

async function make(text: string): Promise<Made> {
  const plain = Buffer.from(text)
  return { plain, zipped: await zip(plain), etag: entityTag(plain) }
}

export function openapi(
  document: () => Promise<string>,
  { growsOld, nowMs }: { readonly growsOld: boolean; readonly nowMs: () => number },
): AnswerRoute {
  let made: Promise<Made> | undefined
  let madeAtMs = 0
  return route({
    method: 'GET',
    path: '/openapi.json',
    operationId: 'getOpenapi',
    auth: 'public',
    cost: 'read',
    tag: 'operation',
    summary: 'This document',
    cacheControl: 'no-cache',
    revalidates: true,
    headers: ['accept-encoding'],
    responses: { 200: Type.Object({}, { description: 'An OpenAPI 3.1 document.' }) },
    async handle({ headers }) {
      if (made === undefined || (growsOld && nowMs() - madeAtMs >= KEPT_MS)) {
        made = document().then(make)
        madeAtMs = nowMs()
        made.catch(() => {
          made = undefined
        })
      }
      const { plain, zipped, etag } = await made
      const lines = { etag, vary: 'accept-encoding' }
      return encodingFor(headers['accept-encoding'] ?? '', ['gzip']) === undefined
        ? { status: 200, raw: plain, headers: lines }
        : { status: 200, raw: zipped, headers: { ...lines, 'content-encoding': 'gzip' } }
    },
  })
}
