/**
 * Page that renders the OpenAPI document, from files of this installation only. Scripts and styles are separate files,
 * so that the page can have a strict content security policy.
 */

import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import Type from 'typebox'
import { entityTag } from '../entity-tag.ts'
import { encodingFor } from '../header-values.ts'
import { lazily } from '../lazily.ts'
import { type AnswerRoute, type RawReply, route } from '../route.ts'

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const page = (title: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="docs/favicon.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/show.js"></script>
</body>
</html>
`

const SHOW = `window.SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#docs',
  deepLinking: true,
  validatorUrl: null,
  tryItOutEnabled: true,
  displayRequestDuration: true,
})
`

/** Files by their name under /docs. */
const ASSETS = {
  'swagger-ui.css': { file: 'swagger-ui.css', type: 'text/css; charset=utf-8' },
  'swagger-ui-bundle.js': {
    file: 'swagger-ui-bundle.js',
    type: 'text/javascript; charset=utf-8',
  },
  'favicon.png': { file: 'favicon-32x32.png', type: 'image/png' },
} as const

const compress = promisify(gzip)

type Asset = { readonly plain: Buffer; readonly zipped: Buffer; readonly etag: string }

async function assetOf(plain: Buffer): Promise<Asset> {
  return { plain, zipped: await compress(plain), etag: entityTag(plain) }
}

async function readAsset(file: string): Promise<Asset> {
  return assetOf(await readFile(fileURLToPath(import.meta.resolve(`swagger-ui-dist/${file}`))))
}

export function docs(title: string): AnswerRoute[] {
  const html = page(title.replace(/[<&]/g, ''))
  const asset = (name: string, type: string, load: () => Promise<Asset>): AnswerRoute =>
    route({
      method: 'GET',
      path: `/docs/${name}`,
      auth: 'public',
      cost: 'read',
      hidden: true,
      summary: name,
      headers: ['accept-encoding'],
      cacheControl: 'public, max-age=3600',
      revalidates: true,
      produces: type,
      responses: { 200: Type.String() },
      async handle({ headers }): Promise<RawReply> {
        const { plain, zipped, etag } = await load()
        const lines = { etag, vary: 'accept-encoding' }
        return encodingFor(headers['accept-encoding'] ?? '', ['gzip']) === undefined
          ? { status: 200, raw: plain, contentType: type, headers: lines }
          : {
              status: 200,
              raw: zipped,
              contentType: type,
              headers: { ...lines, 'content-encoding': 'gzip' },
            }
      },
    })
  return [
    route({
      method: 'GET',
      path: '/docs',
      auth: 'public',
      cost: 'read',
      hidden: true,
      summary: 'Get the documentation as a page',
      cacheControl: 'public, max-age=3600',
      revalidates: true,
      contentSecurityPolicy: POLICY,
      produces: 'text/html',
      responses: { 200: Type.String() },
      handle: () => ({
        status: 200,
        raw: html,
        contentType: 'text/html; charset=utf-8',
      }),
    }),
    asset(
      'show.js',
      'text/javascript; charset=utf-8',
      // The script is compressed when it is first requested, because most fronts never serve it.
      lazily(() => assetOf(Buffer.from(SHOW))),
    ),
    ...Object.entries(ASSETS).map(([name, { file, type }]) =>
      asset(
        name,
        type,
        lazily(() => readAsset(file)),
      ),
    ),
  ]
}
