import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { PATTERN_WORDS } from '#config/schema/patterns.ts'
import { loadSettings, SettingsError, settingsList, settingsWarnings } from '#config/settings.ts'
import { shownSettings } from '#config/shown-settings.ts'
import { streamUrl } from '#domain/price-providers.ts'

const NODE = {
  SIBYL_ROLES: 'front',
  SIBYL_NODE: 'a',
  SIBYL_NATS_URL: 'nats://user:secret@b:4222',
  SIBYL_LOG_URL: 'mysql://root@c/log',
  SIBYL_DATABASE_URL: 'mysql://root@c/sibyl',
  SIBYL_MARKET_THREADS: '4',
  SIBYL_DEVNET: 'false',
}

const WRONG: [string, Record<string, string>, RegExp][] = [
  [
    'a port that is not a number',
    { SIBYL_PORT: 'abc' },
    /^SIBYL_PORT: must be an integer from 0 to 65535, but it is "abc"$/,
  ],
  ['a port out of range', { SIBYL_PORT: '70000' }, /^SIBYL_PORT: must be an integer/],
  ['a port with a fraction', { SIBYL_PORT: '1.5' }, /^SIBYL_PORT: must be an integer/],
  [
    'a numeric setting with an empty value',
    { SIBYL_FRONT_THREADS: '' },
    /^SIBYL_FRONT_THREADS: must be an integer from 0 to 64 threads/,
  ],
  [
    'an unknown setting',
    { SIBYL_PROT: '1' },
    /^SIBYL_PROT: there is no such setting; did you mean SIBYL_PORT\?$/,
  ],
  [
    'an unknown setting whose name is not similar to any other',
    { SIBYL_SOMETHING_ELSE_ENTIRELY: '1' },
    /: there is no such setting; npm run settings lists all$/,
  ],
  [
    'a chain RPC address that is not a URL',
    { SIBYL_CHAIN_RPC: 'node.example' },
    /^SIBYL_CHAIN_RPC: must be an address that begins with http:\/\/ or https:\/\/ at \[0\], but it is "node.example"$/,
  ],
  ['a list that is not JSON', { SIBYL_CHAINS: '[' }, /^SIBYL_CHAINS: must be a list in JSON/],
  [
    'a boolean other than true or false',
    { SIBYL_AUTH_BEARER: 'yes' },
    /^SIBYL_AUTH_BEARER: must be true or false, but it is "yes"$/,
  ],
  [
    'an unknown log level',
    { SIBYL_LOG_LEVEL: 'loud' },
    /^SIBYL_LOG_LEVEL: must be one of trace, debug/,
  ],
  [
    'an unknown profile',
    { SIBYL_PROFILE: 'prod' },
    /^SIBYL_PROFILE: must be one of default, devnet, production/,
  ],
  ['broken JSON', { SIBYL_CHAINS: '[' }, /^SIBYL_CHAINS: /],
  [
    'a chain without contract addresses',
    { SIBYL_CHAINS: '[{"chainId":1,"role":"main"}]' },
    /^SIBYL_CHAINS: .*contracts/,
  ],
  [
    'a market pinned to a partition that does not exist',
    { SIBYL_MARKET_PINS: `{"0x${'0a'.repeat(32)}":8}` },
    /^SIBYL_MARKET_PINS: 0x(0a){32} is pinned to partition 8; the partitions are 0 to 7$/,
  ],
  [
    'a pin whose key is not a market id',
    { SIBYL_MARKET_PINS: `{"0x${'0A'.repeat(32)}":1}` },
    /^SIBYL_MARKET_PINS: 0x(0A){32} must be a market id/,
  ],
  [
    'a number of market threads above the number of partitions',
    { SIBYL_MARKET_THREADS: '3', SIBYL_LOG_PARTITIONS: '2' },
    /^SIBYL_MARKET_THREADS: 3 threads cannot share the 2 partitions/,
  ],
  ['an unknown role', { SIBYL_ROLES: 'front,cook' }, /^SIBYL_ROLES: /],
  [
    'a list of roles that contains "all" and another role',
    { SIBYL_ROLES: 'all,front' },
    /^SIBYL_ROLES: must be either "all", which includes every role/,
  ],
  [
    'a cluster node without the settings that a node needs',
    { SIBYL_ROLES: 'front,market' },
    /^SIBYL_NODE, SIBYL_NATS_URL, SIBYL_LOG_URL, SIBYL_DATABASE_URL \(mysql:\/\/…\), SIBYL_MARKET_THREADS: must be set if SIBYL_ROLES is front,market$/,
  ],
  [
    'a cluster node whose database is a file',
    { ...NODE, SIBYL_DATABASE_URL: 'sqlite:x.db' },
    /^SIBYL_DATABASE_URL \(mysql:\/\/…\): must be set if SIBYL_ROLES is front$/,
  ],
  [
    'a cluster node with its own local chain',
    { ...NODE, SIBYL_DEVNET: 'true' },
    /^SIBYL_CHAIN_RPC: /,
  ],
  [
    'a NATS URL outside a cluster',
    { SIBYL_NATS_URL: 'nats://a' },
    /^SIBYL_NATS_URL: .* SIBYL_ROLES is "all": remove it, or set SIBYL_ROLES to single roles$/,
  ],
  [
    'a production cluster node without a cluster key',
    { ...NODE, SIBYL_PROFILE: 'production', SIBYL_DEVNET: 'false' },
    /^SIBYL_CLUSTER_KEY: must be set in production if SIBYL_ROLES is front/,
  ],
  [
    'a cluster key that is too short',
    { ...NODE, SIBYL_CLUSTER_KEY: '0x1234' },
    /^SIBYL_CLUSTER_KEY: must be empty, 0x and 64 hexadecimal digits, or the path of a file that contains them$/,
  ],
  [
    'a node name that is not valid in a NATS subject',
    { ...NODE, SIBYL_NODE: 'a.b' },
    /^SIBYL_NODE: /,
  ],
  [
    'a number of partitions above the maximum of a log',
    { SIBYL_LOG_PARTITIONS: '257' },
    /^SIBYL_LOG_PARTITIONS: .*256/,
  ],
  [
    'a trusted proxy that is not an IP address',
    { SIBYL_TRUSTED_PROXIES: '10.0.0.1,10.0.0.300' },
    /^SIBYL_TRUSTED_PROXIES: 10.0.0.300 must be an IP address or a range of addresses, such as/,
  ],
  [
    'a trusted proxy range whose prefix is longer than the address',
    { SIBYL_TRUSTED_PROXIES: '10.0.0.0/33' },
    /^SIBYL_TRUSTED_PROXIES: 10.0.0.0\/33 must be an IP address/,
  ],
  [
    'a burst limit below the highest cost of one request',
    { SIBYL_LIMITS: 'true', SIBYL_LIMIT_KEY_BURST: '499' },
    /^SIBYL_LIMIT_KEY_BURST: 499 is too low: it must be at least 500, the highest cost of one request$/,
  ],
  [
    'a public address with unauthenticated writes',
    { SIBYL_HOST: '0.0.0.0' },
    /^SIBYL_AUTH_BEARER: .*SIBYL_ALLOW_OPEN_WRITES/,
  ],
  [
    'a trusted proxy with unauthenticated writes',
    { SIBYL_TRUSTED_PROXIES: '127.0.0.1' },
    /^SIBYL_AUTH_BEARER: .*through its proxy; .*SIBYL_ALLOW_OPEN_WRITES/,
  ],
]

