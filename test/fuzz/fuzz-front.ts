/**
 * `npm run fuzz -- front --seconds 60 --seed 1`: sends malformed requests, headers, bodies and tokens to the front of a
 * real exchange, whole and in pieces, over raw sockets. Nothing may crash, no answer may be a 5xx other than 503, and
 * every answer must be well formed. Prints the seed, and the number of inputs of each kind.
 */

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { connect } from 'node:net'
import { registerApiKey } from '#client/api-keys.ts'
import { type ApiKeyPair, mintToken } from '#client/tokens.ts'
import { openExchange } from '../support/exchange.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { demoMarketIds } from '../support/seeded-markets.ts'
import { signedOrder, traderNumbered } from '../support/signed-orders.ts'
import { faultsOf } from './response-check.ts'

const CONNECTIONS = 96
/** Time to wait for an answer to an input before the connection is closed. */
const SILENCE_MS = 120
const ALIVE_EVERY_MS = 1_000
const FAILURES_SHOWN_MAX = 10

type Input = {
  readonly pieces: readonly Buffer[]
  /** Number of answers to wait for. */
  readonly answers: number
  readonly isHead?: boolean
}

type World = {
  readonly random: Random
  readonly key: ApiKeyPair
  readonly revoked: ApiKeyPair
  readonly market: string
  /** Valid bodies before they are changed. */
  readonly bodies: readonly string[]
  /** Tokens that are minted in advance, because minting takes longer than anything else here. */
  readonly tokens: string[]
  readonly paths: readonly string[]
}

function option(name: string, fallback: number): number {
  const at = process.argv.indexOf(`--${name}`)
  const value = at < 0 ? fallback : Number(process.argv[at + 1])
  assert.ok(Number.isFinite(value), `--${name} is a number`)
  return value
}

const METHODS = ['GET', 'POST', 'DELETE', 'PUT', 'PATCH', 'OPTIONS', 'HEAD', 'TRACE', 'CONNECT']
const ODD_METHODS = [
  '',
  'get',
  'G ET',
  'GET\t',
  'P0ST',
  'X'.repeat(300),
  '\u0000',
  'DELETE\u00ff',
  'PRI',
]
const ODD_TARGETS = [
  '',
  '/',
  '*',
  '//',
  '/../../etc/passwd',
  '/%',
  '/%zz',
  '/%00',
  '/\u0000',
  '/api/v1/orders/',
  '/api/v1//orders',
  'http://127.0.0.1/healthz',
  '/healthz#x',
  '/?',
  '/??&&==',
  '/api/v1/orders?trader',
  '/api/v1/orders?trader=%ff%fe',
  '/api/v1/orders?trader=a&trader=b',
  '/api/v1/markets?chain_id=-0',
  '/api/v1/markets?chain_id=1e9',
  '/\u00e9',
]
const ODD_VERSIONS = [
  'HTTP/1.0',
  'HTTP/1.2',
  'HTTP/2.0',
  'HTTP/0.9',
  'HTTP/1.1 ',
  'http/1.1',
  'HTTP',
  '',
  'HTTP/1.1\u0000',
  'HTTP/11',
]
const ODD_VALUES = [
  '',
  ' ',
  '0',
  '-1',
  '+5',
  '1e3',
  '0x10',
  '99999999999999999999',
  '18446744073709551616',
  'NaN',
  '5, 5',
  '5;x=1',
  'chunked',
  'chunked, chunked',
  'gzip, chunked',
  'identity',
  '\u0000',
  '\t',
  'a\u00ffb',
  '"',
  'x'.repeat(500),
  '\u007f',
]
const HEADER_NAMES = [
  'content-length',
  'transfer-encoding',
  'content-type',
  'authorization',
  'host',
  'origin',
  'x-request-id',
  'x-forwarded-for',
  'expect',
  'upgrade',
  'connection',
  'sec-websocket-key',
  'sec-websocket-version',
  'cookie',
  'range',
  'if-none-match',
  'access-control-request-method',
  'accept-encoding',
  'te',
  'trailer',
]
const ODD_NAMES = [
  '',
  ' ',
  'a b',
  'a\u0000',
  ':',
  'x'.repeat(300),
  '\u00e9',
  'content-length ',
  ' content-length',
  'a:b',
  '(x)',
]
const ODD_JSON = [
  'null',
  'true',
  '-0',
  '1e999',
  '"\\ud800"',
  '"\\u0000"',
  '[]',
  '{}',
  '9007199254740993',
  '18446744073709551616',
  '-1',
  '0.1',
  '1.0',
  '""',
  '" "',
  '"0x"',
  '{"__proto__":{}}',
  '[[[[]]]]',
  '"\u00e9"',
  '1e-7',
  '00',
  '+1',
  'NaN',
  "'a'",
]

