/**
 * The trading page as a browser receives it: one document, files named after their content, and a strict content
 * policy.
 */

import assert from 'node:assert/strict'
import { request } from 'node:http'
import { before, test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { type PageFiles, type PagePreviews, page } from '#http/routes/page.ts'
import { pageRoutes } from '#services/front/page.ts'
import { defaults } from '../../config/default.ts'
import { bundlePage } from '../../src/boot/bundle-page.ts'
import { startTestFront } from './front-fixture.ts'

const NODE = 'http://127.0.0.1:8545'
let files: PageFiles

before(async () => {
  files = await bundlePage('Sibyl <&>')
})

const MARKET_ID = `0x${'ab'.repeat(32)}`
const shown = { title: 'Rain "<b>&\'?', description: 'YES 63.0%, NO 37.0%.' }
const previews: PagePreviews = {
  market: async (name) =>
    name === 'rain-abababababab' ? { target: MARKET_ID, ...shown } : undefined,
  event: async (name) => (name === 'rain-cdcdcdcdcdcd' ? { target: 'rain', ...shown } : undefined),
}

const routes = (load = async () => files) =>
  page({ load, reload: false, previews, connects: [NODE] })

/** Returns the bytes as they are sent; `fetch` would decompress them. */
function get(
  url: string,
  headers: Record<string, string>,
): Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; bytes: Buffer }> {
  return new Promise((resolve, reject) => {
    request(url, { headers }, async (response) => {
      const bytes = Buffer.concat(await response.toArray())
      resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes })
    })
      .on('error', reject)
      .end()
  })
}

test('the trading page contains no inline code, and the server has every file that it loads', async (t) => {
  const { url } = await startTestFront(t, {}, { routes: routes() })
  const answer = await fetch(url)
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8')
  const text = await answer.text()
  assert.match(text, /<title>Sibyl >/)
  assert.doesNotMatch(text, /<style|<script[^>]*>[^<]|\son\w+=|\sstyle=/)
  const names = [...text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, name = '']) => name)
  assert(names.some((name) => /main-[A-Z0-9]{8}\.js$/.test(name)))
  assert(names.some((name) => /page-[A-Z0-9]{8}\.css$/.test(name)))
  for (const name of names) {
    const file = await fetch(url + name)
    assert.equal(file.status, 200, name)
    assert.equal(file.headers.get('cache-control'), 'public, max-age=31536000, immutable')
    assert((await file.text()).length > 0, name)
  }
})

