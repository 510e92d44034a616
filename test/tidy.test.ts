/** The house rules, as a test: who may import whom, where a library lives, how files are written. */

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'
import { FOLDED } from '#loader/cache.js'
import { importsOf, ROOT, sourceFiles, textOf } from './support/imports.ts'
import { longParameterLists } from './support/parameters.ts'

/** Only these compose. */
const COMPOSERS = new Set(['src', 'threads', 'boot', 'upkeep'])

/** What each room may import; `type:` marks rooms that only types may come from. */
const ROOMS: Record<string, readonly string[]> = {
  domain: [],
  runtime: [],
  book: ['domain'],
  log: ['domain'],
  chain: ['domain', 'contracts'],
  store: ['domain'],
  feeds: ['domain'],
  verify: ['domain'],
  client: ['domain', 'contracts'],
  actors: [
    'domain',
    'book',
    ...['runtime', 'log', 'store', 'chain', 'feeds', 'verify'].map((room) => `type:${room}`),
  ],
  cluster: ['domain', 'runtime'],
  http: ['domain', 'runtime'],
  live: ['domain', 'runtime', 'http', 'type:actors'],
  api: ['domain', 'runtime', 'http', 'live', 'type:actors'],
  stream: ['domain', 'runtime', 'http', 'live', 'api', 'type:actors'],
  devnet: ['domain', 'contracts', 'chain', 'client'],
  cli: ['domain', 'client', 'devnet', 'config'],
  web: ['domain', 'client'],
}

/** The rooms where a library may be used; what is not listed may be used wherever it is needed. */
const HOMES: Record<string, readonly string[]> = {
  viem: ['chain', 'devnet', 'client'],
  '@mikro-orm': ['store'],
  'uWebSockets.js': ['http', 'stream'],
  piscina: ['runtime'],
  comlink: ['runtime'],
  typebox: ['http', 'live', 'api', 'stream', 'config'],
  pino: ['config'],
  'pino-pretty': ['config'],
  'better-sqlite3': ['log', 'store'],
  '@nats-io': ['cluster'],
  mysql2: ['log', 'devnet'],
  ws: ['devnet', 'threads'],
  secp256k1: ['verify'],
  koffi: ['verify'],
  keccak: ['verify'],
  esbuild: ['boot', 'loader'],
  preact: ['web'],
  '@preact/signals': ['web'],
  'lightweight-charts': ['web'],
}

/** Who reads the environment: one for the exchange, one for the command of its users. */
const ENVIRONMENT = new Set(['config/settings.ts', 'config/command-environment.ts'])

const WORKER_LINES_MAX = 15
/** All of them together stay below this. */
const WORKERS_LINES = 200

/** A function has at most so many parameters; one that needs more takes an object. */
const PARAMETERS_MAX = 4

/** Who may have more, by the room and the name of the function, and why. */
const MORE_PARAMETERS: Record<string, readonly string[]> = {
  'hot path: every order runs through it, and an object per call would be one more per order': [
    ...['withdraw', 'admit', 'tellFills', 'tellRest', 'close', 'closeOne', 'closeAll'].map(
      (name) => `actors ${name}`,
    ),
    ...['sameKey', 'push', 'readRecord'].map((name) => `book ${name}`),
  ],
  'the shape of a library’s own function': ['verify ecdsaRecover'],
}

const sources = sourceFiles()

/** The room of a file in `src`, or the top-level folder of any other. */
function roomOf(file: string): string {
  const parts = file.split('/')
  return parts[0] === 'src' && parts.length > 2 ? (parts[1] ?? '') : (parts[0] ?? '')
}

/** The room an import leads to, when it leads into this repository. */
function roomOfImport(file: string, from: string): string | undefined {
  if (from.startsWith('#')) return from.slice(1, from.indexOf('/'))
  if (from.startsWith('.')) return roomOf(normalize(join(dirname(file), from)))
  return undefined
}

