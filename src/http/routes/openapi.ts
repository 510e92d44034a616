/**
 * Documents about the API: OpenAPI, and the Postman collection made from it. A document is usually generated once. If
 * its examples contain fresh signatures, it is generated for each request.
 */

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

type DocumentOptions = {
  readonly path: string
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly document: () => Promise<string>
  /** True if each request gets new examples, as on the devnet. */
  readonly isPersonal: boolean
}

export function openapi(document: () => Promise<string>, isPersonal: boolean): AnswerRoute {
  return documentRoute({
    path: '/openapi.json',
    operationId: 'getOpenapi',
    summary: 'Get this document',
    description: 'The answer is an OpenAPI 3.1 document.',
    ...{ document, isPersonal },
  })
}

export function postman(document: () => Promise<string>, isPersonal: boolean): AnswerRoute {
  return documentRoute({
    path: '/postman.json',
    operationId: 'getPostmanCollection',
    summary: 'Get this document as a Postman collection',
    description: 'The answer is a Postman collection of version 2.1, made from this document.',
    ...{ document, isPersonal },
  })
}

function documentRoute({ document, isPersonal, ...options }: DocumentOptions): AnswerRoute {
  let made: Promise<Made> | undefined
  return route({
    method: 'GET',
    path: options.path,
    operationId: options.operationId,
    auth: 'public',
    cost: 'read',
    tag: 'operation',
    summary: options.summary,
    cacheControl: 'no-cache',
    revalidates: true,
    headers: ['accept-encoding'],
    responses: { 200: Type.Object({}, { description: options.description }) },
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