for (const [what, env, expected] of WRONG) {
  test(`${what} prevents the start with a one-line error that names the setting`, () => {
    assert.throws(
      () => loadSettings(env),
      (error: Error) =>
        error instanceof SettingsError &&
        expected.test(error.message) &&
        !error.message.includes('\n'),
    )
  })
}

test('an environment variable overrides the profile, and the profile overrides the defaults', () => {
  assert.equal(loadSettings({}).auth.bearer, false)
  assert.equal(loadSettings({ SIBYL_PROFILE: 'default' }).auth.bearer, true)
  assert.equal(loadSettings({ SIBYL_AUTH_BEARER: 'true' }).auth.bearer, true)
  const settings = loadSettings({
    SIBYL_PROFILE: 'production',
    SIBYL_CORS_ORIGINS: 'https://a.example, https://b.example',
    SIBYL_DATABASE_URL: 'mysql://sibyl:hunter2@db/sibyl',
  })
  assert.deepEqual(settings.front.corsOrigins, ['https://a.example', 'https://b.example'])
  assert.equal(settings.front.host, '0.0.0.0')
})

test('a secret setting is never shown, whether its value is valid or not', () => {
  const settings = loadSettings({ SIBYL_DATABASE_URL: 'mysql://sibyl:hunter2@db/sibyl' })
  assert(!JSON.stringify(shownSettings(settings)).includes('hunter2'))
  assert.equal(shownSettings(settings).SIBYL_DATABASE_URL, '(set)')
  assert.throws(
    () => loadSettings({ SIBYL_DATABASE_URL: 'postgres://sibyl:hunter2@db/sibyl' }),
    (error: Error) =>
      error.message.startsWith('SIBYL_DATABASE_URL: ') && !error.message.includes('hunter2'),
  )
})

