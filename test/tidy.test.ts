/**
 * Tests the rules for code: imports between rooms (folders of `src`), where each library may be used, and how files are
 * written.
 */

import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'
import { FOLDED } from '#loader/cache.js'
import { importsOf, ROOT, sourceFiles, textOf } from './support/imports.ts'
import { longFunctions } from './support/long-functions.ts'
import { longParameterLists } from './support/parameters.ts'

/** Only these compose. */
const COMPOSERS = new Set(['src', 'boot', 'operator', 'services/front'])

/** Rooms that each room may import. `type:` marks rooms from which only types may be imported. */
const ROOMS: Record<string, readonly string[]> = {
  domain: [],
  runtime: [],
  protocol: ['domain', ...['runtime', 'book', 'store'].map((room) => `type:${room}`)],
  book: ['domain'],
  log: ['domain'],
  chain: ['domain', 'contracts'],
  store: ['domain'],
  transparency: ['domain'],
  verify: ['domain'],
  client: ['domain', 'contracts', 'transparency', 'type:protocol'],
  http: ['domain', 'runtime'],
  live: ['domain', 'runtime', 'http', 'protocol'],
  api: ['domain', 'runtime', 'http', 'live', 'protocol', 'transparency'],
  stream: ['domain', 'runtime', 'http', 'live', 'api', 'protocol'],
  devnet: ['domain', 'contracts', 'chain', 'client', 'type:protocol'],
  cli: ['domain', 'client', 'devnet', 'config', 'transparency', 'type:protocol'],
  web: ['domain', 'client', 'type:protocol'],
  ccxt: ['client', 'type:protocol'],
}

/** A service reaches others through `protocol` only. */
const SERVICE_IMPORTS = [
  'domain',
  'protocol',
  'book',
  'transparency',
  ...['runtime', 'log', 'store', 'chain', 'verify'].map((room) => `type:${room}`),
]

/**
 * Rooms that some files of a service may import in addition to `SERVICE_IMPORTS`: the files with the service's thread,
 * metrics or contract calls. Rooms are the top-level source folders.
 */
const ADAPTERS = [
  'config',
  'contracts',
  'chain',
  'http',
  'live',
  'api',
  'log',
  'runtime',
  'store',
  'verify',
]
const COMPOSING =
  /^src\/services\/((kit|node)\/|\w+\/(([a-z-]+-)?(thread|metrics)\.ts|(thread|chain)\/))/

/** The rooms where a library may be used; libraries that are not listed may be used anywhere. */
const HOMES: Record<string, readonly string[]> = {
  viem: ['chain', 'devnet', 'client'],
  ccxt: ['ccxt'],
  '@mikro-orm': ['store'],
  'uWebSockets.js': ['http', 'stream'],
  piscina: ['runtime'],
  comlink: ['runtime'],
  typebox: ['protocol', 'http', 'live', 'api', 'stream', 'config'],
  pino: ['config'],
  'pino-pretty': ['config'],
  'better-sqlite3': ['log', 'store'],
  '@nats-io': ['services/node'],
  mysql2: ['log', 'devnet'],
  ws: ['devnet', 'services/prices'],
  secp256k1: ['verify'],
  koffi: ['verify'],
  esbuild: ['boot', 'loader'],
  preact: ['web'],
  '@preact/signals': ['web'],
  'lightweight-charts': ['web'],
}

/** Files that may read the environment: one for the exchange, and one for the user's command. */
const ENVIRONMENT = new Set(['config/settings.ts', 'config/command-environment.ts'])

const WORKER_LINES_MAX = 15
/** The lines of all workers together must be fewer than this. */
const WORKERS_LINES = 200

/** Maximum number of parameters of a function; one that needs more takes an object. */
const PARAMETERS_MAX = 4