const latin = (text: string): Buffer => Buffer.from(text, 'latin1')

function framed(
  method: string,
  target: string,
  headers: readonly (readonly [string, string])[],
  body: string | Buffer = '',
): Buffer {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return Buffer.concat([latin(`${method} ${target} HTTP/1.1\r\n${lines}\r\n`), Buffer.from(body)])
}

const HOST = ['host', 'localhost'] as const
const JSON_TYPE = ['content-type', 'application/json'] as const
const lengthOf = (body: string | Buffer) =>
  ['content-length', String(Buffer.byteLength(body))] as const

/** Returns the text with a few changes, as bit errors, typing errors or faulty libraries cause them. */
function mutated({ random }: World, bytes: Buffer): Buffer {
  let changed = Buffer.from(bytes)
  for (let changes = random.int(1, 4); changes > 0; changes--) {
    const at = random.int(0, Math.max(0, changed.length - 1))
    const end = Math.min(changed.length, at + random.int(1, 40))
    const head = changed.subarray(0, at)
    switch (random.int(0, 5)) {
      case 0:
        changed[at] = random.int(0, 255)
        break
      case 1:
        changed[at] = (changed[at] ?? 0) ^ (1 << random.int(0, 7))
        break
      case 2:
        changed = Buffer.concat([head, changed.subarray(end)])
        break
      case 3:
        changed = Buffer.concat([changed.subarray(0, end), changed.subarray(at)])
        break
      case 4:
        changed = Buffer.concat([head, noise(random, random.int(1, 12)), changed.subarray(at)])
        break
      default:
        changed = head
    }
  }
  return changed
}

function noise(random: Random, length: number): Buffer {
  return Buffer.from(random.hex(length).slice(2), 'hex')
}

function goodPost(world: World, path = '/api/v1/orders'): Buffer {
  const { random, bodies } = world
  const body = random.pick(bodies)
  const token = tokenFrom(world)
  return framed(
    'POST',
    path,
    [HOST, JSON_TYPE, ['authorization', `Bearer ${token}`], lengthOf(body)],
    body,
  )
}

function tokenFrom({ random, tokens }: World): string {
  return random.pick(tokens)
}

