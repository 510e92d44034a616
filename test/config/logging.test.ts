import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { test } from 'node:test'
import { makeLog } from '#config/logging.ts'
import { loadSettings } from '#config/settings.ts'

function written(env: Record<string, string>, write: (log: ReturnType<typeof makeLog>) => void) {
  const lines: string[] = []
  const settings = loadSettings({ SIBYL_LOG_FORMAT: 'json', SIBYL_LOG_LEVEL: 'info', ...env })
  write(makeLog(settings, 'main', false, (line) => void lines.push(line)))
  return lines
}

test('a log line that mentions another thread or node contains no JSON key twice', () => {
  const [line = ''] = written({}, (log) =>
    log.warn({ thread: 'store', node: 'b', level: 1, time: 2, msg: 'x' }, 'store is back'),
  )
  const keys = [...line.matchAll(/"(\w+)":/g)].map(([, key]) => key)
  assert.deepEqual(keys, [...new Set(keys)])
  const fields = JSON.parse(line) as Record<string, unknown>
  assert.equal(fields.thread, 'main')
  assert.equal(fields.aboutThread, 'store')
  assert.equal(fields.aboutNode, 'b')
  assert.equal(fields.msg, 'store is back')
})

test('every log line contains the name of its node, or the host name outside a cluster', () => {
  const [alone = ''] = written({}, (log) => log.info({}, 'here'))
  assert.equal((JSON.parse(alone) as { node: string }).node, hostname())
  const [named = ''] = written({ SIBYL_NODE: 'm1' }, (log) => log.info({}, 'here'))
  assert.equal((JSON.parse(named) as { node: string }).node, 'm1')
})

test('no log line contains a secret of a URL, in a field, a message or the stack of an error', () => {
  const key = 'aB3dE6gH9jK2mN5pQ8sT1vW4yZ7'
  const url = `https://polygon.provider.io/v2/${key}`
  const [line = ''] = written({}, (log) =>
    log.error(
      { url, chain: { rpcUrls: [url] }, err: new Error(`request to ${url} failed`) },
      `the provider ${url} is away`,
    ),
  )
  assert(!line.includes(key))
  assert.match(line, /polygon\.provider\.io/)
  assert.equal((JSON.parse(line) as { url: string }).url, 'https://polygon.provider.io/v2/(hidden)')
})