/** Functions that may have more parameters. The key is the reason. Each entry names a room and a function in it. */
const MORE_PARAMETERS: Record<string, readonly string[]> = {
  'hot path: every order runs through it, and an object per call would be one more per order': [
    ...['withdraw', 'admit', 'emitFills', 'emitRest', 'close', 'closeOne', 'closeAll'].map(
      (name) => `services/market ${name}`,
    ),
    ...['sameKey', 'push', 'readRecord'].map((name) => `book ${name}`),
  ],
  'the shape of a library’s own function': [
    'verify ecdsaRecover',
    'ccxt createOrder',
    'ccxt editOrder',
  ],
}

/** Maximum lines of code of a function, without comments and blank lines, including the functions inside it. */
const FUNCTION_LINES_MAX = 98

/** Functions that may be longer. The key is the reason. Each entry names a room and a function in it. */
const LONGER: Record<string, readonly string[]> = {
  'one loop over one state, on the way of every command': ['runtime serve'],
  'one state machine: every function changes the same few variables': [
    'client openConnection',
    'client makeSubscriptions',
    'http makeFairTurns',
    'web createTicket',
  ],
  'a list: one method per question to the chain': ['services/relayer relayFacts'],
  'a list: one method per call of the API': ['client createClient'],
  'a list: one entry per metric': [
    'services/prices pricesMeters',
    'services/settlement settlementMeters',
  ],
  'a list: one entry per route, after the parts behind them': ['services/front frontRoutes'],
  'the parts of a thread, which its links, timers and chains share': [
    'services/settlement settlementThread',
  ],
}

const sources = sourceFiles()

/** Returns the room of a file in `src`, or the top-level folder of another file. */
function roomOf(file: string): string {
  const parts = file.split('/')
  if (parts[0] !== 'src' || parts.length < 3) return parts[0] ?? ''
  return parts[1] === 'services' && parts.length > 3 ? `services/${parts[2]}` : (parts[1] ?? '')
}

/** Returns the rooms (source folders) that a file may import besides its own room; undefined if it may import all. */
function allowedFor(file: string): readonly string[] | undefined {
  const room = roomOf(file)
  if (COMPOSERS.has(room)) return undefined
  if (!room.startsWith('services/')) {
    assert(ROOMS[room] !== undefined, `src/${room} is not in the table of rooms`)
    return ROOMS[room]
  }
  if (!COMPOSING.test(file)) return SERVICE_IMPORTS
  return [...SERVICE_IMPORTS, ...ADAPTERS, 'services/kit']
}

/** Returns the room that an import leads to; undefined if that is a library. */
function roomOfImport(file: string, from: string): string | undefined {
  if (from.startsWith('#services/')) return roomOf(`src/${from.slice(1)}`)
  if (from.startsWith('#')) return from.slice(1, from.indexOf('/'))
  if (from.startsWith('.')) return roomOf(normalize(join(dirname(file), from)))
  return undefined
}

