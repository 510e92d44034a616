import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startExchange } from '../support/exchange.ts'

test('with SIBYL_LOG_FORMAT=json, an exchange writes only JSON lines to standard output from start to stop', async (t) => {
  const exchange = await startExchange(t, {
    environment: { SIBYL_LOG_LEVEL: 'info', SIBYL_LOG_REQUESTS_EVERY: '1' },
  })
  await fetch(`${exchange.url}/api/v1/markets?cursor=not-shown`)
  await exchange.stop()
  const lines = exchange.standardOutput().trim().split('\n')
  for (const line of lines) {
    const { node, thread, msg } = JSON.parse(line) as Record<string, unknown>
    assert(typeof node === 'string' && node !== '' && typeof thread === 'string', line)
    assert(typeof msg === 'string', line)
    assert.equal(line.split('"thread":').length, 2, line)
  }
  const opened = lines.filter((line) => / is open \(devnet\)/.test(line))
  assert.equal(opened.length, 1)
  assert.equal((JSON.parse(opened[0]!) as { url: string }).url, exchange.url)
  const asked = lines.filter((line) => line.includes('a request was answered'))
  assert(asked.some((line) => line.includes('"route":"/api/v1/markets"')))
  assert(!asked.join().includes('not-shown'))
})
