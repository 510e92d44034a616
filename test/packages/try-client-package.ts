/** Tests the packed packages in an empty folder, with an exchange whose books are empty. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { devnetKey } from '#devnet/accounts.ts'
import { packCcxt } from '../../packages/pack-ccxt.ts'
import type { Exchange } from '../support/exchange.ts'
import { ROOT } from '../support/imports.ts'

const run = promisify(execFile)

type Target = { readonly types: string; readonly default: string }
type Entry = { readonly import: Target; readonly require: Target }
type Manifest = {
  readonly version: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, Entry | string>>
}

/** Makes a user's folder with the unpacked package, its dependencies, and the examples of its README. */
async function strangersFolder(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-stranger-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const installed = join(folder, 'node_modules/sibyl-client')
  await mkdir(installed, { recursive: true })
  const tarballs = await packCcxt(folder)
  await unpack(tarballs.client, installed)
  const read = (name: string) => readFile(join(installed, name), 'utf8')
  const manifest = JSON.parse(await read('package.json')) as Manifest
  await mkdir(join(folder, 'node_modules/@types'))
  // Links the package's dependencies, and only those tools that are needed to check the examples.
  for (const name of [...Object.keys(manifest.dependencies), '@types/node', '@types/ws', 'ws']) {
    const link = join(folder, 'node_modules', name)
    await mkdir(join(link, '..'), { recursive: true })
    await symlink(join(ROOT, 'node_modules', name), link)
  }
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  const blocks = [...(await read('README.md')).matchAll(/```ts\n(.*?)```/gs)]
  const examples = blocks.map((_, at) => `example-${at}.ts`)
  for (const [at, name] of examples.entries()) await writeFile(join(folder, name), blocks[at]![1]!)
  const files = (await readdir(installed, { recursive: true })).map(String)
  return { folder, manifest, read, files, examples, ccxt: tarballs.ccxt }
}

async function unpack(tarball: string, into: string): Promise<void> {
  await mkdir(into, { recursive: true })
  await run('tar', ['xzf', tarball, '-C', into, '--strip-components=1'])
}

type Folder = Awaited<ReturnType<typeof strangersFolder>>

/**
 * Tests the ccxt package together with the client package. Every module that the ccxt package imports must be
 * available. The example in its README must place an order.
 */
async function tryCcxtPackage({ folder, ccxt }: Folder, execute: Execute): Promise<void> {
  const installed = join(folder, 'node_modules/sibyl-ccxt')
  await unpack(ccxt, installed)
  await symlink(join(ROOT, 'node_modules/ccxt'), join(folder, 'node_modules/ccxt'))
  const read = (name: string) => readFile(join(installed, name), 'utf8')
  const manifest = JSON.parse(await read('package.json')) as Manifest
  assert.match(await read('CHANGELOG.md'), new RegExp(`^## ${manifest.version}$`, 'm'))
  const ours = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as Manifest
  assert.deepEqual(manifest.peerDependencies, { ccxt: ours.devDependencies?.ccxt })
  const bare = new Set<string>()
  for (const file of await readdir(installed)) {
    if (!/\.(js|d\.ts)$/.test(file)) continue
    for (const from of importsIn(await read(file))) {
      if (from.startsWith('.')) await read(join(file, '..', from))
      else bare.add(from)
    }
  }
  assert.deepEqual([...bare].sort(), ['ccxt', 'sibyl-client'])
  const [, example = ''] = /```ts\n(.*?)```/s.exec(await read('README.md')) ?? []
  await writeFile(join(folder, 'ccxt-example.ts'), example)
  const options = { module: 'nodenext', target: 'es2024', types: ['node'], strict: true }
  // The types of ccxt need browser types, so they are not checked.
  await compiles(folder, { ...options, skipLibCheck: true, files: ['ccxt-example.ts'] })
  assert.match(await execute('ccxt-example.ts'), /^open 0x[0-9a-f]{64}\n$/)
}

type Execute = (file: string) => Promise<string>

/** Returns everything that a module of the package imports. */
function importsIn(text: string): string[] {
  const statements = text.matchAll(/^(?:im|ex)port\s(?:[\w\s{},*$]*\sfrom\s)?\s*['"]([^'"]+)['"]/gm)
  const calls = text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]/g)
  return [...statements, ...calls].map(([, from]) => from!)
}