test('each top-level source folder imports only the folders that a table in this test allows', () => {
  const wrong: string[] = []
  for (const file of sources.filter((name) => name.startsWith('src/'))) {
    const room = roomOf(file)
    const allowed = allowedFor(file)
    if (allowed === undefined) continue
    for (const { from, typeOnly } of importsOf(file)) {
      const target = roomOfImport(file, from)
      if (target === undefined || target === room || allowed.includes(target)) continue
      if (typeOnly && allowed.includes(`type:${target}`)) continue
      wrong.push(`${file} imports ${from}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('the database engine imports no other folder of the store', () => {
  const engine = 'src/store/engine/'
  const wrong = sources
    .filter((file) => file.startsWith(engine))
    .flatMap((file) => importsOf(file).map(({ from }) => ({ file, from })))
    .filter(
      ({ file, from }) =>
        from.startsWith('#store/') ||
        (from.startsWith('.') && !normalize(join(dirname(file), from)).startsWith(engine)),
    )
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

test('a source file imports another top-level folder by its import alias, not by a relative path', () => {
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

test('each library is imported only in the source folders that are listed for the library', () => {
  const wrong: string[] = []
  for (const file of sources.filter((name) => /^(src|config)\//.test(name))) {
    for (const { from } of importsOf(file)) {
      const library = from.startsWith('@')
        ? from.split('/').slice(0, 2).join('/')
        : (from.split('/')[0] ?? '')
      const homes = HOMES[library] ?? HOMES[library.split('/')[0] ?? '']
      const room = roomOf(file)
      const exception =
        library === 'viem' &&
        (file === 'src/domain/order-hash.ts' || /^src\/services\/\w+\/chain\//.test(file))
      if (homes !== undefined && !homes.includes(room) && !exception) wrong.push(`${file}: ${from}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('every imported part of a bundled library is named in the list of bundled parts', () => {
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

test('file names are in kebab-case, and no file has a general name such as utils or helpers', () => {
  const wrong = sources.filter((file) => {
    const name = file.split('/').at(-1) ?? ''
    return (
      !/^[a-z0-9]+(-[a-z0-9]+)*(\.test)?\.tsx?$/.test(name) ||
      /^(utils?|helpers?|index|common|misc)\.tsx?$/.test(name)
    )
  })
  assert.deepEqual(wrong, [])
})

test('no source file only re-exports other files', () => {
  const wrong = sources.filter((file) =>
    /^export\s+(?:type\s+)?(?:\*|\{[^}]*\})\s+from\s/m.test(textOf(file)),
  )
  assert.deepEqual(wrong, [])
})

test('every source file begins with a comment about its contents', () => {
  const wrong = sources
    .filter((file) => /^(src|workers|config|loadtest)\//.test(file))
    .filter((file) => !textOf(file).startsWith('/**') && !textOf(file).startsWith('#!'))
  assert.deepEqual(wrong, [])
})

test('a worker file only lists the threads or jobs that it runs', () => {
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

test('only the listed source files read environment variables', () => {
  const wrong = sources
    .filter((file) => /^(src|workers|config)\//.test(file) && !ENVIRONMENT.has(file))
    .filter((file) => /\bprocess\.env\b/.test(textOf(file)))
  assert.deepEqual(wrong, [])
})

/**
 * Files of services that contain no actors, and so may use clocks and random numbers: those of fronts and price feeds.
 */
const NOT_BEHAVIOURS = /^src\/services\/(front|prices\/feeds)\//

test('the code of actors reads no clock, random numbers or environment variables, and never awaits', () => {
  const wrong = sources
    .filter((file) => /^src\/(services|book)\//.test(file))
    .filter((file) => !COMPOSING.test(file) && !NOT_BEHAVIOURS.test(file))
    .filter((file) =>
      /\b(Date\.now|new Date\(\)|Math\.random|process\.env|performance\.now|await )\b/.test(
        textOf(file).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ''),
      ),
    )
  assert.deepEqual(wrong, [])
})

/** Files of services that may contain `AMBIENT` or `OPENING` code (defined below). The key is the reason. */
const OWN_WORLD: Record<string, RegExp> = {
  'makes the clock, timers and connections used outside tests':
    /^src\/services\/kit\/(chain-)?world\.ts$/,
  'its sockets, pools and deadlines are those of an HTTP server': /^src\/services\/front\//,
  'connects to price providers, which are parameters of its thread':
    /^src\/services\/prices\/feeds\//,
  'opens the logs, sockets and feeds that its thread uses outside tests':
    /^src\/services\/(market\/thread\/market-log|node\/node-line|prices\/thread\/price-feeds)\.ts$/,
}

/**
 * `AMBIENT` matches code that reads time, draws random numbers or sets a timer. `OPENING` matches code that opens a
 * connection, a file or a thread.
 */
const AMBIENT =
  /\b(Date\.now|new Date\(\)|Math\.random|performance\.now|hrtime|random(Bytes|UUID|Int)|set(Timeout|Interval|Immediate)|systemClock|node:timers)\b/
const OPENING =
  /(?<![.\w])(make(Reads|ChainClient|Pool)|open(Database|LogReader|LogEnds|LogFollower|SqliteLog|MysqlLog|MarketLog|DiskRoom|NodeLine|FeedSocket)|fetch)\(|\bnew (Worker|WebSocket)\(/

const opensByItself = (code: string): boolean => AMBIENT.test(code) || OPENING.test(code)

test('a service gets time, random numbers, timers and connections as parameters', () => {
  for (const code of [
    'setTimeout(f, 1)',
    'a(Date.now())',
    'const r = makeReads(url)',
    'systemClock',
  ])
    assert(opensByItself(code), code)
  for (const code of ['world.makeReads(url)', 'clock.nowMs()', 'timers.after(1, f)'])
    assert(!opensByItself(code), code)
  const wrong = sources
    .filter((file) => file.startsWith('src/services/'))
    .filter((file) => !Object.values(OWN_WORLD).some((known) => known.test(file)))
    .filter((file) => opensByItself(textOf(file).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')))
  assert.deepEqual(wrong, [])
})

test('a function has at most four parameters, or is listed as an exception', () => {
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

test('a function has at most 98 lines of code, or is listed as an exception', () => {
  const body = `${'b()\n'.repeat(8)}\n// Not counted.\n/* Nor\nthis. */\n/** Nor\nthis. */\nconst c = 1\n`
  const sample = `const a = () => {\n${body}}\nclass B { c() {\n\nd() } }`
  assert.deepEqual(longFunctions('a.ts', sample, 5), [{ name: 'a', lines: 11 }])
  const known = new Set(Object.values(LONGER).flat())
  const long = sources
    .filter((file) => /^(src|workers|config)\//.test(file))
    .flatMap((file) =>
      longFunctions(file, textOf(file), FUNCTION_LINES_MAX).map(({ name, lines }) => ({
        key: `${roomOf(file)} ${name}`,
        told: `${file}: ${name} has ${lines} lines`,
      })),
    )
  assert.deepEqual(
    long.filter(({ key }) => !known.has(key)).map(({ told }) => told),
    [],
  )
  const found = new Set(long.map(({ key }) => key))
  assert.deepEqual(
    [...known].filter((key) => !found.has(key)),
    [],
    'these are short now: take them off the list',
  )
})

test('the code has no marks of unfinished work, and every top-level source folder has a README', () => {
  const marks = new RegExp(['TO', 'DO|FIX', 'ME|X', 'XX'].join(''))
  const wrong = sources.filter((file) => marks.test(textOf(file)))
  assert.deepEqual(wrong, [])
  const rooms = new Set(
    sources
      .filter((f) => f.startsWith('src/'))
      .map(roomOf)
      .filter((room) => room !== 'src'),
  )
  for (const room of rooms) {
    assert(existsSync(join(ROOT, 'src', room, 'README.md')), `src/${room}/README.md`)
  }
})

/** Replaced names, each with its new name. */
const OLD_NAMES: Record<string, string> = {
  manner: 'timeInForce',
  Manner: 'TimeInForce',
  clerk: 'writeQueue',
  shelf: 'registry',
  happening: 'resolutionUpdate',
  Choir: 'PriceSourceGroup',
  Voice: 'GroupMember',
  ThreadParts: 'Thread',
  RemoteHome: 'RemoteSupervisor',
  ClockNews: 'ClockUpdate',
  MARKETS_TOLD_MAX: 'MARKETS_PER_MESSAGE_MAX',
  TICKERS_TOLD_MAX: 'TICKERS_PER_MESSAGE_MAX',
  MarketWords: 'MarketTexts',
  Kit: 'ThreadContext',
  makeKit: 'makeThreadContext',
  SenderNews: 'SenderUpdate',
  LaneNews: 'LaneUpdate',
  ProjectionNews: 'ProjectionUpdate',
  ResolutionNews: 'SettledStep',
  HeardTrade: 'ReportedTrade',
  hearSettled: 'applySettled',
  hearStep: 'applyFundsStep',
  hearPaused: 'applyPaused',
  hearSpent: 'applySpent',
  hearLag: 'applyLag',
  hearProjected: 'applyProjected',
  hearAtOnce: 'handleAtOnce',
  hearWrite: 'handleWrite',
  hearLog: 'handleLog',
  hearAll: 'sendToAll',
  tellStages: 'reportStages',
  tellTrouble: 'reportTrouble',
  tellTroubles: 'logTroubles',
  tellChanges: 'emitChanges',
  tellFills: 'emitFills',
  tellRest: 'emitRest',
  tellProjected: 'sendProjected',
  tellCluster: 'sendCommand',
}

/** Rooms whose comments still have to be rewritten. */
const WORDS_TO_REWRITE: readonly string[] = []

test('names in the source avoid the listed old names, and comments avoid vague openings', () => {
  const wrong: string[] = []
  for (const file of sources.filter((name) => /^(src|config|workers)\//.test(name))) {
    const text = textOf(file)
    for (const [name, better] of Object.entries(OLD_NAMES)) {
      const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$|'[^'\n]*'/gm, '')
      if (new RegExp(`\\b${name}\\b`).test(code)) wrong.push(`${file}: say ${better}, not ${name}`)
    }
    if (WORDS_TO_REWRITE.some((room) => file.startsWith(room))) continue
    for (const [, opening = ''] of text.matchAll(
      /(?:\/\*\*\s*(?:\n\s*\* )?|^\s*\/\/ )((?:Who(?:ever)?|What(?:ever)?|Of|So (?:often|many|much))\b.{0,40})/gm,
    )) {
      wrong.push(`${file}: name the subject instead of "${opening}"`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('names of tests avoid vague openings and the listed unclear words', () => {
  const wrong = sources
    .filter((file) => file.startsWith('test/') && /\.test\.tsx?$/.test(file))
    .flatMap((file) =>
      [...textOf(file).matchAll(/\b(?:test|it|describe)\(\s*(['"`])(.*?)\1/g)]
        .map(([, , name = '']) => name)
        .filter((name) =>
          /^(?:who|what)(?:ever)?\b|\b(?:hears?|heard|tells?|told|his|him)\b/i.test(name),
        )
        .map((name) => `${file}: name the subject, and send, report or publish: "${name}"`),
    )
  assert.deepEqual(wrong, [])
})

test('every file named in a comment or a document exists', () => {
  const pages = filesIn('docs', 'src', 'test', 'loadtest', 'contracts', 'examples', 'packages')
    .concat(readdirSync(ROOT), 'workers/README.md', 'config/README.md')
    .filter((file) => file.endsWith('.md') && existsSync(join(ROOT, file)))
    .filter((file) => !/^CHANGELOG|\/node_modules\//.test(file))
  const known = [...sources, ...filesIn('contracts', 'examples')]
  const wrong = [...sources, ...pages].flatMap((file) => {
    const text = textOf(file)
    const words = file.endsWith('.md') ? [text] : (text.match(/\/\*[\s\S]*?\*\/|\/\/.*$/gm) ?? [])
    const named = words.flatMap((part) => [
      ...part.matchAll(/`((?:[\w@-]+\/)*[\w-]+(?:\.test)?\.(?:tsx?|sol))`/g),
    ])
    return named
      .map(([, name = '']) => name)
      .filter((name) => !known.some((path) => path === name || path.endsWith(`/${name}`)))
      .map((name) => `${file} names ${name}`)
  })
  assert.deepEqual(wrong, [])
})

function filesIn(...folders: string[]): string[] {
  return folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map(
      (file) => `${folder}/${file.replaceAll('\\', '/')}`,
    ),
  )
}

test('the lock file names no registry, and every dependency is pinned exactly', () => {
  assert(!textOf('package-lock.json').includes('"resolved"'))
  const manifest = JSON.parse(textOf('package.json')) as Record<string, Record<string, string>>
  for (const group of ['dependencies', 'devDependencies', 'optionalDependencies']) {
    for (const [name, version] of Object.entries(manifest[group] ?? {})) {
      assert.match(version, /^(npm:[\w.@/-]+@)?\d+\.\d+\.\d+$/, `${group}: ${name}`)
    }
  }
})