/** Returns JSON with one value replaced by an unusual one. */
function oddJson({ random, bodies }: World): string {
  const body = random.pick(bodies)
  const values = [...body.matchAll(/"[^"]*"(?!:)|\b\d+\b/g)]
  const { 0: text, index } = random.pick(values)
  return body.slice(0, index) + random.pick(ODD_JSON) + body.slice(index + text.length)
}

const KINDS: Readonly<Record<string, (world: World) => Input>> = {
  'random bytes': ({ random }) => ({
    pieces: [noise(random, random.int(1, 400)), latin('\r\n\r\n')],
    answers: 1,
  }),
  'request lines': ({ random, paths }) => {
    const method = random.pick(random.chance(0.5) ? METHODS : ODD_METHODS)
    const target = random.chance(0.4) ? random.pick(ODD_TARGETS) : random.pick(paths)
    const version = random.chance(0.6) ? 'HTTP/1.1' : random.pick(ODD_VERSIONS)
    const line = [method, target, version].join(
      random.chance(0.9) ? ' ' : random.pick(['  ', '\t', '']),
    )
    const head = `${line}${random.chance(0.9) ? '\r\n' : '\n'}host: a\r\n\r\n`
    return { pieces: [latin(head)], answers: 1, isHead: method === 'HEAD' }
  },
  headers: ({ random, paths }) => {
    const method = random.pick(METHODS.slice(0, 6))
    const headers: [string, string][] = [['host', 'a']]
    for (let count = random.int(1, random.chance(0.05) ? 130 : 6); count > 0; count--) {
      const name = random.chance(0.8) ? random.pick(HEADER_NAMES) : random.pick(ODD_NAMES)
      headers.push([name, random.pick(ODD_VALUES)])
    }
    const bytes = framed(method, random.pick(paths), headers, random.chance(0.3) ? '{}' : '')
    return { pieces: [bytes], answers: 1 }
  },
  'long headers': ({ random, paths }) => {
    const long = 'y'.repeat(random.int(3_000, 9_000))
    return { pieces: [framed('GET', random.pick(paths), [HOST, ['x-long', long]])], answers: 1 }
  },
  'chunked bodies': (world) => {
    const { random, bodies } = world
    const body = random.pick(bodies)
    const sizes = [
      '',
      'zz',
      '-1',
      'ffffffffffffffff',
      '0',
      body.length.toString(16),
      '5;a=b',
      '1 ',
      '0x5',
    ]
    const chunk = `${random.pick(sizes)}\r\n${body}${random.pick(['\r\n', '\n', ''])}${random.pick(['0\r\n\r\n', '0\r\nx: y\r\n\r\n', ''])}`
    const headers = [
      HOST,
      JSON_TYPE,
      ['transfer-encoding', 'chunked'],
      ...(random.chance(0.3) ? [lengthOf(body)] : []),
    ] as const
    return { pieces: [framed('POST', '/api/v1/orders/validate', headers, chunk)], answers: 1 }
  },
  'wrong lengths': (world) => {
    const { random, bodies } = world
    const body = random.pick(bodies)
    const length = Math.max(0, body.length + random.int(-50, 50))
    const headers = [HOST, JSON_TYPE, ['content-length', String(length)]] as const
    return { pieces: [framed('POST', '/api/v1/orders/validate', headers, body)], answers: 1 }
  },
  'content types': (world) => {
    const { random, bodies } = world
    const body = random.pick(bodies)
    const types = [
      'text/plain',
      'application/json; charset=latin1',
      'application/json;;',
      'application/x-www-form-urlencoded',
      'multipart/form-data',
      '',
      ...ODD_VALUES,
    ]
    const headers = [HOST, ['content-type', random.pick(types)], lengthOf(body)] as const
    return { pieces: [framed('POST', '/api/v1/orders/validate', headers, body)], answers: 1 }
  },
  'odd values in bodies': (world) => {
    const body = oddJson(world)
    const path = world.random.pick([
      '/api/v1/orders/validate',
      '/api/v1/orders',
      '/api/v1/orders/batch',
      '/api/v1/api-keys',
    ])
    const headers = [
      HOST,
      JSON_TYPE,
      ['authorization', `Bearer ${tokenFrom(world)}`],
      lengthOf(body),
    ] as const
    return { pieces: [framed('POST', path, headers, body)], answers: 1 }
  },
  'broken bodies': (world) => {
    const body = mutated(world, Buffer.from(world.random.pick(world.bodies)))
    const path = world.random.pick([
      '/api/v1/orders/validate',
      '/api/v1/api-keys',
      '/api/v1/orders/batch',
    ])
    return { pieces: [framed('POST', path, [HOST, JSON_TYPE, lengthOf(body)], body)], answers: 1 }
  },
  'deep and long bodies': ({ random }) => {
    const deep = random.int(1, 30_000)
    const body = random.pick([
      '['.repeat(deep) + ']'.repeat(deep),
      '{"a":'.repeat(Math.min(deep, 10_000)),
      `{"orders":[${'{},'.repeat(random.int(90, 110))}{}]}`,
      `"${'x'.repeat(random.int(60_000, 70_000))}"`,
      `{"order":{"nonce":${'9'.repeat(random.int(1, 5_000))}}}`,
    ])
    return {
      pieces: [framed('POST', '/api/v1/orders/validate', [HOST, JSON_TYPE, lengthOf(body)], body)],
      answers: 1,
    }
  },
  'broken tokens': (world) => {
    const { random } = world
    const token = mutated(world, Buffer.from(tokenFrom(world))).toString('latin1')
    const clean = token.replaceAll(/[\r\n\0]/g, 'x')
    const scheme = random.chance(0.9)
      ? 'Bearer '
      : random.pick(['bearer ', 'Bearer', 'Bearer  ', 'Basic ', ''])
    return {
      pieces: [framed('DELETE', '/api/v1/orders', [HOST, ['authorization', scheme + clean]])],
      answers: 1,
    }
  },
  'odd tokens': (world) => {
    const { random, key, revoked } = world
    const kid = random.pick([key.id, revoked.id, '', 'x', '\u00e9', "' or 1=1", null, 5, [], {}])
    const ts = random.pick([
      Math.floor(Date.now() / 1_000),
      0,
      -1,
      1e18,
      1.5,
      '1',
      null,
      true,
      [],
      2e9,
    ])
    const n = random.pick([
      random.hex(16).slice(2),
      'a',
      '',
      null,
      7,
      'g'.repeat(32),
      'a'.repeat(10_000),
    ])
    const payload = Buffer.from(JSON.stringify({ kid, ts, n })).toString('base64url')
    const token = `${payload}.${noise(random, random.pick([64, 64, 64, 63, 65, 0])).toString('base64url')}`
    return {
      pieces: [framed('DELETE', '/api/v1/orders', [HOST, ['authorization', `Bearer ${token}`]])],
      answers: 1,
    }
  },
  'paths and queries': (world) => {
    const { random, paths } = world
    const query = mutated(
      world,
      latin(`trader=${random.hex(20)}&market=${world.market}&side=buy&limit=5&chain_id=1`),
    )
    const target = `${mutated(world, latin(random.pick(paths))).toString('latin1')}?${query.toString('latin1')}`
    const clean = target.replaceAll(/[\r\n\0 ]/g, '%')
    return { pieces: [framed(random.pick(['GET', 'DELETE']), clean, [HOST])], answers: 1 }
  },
  upgrades: ({ random, paths }) => {
    const headers: [string, string][] = [
      ['host', 'a'],
      ['upgrade', 'websocket'],
      ['connection', 'upgrade'],
    ]
    if (random.chance(0.8))
      headers.push(['sec-websocket-key', random.pick([...ODD_VALUES, 'dGhlIHNhbXBsZSBub25jZQ=='])])
    if (random.chance(0.8)) headers.push(['sec-websocket-version', random.pick(['13', '8', ''])])
    const path = random.chance(0.5) ? '/api/v1/stream' : random.pick(paths)
    return { pieces: [framed('GET', path, headers), noise(random, random.int(1, 60))], answers: 1 }
  },
  'broken requests': (world) => ({ pieces: [mutated(world, goodPost(world))], answers: 1 }),
  'requests in pieces': (world) => {
    const { random } = world
    const bytes = goodPost(world, random.pick(['/api/v1/orders', '/api/v1/orders/validate']))
    const pieces: Buffer[] = []
    for (let at = 0; at < bytes.length; ) {
      const end = at + random.int(1, 200)
      pieces.push(bytes.subarray(at, end))
      at = end
    }
    return { pieces, answers: 1 }
  },
  'several in one': (world) => {
    const { random, paths } = world
    const count = random.int(2, 6)
    const pieces = Array.from({ length: count }, () => framed('GET', random.pick(paths), [HOST]))
    return { pieces: [Buffer.concat(pieces)], answers: count }
  },
  'left half way': (world) => {
    const bytes = goodPost(world)
    return { pieces: [bytes.subarray(0, world.random.int(1, bytes.length))], answers: 0 }
  },
  'left after asking': (world) => ({ pieces: [goodPost(world)], answers: 0 }),
  'good requests': (world) => ({
    pieces: [goodPost(world, '/api/v1/orders/validate')],
    answers: 1,
  }),
}

/** Sends one input; returns all received bytes, and whether the server closed the connection. */
function play(port: number, input: Input): Promise<{ bytes: Buffer; ended: boolean }> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let ended = false
    const socket = connect({ host: '127.0.0.1', port, noDelay: true })
    const finish = (): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ bytes: Buffer.concat(chunks), ended })
    }
    let timer = setTimeout(finish, 5_000)
    socket.on('connect', () => {
      for (const piece of input.pieces) socket.write(piece)
      if (input.answers === 0) setImmediate(finish)
      else {
        clearTimeout(timer)
        timer = setTimeout(finish, SILENCE_MS)
      }
    })
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      const { complete } = faultsOf(Buffer.concat(chunks), {
        ended: false,
        isHead: input.isHead === true,
      })
      if (complete >= input.answers) finish()
    })
    socket.on('end', () => {
      ended = true
    })
    // The server may reset the connection during a write; that counts as a close.
    socket.on('error', () => undefined)
    socket.on('close', finish)
  })
}

