import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hideUrlPath, hideUrlSecrets } from '#config/hidden-urls.ts'
import { loadSettings } from '#config/settings.ts'
import { settingSources, settingsLines, shownSettings } from '#config/shown-settings.ts'

const KEY = 'aB3dE6gH9jK2mN5pQ8sT1vW4yZ7'

test('every shown setting names its source: the defaults, the profile, the environment or a file', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-keys-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'settlement.key')
  writeFileSync(file, `0x${'a1'.repeat(32)}\n`, { mode: 0o600 })
  const env = {
    SIBYL_PROFILE: 'production',
    SIBYL_PORT: '8080',
    SIBYL_SETTLEMENT_KEY: file,
    SIBYL_RELAYER_KEYS: `0x${'b2'.repeat(32)},${file}`,
    SIBYL_OPERATOR_KEY: `0x${'c3'.repeat(32)}`,
  }
  const settings = loadSettings(env)
  const sources = settingSources(settings, env)
  assert.equal(sources.SIBYL_PROFILE, 'environment')
  assert.equal(sources.SIBYL_PORT, 'environment', 'also where it equals the default')
  assert.equal(sources.SIBYL_HOST, 'profile production')
  assert.equal(sources.SIBYL_ADMIN_PORT, 'default')
  assert.equal(sources.SIBYL_SETTLEMENT_KEY, `file ${file}`)
  assert.equal(sources.SIBYL_RELAYER_KEYS, `file ${file}`)
  assert.equal(sources.SIBYL_OPERATOR_KEY, 'environment')
  assert.deepEqual(Object.keys(sources), Object.keys(shownSettings(settings)))
  const lines = settingsLines(settings, env)
  assert(lines.includes('SIBYL_PORT = 8080  # environment'))
  assert(lines.includes('SIBYL_HOST = "0.0.0.0"  # profile production'))
  assert(lines.includes(`SIBYL_SETTLEMENT_KEY = "(set)"  # file ${file}`))
  assert.equal(settingSources(loadSettings({}), {}).SIBYL_PROFILE, 'default')
})

test('keys in provider URLs are hidden in the list of settings and in error messages', () => {
  const [chain] = loadSettings({}).chains
  const rpcUrls = [`https://polygon.provider.io/v2/${KEY}`, 'https://short.io/key']
  const settings = loadSettings({
    SIBYL_CHAINS: JSON.stringify([{ ...chain, rpcUrls }]),
    SIBYL_CHAIN_RPC: `https://user:hunter2@node.io:8545/?apikey=hunter2`,
    SIBYL_BINANCE_URL: `https://proxy.io/binance?token=hunter2`,
  })
  const shown = JSON.stringify(shownSettings(settings))
  for (const secret of [KEY, 'hunter2', '/key']) assert(!shown.includes(secret), secret)
  assert.match(shown, /https:\/\/polygon\.provider\.io\/\(hidden\)/)
  assert.deepEqual(shownSettings(settings).SIBYL_CHAIN_RPC, ['https://node.io:8545/(hidden)'])
  assert.throws(
    () => loadSettings({ SIBYL_CHAIN_RPC: `wss://polygon.provider.io/v2/${KEY}` }),
    (error: Error) => /polygon\.provider\.io/.test(error.message) && !error.message.includes(KEY),
  )
})

test('a URL keeps its host and its public parts when its secrets are hidden', () => {
  for (const [text, shown] of [
    ['nothing to hide', 'nothing to hide'],
    [
      'http://127.0.0.1:8080/api/v1/markets?limit=10',
      'http://127.0.0.1:8080/api/v1/markets?limit=10',
    ],
    [`see https://a.io/v3/${KEY}, or not`, 'see https://a.io/v3/(hidden) or not'],
    ['mysql://sibyl:hunter2@db:3306/sibyl', 'mysql://(hidden)@db:3306/sibyl'],
    ['nats://u:p@ss@a:4222,b:4222', 'nats://(hidden)@a:4222,b:4222'],
    [`https://a.io/?${KEY}`, 'https://a.io/?(hidden)'],
    ['https://a.io/x?key=abc&n=1#top', 'https://a.io/x?key=(hidden)&n=1#top'],
    ['https://a.io/optimistic-oracle-viewer', 'https://a.io/optimistic-oracle-viewer'],
    [`{"url":"https://a.io/${KEY}"}`, '{"url":"https://a.io/(hidden)"}'],
  ] as const) {
    assert.equal(hideUrlSecrets(text), shown)
  }
  assert.equal(hideUrlPath('https://a.io'), 'https://a.io')
  assert.equal(hideUrlPath('https://a.io/k'), 'https://a.io/(hidden)')
})
