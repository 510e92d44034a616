import assert from 'node:assert/strict'
import { test } from 'node:test'
import { productionGaps, requireComplete } from '#config/production-gaps.ts'
import { loadSettings, SettingsError } from '#config/settings.ts'

const [KEY, ...OTHERS] = ['a1', 'b2', 'c3', 'd4'].map((byte) => `0x${byte.repeat(32)}`) as [
  string,
  ...string[],
]
const [local] = loadSettings({}).chains
const chain = {
  ...local,
  chainId: 137,
  rpcUrls: ['https://polygon.provider.io/v2/secretkey'],
  contracts: { ...local?.contracts, settlement: `0x${'12'.repeat(20)}` },
}
const COMPLETE = {
  SIBYL_PROFILE: 'production',
  SIBYL_CORS_ORIGINS: 'https://trade.sibyl.io',
  SIBYL_DATABASE_URL: 'mysql://sibyl:hunter2@db/sibyl',
  SIBYL_CHAINS: JSON.stringify([chain]),
  SIBYL_SETTLEMENT_KEY: KEY,
  SIBYL_RELAYER_KEYS: OTHERS[0]!,
  SIBYL_OPERATOR_KEY: OTHERS[1]!,
  SIBYL_RESOLUTION_KEY: OTHERS[2]!,
  SIBYL_PYTH_API_KEY: 'hunter2',
}
const CLUSTER = {
  ...{ SIBYL_NODE: 'a', SIBYL_NATS_URL: 'nats://b:4222', SIBYL_LOG_URL: 'mysql://root@c/log' },
  ...{ SIBYL_MARKET_THREADS: '4', SIBYL_CLUSTER_KEY: KEY, SIBYL_DEVNET: 'false' },
}

const gapsWith = (env: Record<string, string>): string[] =>
  productionGaps(loadSettings(env)).map(({ setting }) => setting)
const without = (...names: string[]): Record<string, string> =>
  Object.fromEntries(Object.entries(COMPLETE).filter(([name]) => !names.includes(name)))

test('an exchange with only the profile “production” set does not start, and lists every missing setting', () => {
  assert.throws(
    () => requireComplete(loadSettings({ SIBYL_PROFILE: 'production' })),
    (error: Error) => {
      assert(error instanceof SettingsError)
      const named = [...error.message.matchAll(/^ {2}(SIBYL_\w+): (.+)$/gm)].map(([, name]) => name)
      assert.deepEqual(named, [
        ...['SIBYL_CORS_ORIGINS', 'SIBYL_DATABASE_URL', 'SIBYL_CHAINS', 'SIBYL_SETTLEMENT_KEY'],
        ...['SIBYL_RELAYER_KEYS', 'SIBYL_OPERATOR_KEY', 'SIBYL_RESOLUTION_KEY'],
        'SIBYL_PYTH_API_KEY',
      ])
      assert.match(error.message, /https:\/\/app\.example\.com is a placeholder/)
      assert.match(error.message, /SIBYL_ALLOW_MISSING/)
      return true
    },
  )
})

test('a production exchange with all required values starts, and other profiles start without these values', () => {
  assert.deepEqual(gapsWith(COMPLETE), [])
  assert.deepEqual(gapsWith({}), [])
  assert.deepEqual(gapsWith({ SIBYL_PROFILE: 'default' }), [])
})

for (const name of Object.keys(COMPLETE).filter((each) => each !== 'SIBYL_PROFILE')) {
  test(`if only ${name} is missing in production, the error reports only this setting`, () => {
    assert.deepEqual(gapsWith(without(name)), [name])
  })
}

test('SIBYL_ALLOW_MISSING permits only the missing production settings that it lists', () => {
  const keys = ['SIBYL_SETTLEMENT_KEY', 'SIBYL_RELAYER_KEYS', 'SIBYL_OPERATOR_KEY']
  const left = without(...keys, 'SIBYL_PYTH_API_KEY')
  const allowed = { SIBYL_ALLOW_MISSING: `${keys[0]},SIBYL_PYTH_API_KEY` }
  assert.deepEqual(gapsWith({ ...left, ...allowed }), keys.slice(1))
})

test('if SIBYL_ALLOW_MISSING lists SIBYL_CHAINS, an exchange needs no private keys for a chain', () => {
  const names = Object.keys(COMPLETE).filter((each) => /_CHAINS|_KEYS?$/.test(each))
  const left = { ...without(...names), SIBYL_PYTH_API_KEY: 'hunter2' }
  assert.deepEqual(gapsWith({ ...left, SIBYL_ALLOW_MISSING: 'SIBYL_CHAINS' }), [])
})

test('if settlement, automatic settlement and quick markets are disabled, production requires none of their keys', () => {
  const left = without('SIBYL_SETTLEMENT_KEY', 'SIBYL_RESOLUTION_KEY', 'SIBYL_OPERATOR_KEY')
  const off = {
    SIBYL_SETTLEMENT: 'false',
    SIBYL_AUTO_SETTLE: 'false',
    SIBYL_QUICK_MARKETS: 'false',
  }
  assert.deepEqual(gapsWith({ ...left, ...off }), [])
})

test('a production node of a cluster needs only the settings of its own roles', () => {
  const names = Object.keys(COMPLETE).filter((each) => /_KEYS?$/.test(each))
  const node = { ...without(...names), ...CLUSTER }
  assert.deepEqual(gapsWith({ ...node, SIBYL_ROLES: 'front,market' }), [])
  assert.deepEqual(gapsWith({ ...node, SIBYL_ROLES: 'prices' }), [
    'SIBYL_OPERATOR_KEY',
    'SIBYL_PYTH_API_KEY',
  ])
  const rest = { ...without(...names, 'SIBYL_CORS_ORIGINS'), ...CLUSTER }
  assert.deepEqual(gapsWith({ ...rest, SIBYL_ROLES: 'market' }), [])
})

test('a chain setting with the guide’s example URL is reported as a placeholder, without the secret in the URL', () => {
  const copied = {
    ...chain,
    contracts: local?.contracts,
    rpcUrls: ['https://first.example/secretkey'],
  }
  const settings = loadSettings({ ...COMPLETE, SIBYL_CHAINS: JSON.stringify([copied]) })
  const problems = productionGaps(settings).map(({ setting, problem }) => `${setting}: ${problem}`)
  assert.match(problems[0] ?? '', /^SIBYL_CHAINS: https:\/\/first\.example is a placeholder/)
  assert.match(
    problems[1] ?? '',
    /^SIBYL_CHAINS: chain 137 has the contracts of the local chain; name/,
  )
  assert(!problems.join().includes('secretkey'))
})

test('if two settings contain the same private key, the message names both settings without showing the key', () => {
  const env = {
    ...COMPLETE,
    SIBYL_RELAYER_KEYS: `${OTHERS[0]},${KEY.toUpperCase().replace('X', 'x')}`,
  }
  const [gap, ...more] = productionGaps(loadSettings(env))
  assert.deepEqual(more, [])
  assert.deepEqual(gap, {
    setting: 'SIBYL_RELAYER_KEYS',
    problem: 'is also the key of SIBYL_SETTLEMENT_KEY; each needs its own key',
  })
})

test('an exchange in production may have an empty SIBYL_CORS_ORIGINS and a database in a file', () => {
  const env = { ...COMPLETE, SIBYL_CORS_ORIGINS: '', SIBYL_DATABASE_URL: 'sqlite:/var/lib/x.db' }
  assert.deepEqual(gapsWith(env), [])
})