async function isWhole({ files, read, manifest }: Folder): Promise<void> {
  const bare = new Set<string>()
  for (const file of files.filter((name) => /\.(js|d\.ts)$/.test(name))) {
    for (const from of importsIn(await read(file))) {
      if (!from.startsWith('.')) {
        bare.add(from.startsWith('@') ? from.split('/', 2).join('/') : from.split('/', 1)[0]!)
        continue
      }
      assert.match(from, /\.js$/, `${file}: ${from}`)
      const target = join(file, '..', from)
      assert.ok(files.includes(target), `${file}: ${from}`)
      assert.ok(files.includes(target.replace(/\.js$/, '.d.ts')), `${file}: ${from} has no types`)
    }
  }
  assert.deepEqual([...bare].sort(), Object.keys(manifest.dependencies).sort())
  for (const [name, entry] of Object.entries(manifest.exports)) {
    const targets = typeof entry === 'string' ? [] : [entry.import, entry.require]
    for (const path of [entry, ...targets.flatMap((one) => [one.types, one.default])]) {
      if (typeof path !== 'string') continue
      assert.ok(files.includes(path.slice(2)), `${name}: ${path}`)
    }
  }
  const readme = await read('README.md')
  for (const name of Object.keys(manifest.exports)) {
    const part = name.slice(1)
    if (typeof manifest.exports[name] === 'object') assert.ok(readme.includes(`${part}\``), part)
  }
}

/** The code of a new project, used as an ES module and as CommonJS. */
const QUICK = `import { createClient, type Config } from 'sibyl-client'
const client = createClient({ url: 'http://127.0.0.1:8080' })
export const config: Promise<Config> = client.config()
`
const COMMON = `${QUICK}import stream = require('sibyl-client/stream')
export const { createStream } = stream
`

/** Checks that files of the folder compile with these options, without any message of the compiler. */
async function compiles(
  folder: string,
  {
    files,
    ...compilerOptions
  }: { readonly files: readonly string[]; readonly [option: string]: unknown },
): Promise<void> {
  await writeFile(join(folder, 'quick.ts'), QUICK)
  await writeFile(join(folder, 'common.cts'), COMMON)
  const config = { compilerOptions: { ...compilerOptions, noEmit: true }, files }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
  const { stdout } = await run(process.execPath, [tsc, '-p', folder]).catch(
    (failed: { stdout: string }) => failed,
  )
  assert.equal(stdout, '')
}

