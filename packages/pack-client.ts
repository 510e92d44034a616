/**
 * `npm run pack:client [-- --to folder]` makes the tarball of `sibyl-client`. The package contains the SDK, and the
 * files of `domain` and the ABIs that the SDK needs, as JavaScript with declarations. The folder `protocol` has shapes,
 * the schemas of requests and answers. The package contains only their types.
 *
 * All sources are first copied into one folder. Imports that begin with `#` become relative paths there, so the package
 * needs no bundler. Only this file lists the names that users can import.
 */

import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import {
  addCommonJsTypes,
  compile,
  endDeclarations,
  packFolder,
  ROOT,
  SPECIFIER,
} from './pack-parts.ts'
import { shapeTypes } from './shape-types.ts'

const PACKAGE = join(ROOT, 'packages/client')

const HELP = `Makes the package sibyl-client, a tarball, of src/client and what it reaches.

  npm run pack:client -- [options]

  --to <folder>   where to (dist)
`

/** Modules that users import: each by `sibyl-client/name`, and all of them by `sibyl-client`. */
const PUBLIC = [
  'amount',
  'api-fit',
  'api-keys',
  'build-order',
  'client',
  'delegate-signer',
  'eip1193-signer',
  'local-book',
  'order-nonce',
  'reader',
  'sibyl-error',
  'sign-order',
  'stream',
  'tokens',
  'verify-log',
]

/**
 * `sibyl-client` exports only the types of these modules. Some of the modules contain only types. The SDK loads the
 * others on demand.
 */
const TYPES = [
  'answers',
  'archive',
  'chain',
  'delegates',
  'order-submission',
  'orderbook',
  'prices',
  'reads',
  'relayer',
  'resolution',
  'stream-messages',
  'stream-types',
  'transparency',
  'transport',
]

/** Source folders in this repository, by their names in the package. */
const ROOMS = {
  client: 'src/client',
  domain: 'src/domain',
  contracts: 'contracts',
  transparency: 'src/transparency',
  protocol: 'src/protocol',
} as const
type Room = keyof typeof ROOMS

/** Folder of the shapes. The package contains only their types, as plain TypeScript. */
const SHAPES = 'protocol/shapes/'

/** Types of shapes that the package does not export, because the SDK returns its own types instead. */
const NOT_PUBLIC = new Set([
  'BookAnswer',
  'BookFrame',
  'CheckedOrder',
  'ConfigAnswer',
  'EvidenceAnswer',
  'FailedClaim',
  'PendingClaim',
])

/** Copies into `folder` the files of the client and the files that they import, and returns their names. */
async function laySources(
  folder: string,
  shapes: ReadonlyMap<string, string>,
): Promise<readonly string[]> {
  const own = await readdir(join(ROOT, ROOMS.client))
  const files = own.filter((name) => name.endsWith('.ts')).map((name) => `client/${name}`)
  // Grows while it is walked.
  for (const file of files) {
    const [room, ...rest] = file.split('/') as [Room, ...string[]]
    const text = file.startsWith(SHAPES)
      ? shapes.get(file.slice(SHAPES.length))!
      : await readFile(join(ROOT, ROOMS[room], ...rest), 'utf8')
    const laid = text.replace(SPECIFIER, (_, before: string, quote: string, from: string) => {
      const target = from.startsWith('#') ? from.slice(1) : join(dirname(file), from)
      if (!(target.split('/')[0]! in ROOMS)) throw new Error(`${file} imports ${from}`)
      if (!files.includes(target)) files.push(target)
      const way = relative(dirname(file), target)
      return `${before}${quote}${way.startsWith('.') ? way : `./${way}`}${quote}`
    })
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), laid)
  }
  return files
}

type Manifest = Readonly<Record<string, unknown>>

function manifestOf(own: Manifest): Manifest {
  // Node 20.19, Node 22.12 and later versions can load an ES module with `require`. So `import` and `require` name the
  // same file; only the type declarations differ.
  const entry = (path: string) => ({
    import: { types: `./${path}.d.ts`, default: `./${path}.js` },
    require: { types: `./${path}.d.cts`, default: `./${path}.js` },
  })
  const exports: Record<string, unknown> = { '.': entry('index') }
  for (const name of PUBLIC) exports[`./${name}`] = entry(`client/${name}`)
  exports['./package.json'] = './package.json'
  return { ...own, main: './index.js', types: './index.d.ts', exports }
}

/** Returns the line of `index.d.ts` that exports the types of one file of shapes. */
function shapesLine([file, text]: readonly [string, string]): string {
  const names = [...text.matchAll(/^export type (\w+)/gm)].map(([, name]) => name!)
  const shown = names.filter((name) => !NOT_PUBLIC.has(name))
  return `export type { ${shown.join(', ')} } from './${SHAPES}${file.replace(/ts$/, 'js')}'\n`
}

async function addRest(
  folder: string,
  shapes: readonly (readonly [string, string])[],
): Promise<void> {
  const all = PUBLIC.map((name) => `export * from './client/${name}.js'\n`).join('')
  const types = TYPES.map((name) => `export type * from './client/${name}.js'\n`).join('')
  await writeFile(join(folder, 'index.js'), all)
  await writeFile(join(folder, 'index.d.ts'), all + types + shapes.map(shapesLine).join(''))
  const own = JSON.parse(await readFile(join(PACKAGE, 'package.json'), 'utf8')) as Manifest
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(manifestOf(own), null, 2)}\n`)
  for (const name of ['README.md', 'CHANGELOG.md'])
    await cp(join(PACKAGE, name), join(folder, name))
  await cp(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'))
}

/** Makes the tarball in `to`, and returns its path. */
export async function packClient(to: string): Promise<string> {
  const build = await mkdtemp(join(tmpdir(), 'sibyl-pack-'))
  try {
    const shapes = await shapeTypes()
    const laid = await laySources(join(build, 'source'), shapes)
    await compile(build, 'the client')
    const folder = join(build, 'package')
    await endDeclarations(folder)
    const used = [...shapes].filter(([file]) => laid.includes(`${SHAPES}${file}`))
    await addRest(folder, used)
    await addCommonJsTypes(folder)
    return await packFolder(build, to)
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
  process.stdout.write(`${await packClient(values.to)}\n`)
}
