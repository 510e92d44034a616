/**
 * The trading page: one document at `/`, and its files under `/assets/`. The name of a file changes with its content.
 * So a browser caches the files forever, and requests only the document again. Under `/m/` and `/e/` the same document
 * contains preview tags of the shared market or event. Other apps read these tags to show a preview of the link.
 */

import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import Type from 'typebox'
import { reject } from '#domain/rejection.ts'
import { encodingFor } from '../header-values.ts'
import { lazily } from '../lazily.ts'
import { type AnswerRoute, type RawReply, route } from '../route.ts'

export type PageFile = {
  readonly type: string
  readonly gzip: Uint8Array
  readonly brotli: Uint8Array
}

export type PageFiles = {
  readonly document: PageFile
  /** Files by their name under /assets. */
  readonly assets: ReadonlyMap<string, PageFile>
}

type PagePreview = {
  /** Id of the market, or slug of the event, which the page shows. */
  readonly target: string
  readonly title: string
  readonly description: string
}

/**
 * Functions that return the preview for a share link. `name` is the part of the link after `/m/` or `/e/`. The preview
 * is undefined if the market or event does not exist.
 */
export type PagePreviews = {
  readonly [Kind in 'market' | 'event']: (name: string) => Promise<PagePreview | undefined>
}

type PageOptions = {
  readonly load: () => Promise<PageFiles>
  /** True if the page is built again at each visit. */
  readonly reload: boolean
  readonly previews: PagePreviews
  /** Further addresses that the page may connect to, such as the node of a local chain. */
  readonly connects: readonly string[]
}

/**
 * Deadline of the page's routes. It is long, because the first visit builds the page, which is slow on a busy
 * machine.
 */
const DEADLINE_MS = 30_000
const NAME_CHARS_MAX = 200
/**
 * Factor that multiplies the cost of the page at a share link. Each request for this page needs database queries and
 * decompresses the document.
 */
const SHARED_WEIGHT = 10

/**
 * Returns the content security policy of the page. It allows no inline script or style, so text in the page can never
 * become code.
 */
function policyOf(connects: readonly string[]): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    // 'self' includes the page's own WebSocket.
    ["connect-src 'self'", ...connects].join(' '),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

const GUARDS = {
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  // Wallets that open a new window must be able to send messages back to the page.
  'cross-origin-opener-policy': 'same-origin-allow-popups',
  'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=()',
}

const unzip = promisify(gunzip)

export function page({ load, reload, previews, connects }: PageOptions): AnswerRoute[] {
  let files = lazily(load)
  const common = {
    method: 'GET',
    auth: 'public',
    cost: 'read',
    hidden: true,
    headers: ['accept-encoding'],
    deadlineMs: DEADLINE_MS,
    responses: { 200: Type.String() },
  } as const
  const shared = (path: `/${string}`, kind: keyof PagePreviews) =>
    route({
      ...common,
      weight: SHARED_WEIGHT,
      path,
      summary: `The trading page at one ${kind}, by a link to share`,
      produces: 'text/html',
      cacheControl: 'no-cache',
      revalidates: true,
      contentSecurityPolicy: policyOf(connects),
      params: Type.Object(
        { name: Type.String({ maxLength: NAME_CHARS_MAX }) },
        { additionalProperties: false },
      ),
      async handle({ path: { name } }) {
        const { document } = await files()
        const found = await previews[kind](name)
        const plain = (await unzip(document.gzip)).toString()
        const raw = found === undefined ? plain : withTags(plain, kind, found)
        const status = found === undefined ? 404 : 200
        return { status, contentType: document.type, raw, headers: GUARDS }
      },
    })
  return [
    route({
      ...common,
      path: '/',
      summary: 'The trading page',
      produces: 'text/html',
      cacheControl: 'no-cache',
      revalidates: true,
      contentSecurityPolicy: policyOf(connects),
      async handle({ headers }) {
        if (reload) files = lazily(load)
        const { document } = await files()
        return answer(document, headers['accept-encoding'] ?? '', GUARDS)
      },
    }),
    shared('/m/{name}', 'market'),
    shared('/e/{name}', 'event'),
    route({
      ...common,
      path: '/assets/{name}',
      summary: 'A file of the trading page',
      produces: 'text/javascript',
      cacheControl: 'public, max-age=31536000, immutable',
      params: Type.Object(
        { name: Type.String({ maxLength: NAME_CHARS_MAX }) },
        { additionalProperties: false },
      ),
      async handle({ path, headers }) {
        const { assets } = await files()
        const file = assets.get(path.name)
        if (file === undefined) return reject('NOT_FOUND')
        return answer(file, headers['accept-encoding'] ?? '', {})
      },
    }),
  ]
}

/** Replaces the title of the document by the title of the market or event, and adds the preview tags. */
function withTags(document: string, kind: keyof PagePreviews, found: PagePreview): string {
  const [before = '', rest = ''] = document.split('<title>', 2)
  const after = rest.slice(rest.indexOf('</title>') + '</title>'.length)
  const { target, title, description } = found
  const tags = [
    ['name', `sibyl-${kind}`, target],
    ['name', 'description', description],
    ['property', 'og:type', 'website'],
    ['property', 'og:title', title],
    ['property', 'og:description', description],
    ['name', 'twitter:card', 'summary'],
  ].map(([kind, name, content = '']) => `<meta ${kind}="${name}" content="${escaped(content)}">`)
  return `${before}<title>${escaped(title)}</title>\n${tags.join('\n')}${after}`
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Escapes HTML, because the creator of a market or event chooses its texts. */
function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => ENTITIES[sign] ?? '')
}

async function answer(
  { type, gzip, brotli }: PageFile,
  accepted: string,
  more: Readonly<Record<string, string>>,
): Promise<RawReply> {
  const headers = { ...more, vary: 'accept-encoding' }
  const reply = { status: 200, contentType: type }
  const encoding = encodingFor(accepted)
  if (encoding !== undefined) {
    const raw = encoding === 'br' ? brotli : gzip
    return { ...reply, raw, headers: { ...headers, 'content-encoding': encoding } }
  }
  // A few clients accept neither encoding. For these clients the file is decompressed at each request.
  return { ...reply, raw: await unzip(gzip), headers }
}