export async function tryClientPackage(t: TestContext, { url }: Exchange): Promise<void> {
  const stranger = await strangersFolder(t)
  const { folder, manifest, read, examples } = stranger

  await t.test(
    'the client package contains all files that it imports, and declares every package that it imports',
    () => isWhole(stranger),
  )

  await t.test(
    'the client package’s changelog has its version, and its dependency ranges match those of the repository',
    async () => {
      assert.match(await read('CHANGELOG.md'), new RegExp(`^## ${manifest.version}$`, 'm'))
      const ours = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as Manifest
      for (const [name, range] of Object.entries(manifest.dependencies)) {
        assert.equal(range, `^${ours.dependencies[name]}`)
      }
    },
  )

  const tries = 'types.ts'
  await writeFile(
    join(folder, tries),
    [
      "import { createClient, type Config, type TradesMessage, type Relayer } from 'sibyl-client'",
      "import { createStream } from 'sibyl-client/stream'",
      "import { WebSocket } from 'ws'",
      'const url = "http://127.0.0.1:8080"',
      'const client = createClient({ url })',
      'export const config: Promise<Config> = client.config()',
      'export const relayer: Relayer = client.relayer',
      'export const received = (message: TradesMessage) => message.seq',
      'export const streams = [client.stream({ WebSocket }), createStream({ url, WebSocket })]',
      '// @ts-expect-error: an order has a price',
      "client.orders.place({ marketId: '0x', side: 'buy', outcome: 'YES', size: '1' })",
    ].join('\n'),
  )
  const uses = [tries, ...examples]
  const strict = { strict: true, exactOptionalPropertyTypes: true, types: ['node'] }

  await t.test(
    'the types of the client package compile as ES modules and CommonJS, without browser types and skipLibCheck',
    async () => {
      // With `node16`, the older resolution, a CommonJS file finds declarations only for CommonJS.
      const options = { ...strict, module: 'node16', target: 'es2022', lib: ['es2022'] }
      await compiles(folder, {
        ...{ ...options, skipLibCheck: false },
        files: [...uses, 'quick.ts', 'common.cts'],
      })
    },
  )

  await t.test(
    'the types of the client package compile with the module resolution "bundler"',
    async () => {
      const options = { ...strict, module: 'esnext', moduleResolution: 'bundler', target: 'es2024' }
      await compiles(folder, { ...options, skipLibCheck: true, files: uses })
    },
  )

  const env = { PATH: process.env.PATH, SIBYL_URL: url, SIBYL_KEY: devnetKey(12) }
  const execute: Execute = async (file) =>
    (await run(process.execPath, [file], { cwd: folder, env, timeout: 300_000 })).stdout

  await t.test('a CommonJS project can require the client package', async () => {
    const required = "const { createReader } = require('sibyl-client/reader')\n"
    await writeFile(join(folder, 'common.cjs'), `${required}console.log(typeof createReader)`)
    assert.equal(await execute('common.cjs'), 'function\n')
  })

  await t.test('the order in the README of the client package is accepted', async () => {
    assert.match(await execute(examples[0]!), /^accepted 0x[0-9a-f]{64}\n$/)
  })

  await t.test('the stream example in the README of the client package runs', async () => {
    assert.match(await execute(examples[1]!), /^\[\] \[\]\n/)
  })

  await t.test('the client package accepts a WebSocket class from the caller', async () => {
    const code = (await readFile(join(folder, examples[1]!), 'utf8'))
      .replace('client.stream()', 'client.stream({ WebSocket: Counted })')
      .replace(
        '\nconst client',
        `import { WebSocket } from 'ws'
        let opened = 0
        class Counted extends WebSocket {
          constructor(url: string) {
            super(url)
            opened++
          }
        }
        const client`,
      )
    await writeFile(join(folder, 'own-socket.ts'), `${code}\nconsole.log('opened', opened)`)
    assert.match(await execute('own-socket.ts'), / ms\nopened 1\n$/)
  })

  await t.test(
    'a page that lists markets with the client package is less than 40 kB, bundled and gzipped',
    async () => {
      const entry = join(folder, 'reads.ts')
      await writeFile(
        entry,
        `import { createReader } from 'sibyl-client/reader'
       console.log((await createReader({ url: process.env.SIBYL_URL! }).markets()).length > 0)`,
      )
      const outfile = join(folder, 'reads.js')
      await build({
        ...{ entryPoints: [entry], outfile, bundle: true, minify: true },
        ...{ format: 'esm', platform: 'browser', target: 'es2022', logLevel: 'silent' },
      })
      const bytes = gzipSync(await readFile(outfile)).length
      assert.ok(bytes < 40_000, `${bytes} bytes`)
      t.diagnostic(`markets() alone is ${bytes} bytes`)
      assert.equal(await execute('reads.js'), 'true\n')
    },
  )

  await t.test(
    'sibyl-ccxt can be installed with the client package, and the exchange accepts the order example in sibyl-ccxt’s README',
    () => tryCcxtPackage(stranger, execute),
  )

  await t.test(
    'if the platform has no WebSocket, the error of a stream names the option that accepts one',
    async () => {
      await writeFile(
        join(folder, 'no-socket.js'),
        `import { createClient } from 'sibyl-client'
       delete globalThis.WebSocket
       try {
         createClient({ url: process.env.SIBYL_URL }).stream()
       } catch (error) {
         console.log(error.code, error.message)
       }`,
      )
      assert.match(
        await execute('no-socket.js'),
        /^MISSING_FIELD this runtime has no WebSocket: pass a WebSocket class/,
      )
    },
  )

  await t.test('the client package can be bundled for browsers', async () => {
    const entry = join(folder, 'page.ts')
    await writeFile(
      entry,
      `import { createClient } from 'sibyl-client'
       export async function questions(url: string) {
         return (await createClient({ url }).markets()).map(({ question }) => question)
       }`,
    )
    const outfile = join(folder, 'page.js')
    const bundled = await build({
      ...{ entryPoints: [entry], outfile, bundle: true, minify: true, metafile: true },
      ...{ format: 'esm', platform: 'browser', target: 'es2022', logLevel: 'silent' },
    })
    assert.deepEqual(bundled.warnings, [])
    const inputs = Object.keys(bundled.metafile.inputs)
    assert.ok(inputs.some((name) => name.includes('sibyl-client/client/client.js')))
    await writeFile(
      join(folder, 'try-page.js'),
      "import { questions } from './page.js'\nconsole.log(await questions(process.env.SIBYL_URL))",
    )
    assert.match(await execute('try-page.js'), /\?/)
  })
}