test('a private key can be read from a file, and is never shown', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-keys-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const [first, second] = [`0x${'a1'.repeat(32)}`, `0x${'b2'.repeat(32)}`]
  const file = join(folder, 'relayer.key')
  writeFileSync(file, `${second}\n`, { mode: 0o600 })
  const settings = loadSettings({ SIBYL_RELAYER_KEYS: `${first}, ${file}` })
  assert.deepEqual(settings.keys.relayer, [first, second])
  assert.equal(shownSettings(settings).SIBYL_RELAYER_KEYS, '(set)')
  const half = 'a1'.repeat(32)
  assert.throws(
    () => loadSettings({ SIBYL_SETTLEMENT_KEY: half }),
    (error: Error) =>
      error.message.startsWith('SIBYL_SETTLEMENT_KEY: ') && !error.message.includes(half),
  )
})

test('a key file that other users can read or its group can change is refused, and the error names the file’s mode', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-keys-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'settlement.key')
  writeFileSync(file, `0x${'a1'.repeat(32)}\n`)
  for (const name of ['SIBYL_SETTLEMENT_KEY', 'SIBYL_RELAYER_KEYS']) {
    for (const mode of [0o644, 0o604, 0o660, 0o601]) {
      chmodSync(file, mode)
      const expected = new RegExp(
        `^${name}: the file ${file} has mode ${mode.toString(8)}, .*chmod 600`,
      )
      assert.throws(() => loadSettings({ [name]: file }), { message: expected })
    }
    for (const mode of [0o600, 0o400, 0o640, 0o440]) {
      chmodSync(file, mode)
      loadSettings({ [name]: file })
    }
  }
})

test('SIBYL_ALLOW_OPEN_WRITES lets an exchange accept unauthenticated writes on a public address', () => {
  const env = { SIBYL_HOST: '0.0.0.0', SIBYL_ALLOW_OPEN_WRITES: 'true' }
  assert.equal(loadSettings(env).front.host, '0.0.0.0')
})

test('every setting has a unique name and a description, and a unit if it is a number', () => {
  const names = new Set<string>()
  for (const { path, leaf } of settingsList()) {
    assert.match(leaf.env, /^SIBYL_[A-Z0-9_]+$/, path)
    assert(!names.has(leaf.env), `${leaf.env} twice`)
    names.add(leaf.env)
    assert.match(leaf.description, /^.*[.}]$/, path)
    if (leaf.type === 'integer' && !/port$/i.test(path)) assert(leaf.unit, `${path} has no unit`)
  }
})

test('a change to one loaded settings object does not change the settings of the next load', () => {
  const first = loadSettings({})
  first.front.corsOrigins.push('https://evil.example')
  assert.deepEqual(loadSettings({}).front.corsOrigins, ['*'])
})