test('a share link has the title and price of its market or event in its meta tags, escaped as text', async (t) => {
  const { url } = await startTestFront(t, {}, { routes: routes() })
  const targets = {
    '/m/rain-abababababab': `<meta name="sibyl-market" content="${MARKET_ID}">`,
    '/e/rain-cdcdcdcdcdcd': '<meta name="sibyl-event" content="rain">',
  }
  for (const [path, target] of Object.entries(targets)) {
    const answer = await fetch(url + path)
    assert.equal(answer.status, 200)
    assert.match(answer.headers.get('content-security-policy') ?? '', /script-src 'self'/)
    const text = await answer.text()
    assert.match(text, /<title>Rain &quot;&lt;b&gt;&amp;&#39;\?<\/title>/)
    assert.match(text, /<meta property="og:title" content="Rain &quot;&lt;b&gt;&amp;&#39;\?">/)
    assert.match(text, /<meta property="og:description" content="YES 63\.0%, NO 37\.0%\.">/)
    assert.ok(text.includes(target))
    assert.equal(text.split('<title>').length, 2)
    assert.equal((await fetch(`${url}${path.slice(0, -12)}000000000000`)).status, 404)
  }
})

test('the content policy lets the page connect only to its own origin and the configured Ethereum node', async (t) => {
  const { url } = await startTestFront(t, {}, { routes: routes() })
  const { headers } = await fetch(url)
  const policy = headers.get('content-security-policy') ?? ''
  const rules = new Map(policy.split('; ').map((rule) => rule.split(/ (.*)/s) as [string, string]))
  assert.equal(rules.get('default-src'), "'none'")
  assert.equal(rules.get('script-src'), "'self'")
  assert.equal(rules.get('style-src'), "'self'")
  assert.equal(rules.get('connect-src'), `'self' ${NODE}`)
  assert.equal(rules.get('frame-ancestors'), "'none'")
  assert.doesNotMatch(policy, /unsafe/)
  assert.equal(headers.get('x-content-type-options'), 'nosniff')
  assert.equal(headers.get('referrer-policy'), 'no-referrer')
})

test('the server answers 304 if the browser’s copy of the trading page is current', async (t) => {
  const { url } = await startTestFront(t, {}, { routes: routes() })
  const first = await fetch(url)
  const etag = first.headers.get('etag') ?? ''
  assert.equal(first.headers.get('cache-control'), 'no-cache')
  const again = await fetch(url, { headers: { 'if-none-match': etag } })
  assert.equal(again.status, 304)
  assert.equal(await again.text(), '')
  const other = await fetch(url, { headers: { 'if-none-match': '"another"' } })
  assert.equal(other.status, 200)
})

test('files of the page are served in the best encoding that the browser accepts', async (t) => {
  const { url } = await startTestFront(t, {}, { routes: routes() })
  const name = [...files.assets.keys()].find((one) => one.startsWith('main-'))
  const at = `${url}/assets/${name}`
  const plain = await get(at, { 'accept-encoding': 'identity' })
  const zipped = await get(at, { 'accept-encoding': 'gzip, deflate' })
  const squeezed = await get(at, { 'accept-encoding': 'gzip, deflate, br, zstd' })
  const refused = await get(at, { 'accept-encoding': 'gzip, br;q=0' })
  assert.equal(plain.headers['content-encoding'], undefined)
  assert.equal(zipped.headers['content-encoding'], 'gzip')
  assert.equal(squeezed.headers['content-encoding'], 'br')
  assert.equal(refused.headers['content-encoding'], 'gzip')
  for (const one of [plain, zipped, squeezed]) assert.equal(one.headers.vary, 'accept-encoding')
  assert(squeezed.bytes.length < plain.bytes.length / 2)
  assert(gunzipSync(zipped.bytes).equals(plain.bytes))
  assert(brotliDecompressSync(squeezed.bytes).equals(plain.bytes))
})

test('a file name that is not part of the trading page is answered with 404', async (t) => {
  const { url } = await startTestFront(t, {}, { routes: routes() })
  for (const path of ['/assets/main.js', '/assets/..%2fpackage.json', '/assets/', '/market']) {
    assert.equal((await fetch(url + path)).status, 404, path)
  }
})

test('the files that the trading page loads at first have less than 80 kB together', async (t) => {
  const { url } = await startTestFront(t, {}, { routes: routes() })
  const text = await (await fetch(url)).text()
  const names = [...text.matchAll(/"\/assets\/([^"]+)"/g)].map(([, name = '']) => name)
  const bytes = names.reduce((sum, name) => sum + (files.assets.get(name)?.gzip.length ?? 0), 0)
  assert(bytes > 10_000 && bytes < 80_000, `${bytes} bytes in ${names.length} files`)
  assert(files.assets.size > names.length, 'some files are for later')
})

test('the trading page’s code for signing with a local key is loaded only when it is needed', () => {
  const scripts = [...files.assets]
    .filter(([name]) => name.endsWith('.js'))
    .map(([name, { gzip }]) => ({ name, text: gunzipSync(gzip).toString() }))
  // Finds the signing code by a constant of the signature curve, because most of that code is the curve.
  const curve = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'
  const [signing, ...more] = scripts.filter(({ text }) => text.includes(curve))
  assert.match(signing?.name ?? '', /^local-key-/)
  assert.deepEqual(more, [])
  const statically = scripts.filter(({ text }) => text.includes(`from"./${signing?.name}"`))
  assert.deepEqual(statically, [])
})

test('if building the trading page fails, the server answers 500 and tries again at the next request', async (t) => {
  let attempts = 0
  const load = async () => {
    if (++attempts === 1) throw new Error('no bundler')
    return files
  }
  const { url } = await startTestFront(t, {}, { routes: routes(load) })
  assert.equal((await fetch(url)).status, 500)
  assert.equal((await fetch(url)).status, 200)
  assert.equal((await fetch(url)).status, 200)
  assert.equal(attempts, 2)
})

test('if the settings disable the trading page, the server has no routes for it', () => {
  const web = { enabled: false, reload: false }
  assert.deepEqual(pageRoutes({ ...defaults, web }, {} as never, previews), [])
  assert.equal(pageRoutes(defaults, {} as never, previews).length, 4)
})
