/** Generates types from an OpenAPI document with `openapi-typescript`. */

import { registerHooks } from 'node:module'

const THEIRS = '/openapi-typescript/'
const API = new URL('./typescript-api.ts', import.meta.url).href

export async function typesOfOpenapi(document: object): Promise<string> {
  // The generator needs TypeScript below 7, but a newer version is installed. So its import is replaced.
  const hooks = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === 'typescript' && context.parentURL?.includes(THEIRS)
        ? next(API, context)
        : next(specifier, context),
  })
  try {
    const { default: openapiTS, astToString } = await import('openapi-typescript')
    return astToString(await openapiTS(document as never, { silent: true }))
  } finally {
    hooks.deregister()
  }
}
