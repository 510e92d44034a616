import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApiKey } from '#domain/api-key.ts'
import type { Address } from '#domain/ids.ts'
import { API_KEY_WRITES_WAITING_MAX } from '#domain/limits.ts'
import { serve } from '#runtime/serve.ts'
import {
  type ApiKeysEvent,
  type ApiKeysProtocol,
  apiKeys,
  newApiKeys,
} from '#services/projector/api-keys.ts'
import { eventually } from '../../support/eventually.ts'
import { simulatedClock } from '../../support/simulated-clock.ts'

const KEY: ApiKey = {
  id: 'a',
  address: `0x${'11'.repeat(20)}` as Address,
  name: '',
  publicKey: '',
  createdAtMs: 0,
  expiresAtSec: null,
  revokedAtMs: null,
}

function start() {
  const clock = simulatedClock(1_000)
  const said: string[] = []
  const writes: { what: string; end: PromiseWithResolvers<unknown> }[] = []
  const write = (what: string) => {
    const end = Promise.withResolvers<unknown>()
    writes.push({ what, end })
    return end.promise
  }
  const state = newApiKeys({
    register: (key) => write(`register ${key.id}`) as Promise<string[]>,
    revoke: (id) => write(`revoke ${id}`) as Promise<boolean>,
  })
  const served = serve<typeof state, ApiKeysProtocol, ApiKeysEvent>({
    behaviour: apiKeys,
    select: () => ({ state }),
    clock,
    mailboxMax: 10_000,
    batchMax: 10_000,
    full: 'full',
    say: (news) =>
      said.push(
        ...news.map((event) =>
          event.type === 'KeysRevoked'
            ? `revoked ${event.ids.join()}`
            : `registered ${event.key.id}`,
        ),
      ),
  })
  const channel = {
    reply: (id: number, answer: unknown) => said.push(`${id}: ${JSON.stringify(answer)}`),
  }
  let asked = 0
  const ask = (type: string, message: object) => served.hear(type, message, ++asked, channel)
  const begun = (count: number) => eventually(() => assert.equal(writes.length, count))
  const received = (count: number) => eventually(() => assert.equal(said.length, count))
  return { ask, begun, received, writes, said, clock }
}

const register = (id: string, untilMs = 5_000) => ({ key: { ...KEY, id }, activeMax: 20, untilMs })

test('the projector stores API key changes one at a time, and announces each one before it answers the caller', async () => {
  const { ask, begun, received, writes, said } = start()
  ask('RegisterApiKey', register('a'))
  ask('RevokeApiKey', { id: 'b', atMs: 1, untilMs: 5_000 })
  ask('RevokeApiKey', { id: 'c', atMs: 1, untilMs: 5_000 })
  await begun(1)
  writes[0]?.end.resolve(['old'])
  await begun(2)
  writes[1]?.end.resolve(true)
  await begun(3)
  writes[2]?.end.resolve(false)
  await received(6)
  assert.deepEqual(
    writes.map(({ what }) => what),
    ['register a', 'revoke b', 'revoke c'],
  )
  assert.deepEqual(said, [
    'revoked old',
    'registered a',
    '1: {"revoked":["old"]}',
    'revoked b',
    '2: {"revoked":["b"]}',
    '3: {"revoked":[]}',
  ])
})

test('a change of an API key is refused, not stored, if its deadline passes in the queue', async () => {
  const { ask, begun, received, writes, said, clock } = start()
  ask('RegisterApiKey', register('slow'))
  ask('RegisterApiKey', register('late', 2_000))
  ask('RegisterApiKey', register('patient', 9_000))
  await begun(1)
  clock.advance(2_000)
  writes[0]?.end.resolve([])
  await begun(2)
  assert.equal(writes[1]?.what, 'register patient')
  writes[1]?.end.resolve([])
  await received(5)
  assert.deepEqual(said, [
    'registered slow',
    '1: {"revoked":[]}',
    '2: {"rejected":"OVERLOADED"}',
    'registered patient',
    '3: {"revoked":[]}',
  ])
})

test('the projector rejects an API key change that it cannot store, and continues with later changes', async () => {
  const { ask, begun, received, writes, said } = start()
  ask('RegisterApiKey', register('a'))
  ask('RegisterApiKey', register('b'))
  ask('RegisterApiKey', register('c'))
  await begun(1)
  writes[0]?.end.reject(Object.assign(new Error('away'), { retryable: true }))
  await begun(2)
  writes[1]?.end.reject(new Error('a bug'))
  await begun(3)
  writes[2]?.end.resolve([])
  await received(4)
  assert.deepEqual(said, [
    '1: {"rejected":"OVERLOADED"}',
    '2: {"rejected":"INTERNAL"}',
    'registered c',
    '3: {"revoked":[]}',
  ])
})

test('changes of API keys above the queue limit are refused immediately', async () => {
  const { ask, begun, received, said } = start()
  for (let at = 0; at < API_KEY_WRITES_WAITING_MAX + 2; at++)
    ask('RegisterApiKey', register(`${at}`))
  await begun(1)
  await received(1)
  assert.deepEqual(said, [`${API_KEY_WRITES_WAITING_MAX + 2}: {"rejected":"OVERLOADED"}`])
})
