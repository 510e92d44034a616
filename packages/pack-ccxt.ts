/**
 * `npm run pack:ccxt [-- --to folder]` makes the tarballs of `sibyl-client` and `sibyl-ccxt`. `sibyl-ccxt` contains
 * `src/ccxt` as JavaScript with declarations. It imports everything else of this repository from `sibyl-client`.
 */

import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { packClient } from './pack-client.ts'
import { compile, endDeclarations, packFolder, ROOT, run, SPECIFIER } from './pack-parts.ts'

const HELP = `Makes the packages sibyl-client and sibyl-ccxt, two tarballs.

  npm run pack:ccxt -- [options]

  --to <folder>   where to (dist)
`

const SOURCES = join(ROOT, 'src/ccxt')
const PACKAGE = join(ROOT, 'packages/ccxt')
const BOT = join(ROOT, 'examples/ccxt-bot.ts')

/**
 * Copies the sources into the folder, and replaces each import from another source folder by an import from
 * `sibyl-client`.
 */
async function laySources(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const name of await readdir(SOURCES)) {
    if (!name.endsWith('.ts')) continue
    const text = await readFile(join(SOURCES, name), 'utf8')
    const laid = text.replace(SPECIFIER, (found, before: string, quote: string, from: string) =>
      from.startsWith('#') ? `${before}${quote}sibyl-client${quote}` : found,
    )
    await writeFile(join(folder, name), laid)
  }
  const bot = await readFile(BOT, 'utf8')
  await writeFile(join(folder, 'quoting-bot.ts'), bot.replace('#ccxt/', './'))
}

async function addRest(folder: string): Promise<void> {
  const entry = "export { Sibyl, Sibyl as default } from './sibyl.js'\n"
  for (const name of ['index.js', 'index.d.ts']) await writeFile(join(folder, name), entry)
  const own = JSON.parse(await readFile(join(PACKAGE, 'package.json'), 'utf8')) as object
  const exports = {
    '.': { types: './index.d.ts', default: './index.js' },
    './package.json': './package.json',
  }
  const manifest = { ...own, main: './index.js', types: './index.d.ts', exports }
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  for (const name of ['README.md', 'CHANGELOG.md'])
    await cp(join(PACKAGE, name), join(folder, name))
  await cp(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'))
}

/** Makes both tarballs in `to`, and returns their paths. */
export async function packCcxt(to: string): Promise<{ client: string; ccxt: string }> {
  const build = await mkdtemp(join(tmpdir(), 'sibyl-pack-'))
  try {
    const client = await packClient(to)
    const unpacked = join(build, 'client')
    await mkdir(unpacked)
    await run('tar', ['xzf', client, '-C', unpacked, '--strip-components=1'])
    await laySources(join(build, 'source'))
    const paths = { 'sibyl-client': ['./client/index.d.ts'] }
    await compile(build, 'sibyl-ccxt', { paths, lib: ['ES2024', 'DOM'], types: ['node'] })
    const folder = join(build, 'package')
    await endDeclarations(folder)
    await addRest(folder)
    return { client, ccxt: await packFolder(build, to) }
  } finally {
    await rm(build, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  if (process.argv.some((each) => each === '--help' || each === '-h')) {
    process.stdout.write(HELP)
    process.exit(0)
  }
  const { values } = parseArgs({ options: { to: { type: 'string', default: 'dist' } } })
  const { client, ccxt } = await packCcxt(values.to)
  process.stdout.write(`${client}\n${ccxt}\n`)
}
