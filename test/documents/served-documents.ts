/**
 * The documents of the API, as an exchange with the usual settings and no chain serves them. The files
 * `docs/openapi.json` and `docs/asyncapi.json` must equal them.
 */

import { join } from 'node:path'
import { type Environment, openExchange } from '../support/exchange.ts'
import { ROOT } from '../support/imports.ts'

type Document = Readonly<Record<string, unknown>>

/** The documents by file name in `docs`. */
export type Documents = { readonly 'openapi.json': Document; readonly 'asyncapi.json': Document }

/** The usual request deadline, which the documents show. Exchanges in other tests have a longer deadline. */
export const USUAL: Environment = { SIBYL_REQUEST_DEADLINE_MS: '10000' }

export const documentPath = (name: string): string => join(ROOT, 'docs', name)

/** Starts an exchange with the usual settings and returns the documents that it serves. */
export async function servedDocuments(): Promise<Documents> {
  const exchange = await openExchange({ environment: USUAL })
  try {
    return await documentsOf(exchange)
  } finally {
    await exchange.dispose()
  }
}

/** Returns the documents that an exchange serves. The exchange must run with the settings `USUAL`. */
export async function documentsOf({ url }: { readonly url: string }): Promise<Documents> {
  const read = async (name: string): Promise<Document> =>
    (await (await fetch(`${url}/${name}`)).json()) as Document
  return {
    'openapi.json': await read('openapi.json'),
    'asyncapi.json': await read('asyncapi.json'),
  }
}

/** Returns the text of the document, formatted as in the repository. */
export function writtenDocument(document: Document): string {
  return `${JSON.stringify(document, null, 1)}\n`
}