test('every settings pattern has an error message in words, so that no error shows a regular expression', () => {
  const patterns = new Set<string>()
  const walk = (schema: object): void => {
    for (const [name, value] of Object.entries(schema)) {
      if (name === 'pattern') patterns.add(String(value))
      // The schema of a record also has a pattern for the record's keys. Every key matches this pattern, so it never
      // causes an error. The test does not collect it.
      else if (typeof value === 'object' && value !== null) walk(value)
    }
  }
  for (const { leaf } of settingsList()) walk(leaf)
  assert(patterns.size >= 10)
  for (const pattern of patterns) assert.match(PATTERN_WORDS[pattern] ?? '', /^must be /, pattern)
})

test('settings are shown under the names of their environment variables', () => {
  const shown = shownSettings(loadSettings({ SIBYL_PORT: '9000' }))
  assert.equal(shown.SIBYL_PORT, 9000)
  assert.deepEqual(
    Object.keys(shown),
    settingsList().map(({ leaf }) => leaf.env),
  )
})

test('a warning is shown if the log is on a database server but the main database is in a file', () => {
  const log = { SIBYL_LOG_URL: 'mysql://sibyl:hunter2@db/log' }
  assert.deepEqual(settingsWarnings(loadSettings({})), [])
  const both = { ...log, SIBYL_DATABASE_URL: 'mysql://sibyl:hunter2@db/sibyl' }
  assert.deepEqual(settingsWarnings(loadSettings(both)), [])
  const [warning = ''] = settingsWarnings(loadSettings(log))
  assert.match(warning, /^SIBYL_LOG_URL is set and SIBYL_DATABASE_URL is not: /)
  assert(!warning.includes('hunter2'))
})

test('the shown settings of a node include its roles, and no secret of its NATS URL', () => {
  const settings = loadSettings(NODE)
  assert.deepEqual(settings.cluster.roles, ['front'])
  assert.equal(shownSettings(settings).SIBYL_NATS_URL, '(set)')
  assert.deepEqual(loadSettings({}).cluster.roles, ['all'])
})

test('the exchange ignores the environment variables that belong to the traders’ command line', () => {
  const settings = loadSettings({
    SIBYL_URL: 'http://x',
    SIBYL_TRADER_KEY: '0x',
    SIBYL_KEYS_DIR: '/',
  })
  assert.deepEqual(settings, loadSettings({}))
})

test('all invalid settings are listed at once, one per line', () => {
  const env = { SIBYL_PROT: '1', SIBYL_PORT: '70000', SIBYL_AUTH_BEARER: 'yes', SIBYL_PROFILE: 'x' }
  assert.throws(
    () => loadSettings(env),
    (error: Error) => {
      const names = error.message.split('\n').map((line) => line.split(':', 1)[0])
      assert.deepEqual(names.sort(), Object.keys(env).sort())
      return true
    },
  )
})

test('the exchange has exactly the documented settings for each price provider', () => {
  const names = settingsList().map(({ leaf }) => leaf.env)
  const published = [
    ...['SIBYL_PYTH_URL', 'SIBYL_PYTH_API_KEY', 'SIBYL_PYTH_IDS'],
    ...['SIBYL_BINANCE_URL', 'SIBYL_BINANCE_SOCKET_URL', 'SIBYL_BINANCE_SYMBOLS'],
    ...['SIBYL_COINBASE_URL', 'SIBYL_COINBASE_SOCKET_URL', 'SIBYL_COINBASE_PRODUCTS'],
  ]
  assert.deepEqual(
    names.filter((name) => /^SIBYL_(PYTH|BINANCE|COINBASE)_/.test(name)),
    published,
  )
  const { feeds } = loadSettings({ SIBYL_BINANCE_SYMBOLS: '{"BTC":"BTCFDUSD"}' })
  assert.deepEqual(feeds.binance.names, { BTC: 'BTCFDUSD' })
  assert.equal(streamUrl('binance', feeds.binance), 'wss://data-stream.binance.vision/stream')
  assert.equal(
    streamUrl('pyth', feeds.pyth),
    'https://pyth.dourolabs.app/hermes/v2/updates/price/stream',
  )
  assert.throws(
    () => loadSettings({ SIBYL_PYTH_IDS: '{"BTC":"BTC-USD"}' }),
    /SIBYL_PYTH_IDS: must be 64 hexadecimal digits, with or without 0x at \.BTC/,
  )
})
