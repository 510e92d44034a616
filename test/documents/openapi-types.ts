/** The types that `openapi-typescript` makes of an OpenAPI document. */

import { registerHooks } from 'node:module'

const THEIRS = '/openapi-typescript/'
const API = new URL('./typescript-api.ts', import.meta.url).href

export async function typesOfOpenapi(document: object): Promise<string> {
  // It requires TypeScript below 7, which is not the installed one.
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
