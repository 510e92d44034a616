/** The OpenAPI document, written once; where its examples are signed for their reader, for each request. */

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import Type from 'typebox'
import { entityTag } from '../entity-tag.ts'
import { encodingFor } from '../header-values.ts'
import { type AnswerRoute, route } from '../route.ts'

type Made = { readonly plain: Buffer; readonly zipped: Buffer; readonly etag: string }

const zip = promisify(gzip)

async function make(text: string): Promise<Made> {
  const plain = Buffer.from(text)
  return { plain, zipped: await zip(plain), etag: entityTag(plain) }
}

export function openapi(
  document: () => Promise<string>,
  /** Whether each reader gets examples of their own, as on the devnet. */
  { isPersonal }: { readonly isPersonal: boolean },
): AnswerRoute {
  let made: Promise<Made> | undefined
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
      if (made === undefined || isPersonal) {
        made = document().then(make)
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