async function run(): Promise<number> {
  const seconds = option('seconds', 60)
  const seed = option('seed', randomInt(1, 2 ** 31))
  const random = randomFrom(seed)
  process.stdout.write(`seed ${seed}\n`)
  const exchange = await openExchange({
    environment: {
      SIBYL_AUTH_BEARER: 'true',
      SIBYL_FRONT_THREADS: '2',
      SIBYL_REQUEST_DEADLINE_MS: '2000',
      SIBYL_LOG_LEVEL: 'info',
      // No thread is restarted, so that a crash is noticed.
      SIBYL_RESTARTS_MAX: '0',
    },
    outputCharsMax: 10_000_000,
  })
  const { url } = exchange
  const port = Number(new URL(url).port)
  const trader = traderNumbered(11)
  const [market = ''] = demoMarketIds()
  const key = await registerApiKey({ url }, trader.key)
  const revoked = { ...key, id: '00000000-0000-4000-8000-000000000000' }
  const orders = await Promise.all(
    [0, 1, 2].map((at) => signedOrder(market as never, { price: 100_000 + at })),
  )
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: object }
  const world: World = {
    random,
    key,
    revoked,
    market,
    bodies: [
      ...orders.map((order) => JSON.stringify(order)),
      JSON.stringify({ orders }),
      JSON.stringify({
        address: trader.address,
        signature: `0x${'11'.repeat(65)}`,
        name: 'bot',
        expiresAt: 5,
      }),
    ],
    tokens: [],
    paths: Object.keys(document.paths).map((path) =>
      path.replaceAll(/\{[^}]*\}/g, () => (random.chance(0.5) ? market : random.hex(20))),
    ),
  }
  const refill = async (): Promise<void> => {
    while (world.tokens.length >= 200) world.tokens.shift()
    for (let made = 0; made < 20; made++) world.tokens.push(await mintToken(key, Date.now()))
  }
  await refill()

  const counts = new Map<string, number>()
  const statuses = new Map<string, number>()
  const failures: string[] = []
  const untilMs = performance.now() + seconds * 1_000
  const kinds = Object.keys(KINDS)
  const going = (): boolean => performance.now() < untilMs && failures.length < FAILURES_SHOWN_MAX

  async function player(): Promise<void> {
    while (going()) {
      const kind = random.pick(kinds)
      const input = KINDS[kind]!(world)
      const { bytes, ended } = await play(port, input)
      counts.set(kind, (counts.get(kind) ?? 0) + 1)
      const { faults, seen } = faultsOf(bytes, { ended, isHead: input.isHead === true })
      for (const status of seen) statuses.set(status, (statuses.get(status) ?? 0) + 1)
      for (const fault of faults) {
        const sent = Buffer.concat([...input.pieces])
          .subarray(0, 600)
          .toString('latin1')
        failures.push(
          `${kind}: ${fault}\n  sent ${JSON.stringify(sent)}\n  got ${JSON.stringify(bytes.subarray(0, 600).toString('latin1'))}`,
        )
      }
    }
  }

  /** Checks that a well-behaved client is served all the time. */
  async function watcher(): Promise<void> {
    while (going()) {
      const headers = { authorization: `Bearer ${await mintToken(key, Date.now())}` }
      const cancelled = await fetch(`${url}/api/v1/orders`, { method: 'DELETE', headers }).catch(
        String,
      )
      if (typeof cancelled === 'string' || ![200, 503].includes(cancelled.status)) {
        failures.push(
          `a good request got ${typeof cancelled === 'string' ? cancelled : cancelled.status}`,
        )
      }
      await refill()
      await new Promise((resolve) => setTimeout(resolve, ALIVE_EVERY_MS))
    }
  }

  try {
    await Promise.all([...Array.from({ length: CONNECTIONS }, player), watcher()])
    await exchange
      .stop()
      .catch((error: unknown) => failures.push(`the exchange ended badly: ${error}`))
    for (const line of exchange.output().split('\n')) {
      if (/"level":(50|60)\b/.test(line)) failures.push(`the log has ${line.slice(0, 500)}`)
    }
  } finally {
    await exchange.dispose()
  }
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
  for (const [kind, count] of [...counts].sort())
    process.stdout.write(`${String(count).padStart(8)}  ${kind}\n`)
  for (const [status, count] of [...statuses].sort())
    process.stdout.write(`${String(count).padStart(8)}  answers ${status}\n`)
  for (const failure of failures.slice(0, FAILURES_SHOWN_MAX))
    process.stdout.write(`FAILED ${failure}\n`)
  process.stdout.write(
    `${JSON.stringify({ fuzz: 'front', seed, seconds, inputs: total, failures: failures.length })}\n`,
  )
  return failures.length
}

process.exitCode = (await run()) === 0 ? 0 : 1
