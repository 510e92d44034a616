/**
 * Builds the files of the trading page from its sources. A separate esbuild process bundles the files and then ends.
 * The result is compressed; nothing is written to disk.
 */

import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { PageFile, PageFiles } from '#http/routes/page.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SCRIPT = 'src/web/main.tsx'
const STYLE = 'src/web/styles/page.css'

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
}

/**
 * Import path of the SDK module that reads a chain without a wallet. The page reads the chain only through the wallet,
 * so the bundler replaces this module by an empty one.
 */
const ABSENT = /^\.\/chain\.ts$/
const ABSENT_FILE = 'src/web/absent.ts'

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='7' fill='%230f766e'/%3E%3Cpath d='M7 21l6-7 5 4 7-9' fill='none' stroke='white' stroke-width='3' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E"

const zip = promisify(gzip)
const squeeze = promisify(brotliCompress)

export async function bundlePage(title: string): Promise<PageFiles> {
  const esbuild = await import('esbuild')
  try {
    const { outputFiles, metafile } = await esbuild.build({
      absWorkingDir: ROOT,
      entryPoints: [SCRIPT, STYLE],
      outdir: 'assets',
      write: false,
      metafile: true,
      bundle: true,
      splitting: true,
      minify: true,
      format: 'esm',
      target: 'es2022',
      jsx: 'automatic',
      jsxImportSource: 'preact',
      entryNames: '[name]-[hash]',
      chunkNames: '[name]-[hash]',
      logLevel: 'silent',
      plugins: [
        {
          name: 'absent',
          setup({ onResolve }) {
            onResolve({ filter: ABSENT }, () => ({ path: join(ROOT, ABSENT_FILE) }))
          },
        },
      ],
    })
    const outputs = Object.entries(metafile.outputs)
    const madeOf = (entry: string) => outputs.find(([, { entryPoint }]) => entryPoint === entry)
    const [script = '', { imports } = { imports: [] }] = madeOf(SCRIPT) ?? []
    const [style = ''] = madeOf(STYLE) ?? []
    const document = documentOf({
      title,
      script: basename(script),
      style: basename(style),
      // Names of the files that the script imports. With this list, the page can load all of them at once; otherwise
      // the browser would find them one after the other.
      ahead: imports
        .filter(({ kind }) => kind === 'import-statement')
        .map(({ path }) => basename(path)),
    })
    const assets = await Promise.all(
      outputFiles.map(async ({ path, contents }) => {
        const name = basename(path)
        return [name, await compress(TYPES[name.split('.').at(-1) ?? ''] ?? '', contents)] as const
      }),
    )
    return {
      document: await compress('text/html; charset=utf-8', Buffer.from(document)),
      assets: new Map(assets),
    }
  } finally {
    await esbuild.stop()
  }
}

async function compress(type: string, bytes: Uint8Array): Promise<PageFile> {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9 }
  const [zipped, squeezed] = await Promise.all([zip(bytes), squeeze(bytes, { params })])
  return { type, gzip: zipped, brotli: squeezed }
}

function documentOf(names: {
  readonly title: string
  readonly script: string
  readonly style: string
  readonly ahead: readonly string[]
}): string {
  const preloads = names.ahead.map((name) => `<link rel="modulepreload" href="/assets/${name}">\n`)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light">
<title>${names.title.replace(/[<&]/g, '')}</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="/assets/${names.style}">
<script type="module" src="/assets/${names.script}"></script>
${preloads.join('')}</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript. The exchange can be used without it: <a href="/docs">its API</a>.</noscript>
</body>
</html>
`
}