test('rooms import only what the table allows', () => {
  const wrong: string[] = []
  for (const file of sources.filter((name) => name.startsWith('src/'))) {
    const room = roomOf(file)
    const allowed = ROOMS[room]
    if (COMPOSERS.has(room)) continue
    assert(allowed !== undefined, `src/${room} is not in the table of rooms`)
    for (const { from, typeOnly } of importsOf(file)) {
      const target = roomOfImport(file, from)
      if (target === undefined || target === room || allowed.includes(target)) continue
      if (typeOnly && allowed.includes(`type:${target}`)) continue
      wrong.push(`${file} imports ${from}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('nothing in src, workers or config imports a test or a load test', () => {
  const wrong: string[] = []
  for (const file of sources.filter((name) => /^(src|workers|config|contracts)\//.test(name))) {
    for (const { from } of importsOf(file)) {
      if (['test', 'loadtest'].includes(roomOfImport(file, from) ?? ''))
        wrong.push(`${file}: ${from}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('another room is named by its subpath, not by a way through folders', () => {
  const wrong: string[] = []
  for (const file of sources.filter((name) => name.startsWith('src/'))) {
    for (const { from } of importsOf(file)) {
      if (from.startsWith('.') && roomOfImport(file, from) !== roomOf(file)) {
        if (roomOf(file) !== 'src') wrong.push(`${file} imports ${from}`)
      }
    }
  }
  assert.deepEqual(wrong, [])
})

test('each library is used only where it is at home', () => {
  const wrong: string[] = []
  for (const file of sources.filter((name) => /^(src|config)\//.test(name))) {
    for (const { from } of importsOf(file)) {
      const library = from.startsWith('@')
        ? from.split('/').slice(0, 2).join('/')
        : (from.split('/')[0] ?? '')
      const homes = HOMES[library] ?? HOMES[library.split('/')[0] ?? '']
      const room = roomOf(file)
      const exception = file === 'src/domain/order-hash.ts' && library === 'viem'
      if (homes !== undefined && !homes.includes(room) && !exception) wrong.push(`${file}: ${from}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('of a folded library, every part that is used is folded', () => {
  const names = new Set(
    FOLDED.map((name) => name.split('/', name.startsWith('@') ? 2 : 1).join('/')),
  )
  const wrong: string[] = []
  for (const file of sources) {
    for (const { from, typeOnly } of importsOf(file)) {
      const library = from.split('/', from.startsWith('@') ? 2 : 1).join('/')
      if (!typeOnly && names.has(library) && !FOLDED.includes(from)) wrong.push(`${file}: ${from}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('files are named in kebab-case after what they hold', () => {
  const wrong = sources.filter((file) => {
    const name = file.split('/').at(-1) ?? ''
    return (
      !/^[a-z0-9]+(-[a-z0-9]+)*(\.test)?\.tsx?$/.test(name) ||
      /^(utils?|helpers?|index|common|misc)\.tsx?$/.test(name)
    )
  })
  assert.deepEqual(wrong, [])
})

test('no file only passes on what others export', () => {
  const wrong = sources.filter((file) =>
    /^export\s+(?:type\s+)?(?:\*|\{[^}]*\})\s+from\s/m.test(textOf(file)),
  )
  assert.deepEqual(wrong, [])
})

test('every file of ours opens by saying what it is', () => {
  const wrong = sources
    .filter((file) => /^(src|workers|config|loadtest)\//.test(file))
    .filter((file) => !textOf(file).startsWith('/**') && !textOf(file).startsWith('#!'))
  assert.deepEqual(wrong, [])
})

test('a worker only says which threads or jobs it runs', () => {
  const lines = sources
    .filter((file) => file.startsWith('workers/'))
    .map((file) => ({ file, lines: textOf(file).trimEnd().split('\n').length }))
  assert.deepEqual(
    lines.filter((worker) => worker.lines > WORKER_LINES_MAX),
    [],
    `a worker has at most ${WORKER_LINES_MAX} lines`,
  )
  const together = lines.reduce((sum, worker) => sum + worker.lines, 0)
  assert(
    together < WORKERS_LINES,
    `workers together have ${together} lines, not below ${WORKERS_LINES}`,
  )
})

test('the environment is read in one place', () => {
  const wrong = sources
    .filter((file) => /^(src|workers|config)\//.test(file) && !ENVIRONMENT.has(file))
    .filter((file) => /\bprocess\.env\b/.test(textOf(file)))
  assert.deepEqual(wrong, [])
})

test('a behaviour asks no clock, no chance and no environment', () => {
  const wrong = sources
    .filter((file) => file.startsWith('src/actors/') || file.startsWith('src/book/'))
    .filter((file) =>
      /\b(Date\.now|new Date\(\)|Math\.random|process\.env|performance\.now|await )\b/.test(
        textOf(file).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ''),
      ),
    )
  assert.deepEqual(wrong, [])
})

test('a function with more than four parameters takes an object, or is known to need them', () => {
  const sample = `function a(b: B, { c, d }: C<D, E>, e = [1, 2], f: (g: G, h: H) => I, j?: J) {}
    const k = (l, m, n, o, p) => q(r, s, t, u, v)
    type W = { x(a: A, b: B, c: C, d: D, e: E): void; y(a: A, b: B, c: C, d: D): void }`
  assert.deepEqual(
    longParameterLists(sample, PARAMETERS_MAX).map(({ name }) => name),
    ['a', 'k', 'x'],
  )
  const known = new Set(Object.values(MORE_PARAMETERS).flat())
  const wrong = sources
    .filter((file) => /^(src|workers|config)\//.test(file))
    .flatMap((file) =>
      longParameterLists(textOf(file), PARAMETERS_MAX)
        .filter(({ name }) => !known.has(`${roomOf(file)} ${name}`))
        .map(({ name, count }) => `${file}: ${name} has ${count}`),
    )
  assert.deepEqual(wrong, [])
})

test('nothing unfinished is left, and every room says what it is for', () => {
  const marks = new RegExp(['TO', 'DO|FIX', 'ME|X', 'XX'].join(''))
  const wrong = sources.filter((file) => marks.test(textOf(file)))
  assert.deepEqual(wrong, [])
  const rooms = new Set(
    sources
      .filter((f) => f.startsWith('src/'))
      .map((file) => dirname(file).split('/').slice(0, 2).join('/')),
  )
  rooms.delete('src')
  for (const room of rooms) assert(existsSync(join(ROOT, room, 'README.md')), `${room}/README.md`)
})

test('the lock file names no registry, and every dependency is pinned exactly', () => {
  assert(!textOf('package-lock.json').includes('"resolved"'))
  const manifest = JSON.parse(textOf('package.json')) as Record<string, Record<string, string>>
  for (const group of ['dependencies', 'devDependencies', 'optionalDependencies']) {
    for (const [name, version] of Object.entries(manifest[group] ?? {})) {
      assert.match(version, /^(npm:[\w.@/-]+@)?\d+\.\d+\.\d+$/, `${group}: ${name}`)
    }
  }
})
