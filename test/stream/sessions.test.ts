import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Principal } from '#http/route.ts'
import type { Connection, Socket } from '#stream/connection.ts'
import { CONFIRM_MS_MAX, makeSessions } from '#stream/sessions.ts'
import { eventually } from '../support/eventually.ts'
import { traderNamed } from '../support/orders.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

/**
 * Makes the sessions of API keys, where each token is the id of a key. The test controls the results of key lookups.
 */
function fixture() {
  const clock = simulatedClock(0)
  const ended: [keyId: string, code: string][] = []
  const names = new Map<Connection, string>()
  const principalOf = (keyId: string): Principal => ({ keyId, address: traderNamed('ann') })
  const parts = {
    identify: async (keyId: string): Promise<Principal | Rejection> => principalOf(keyId),
    confirm: async (keyId: string): Promise<Principal | Rejection> => principalOf(keyId),
  }
  const asked: string[] = []
  const sessions = makeSessions({
    authenticator: {
      identify: (authorization) => parts.identify(authorization.slice('Bearer '.length)),
      confirm(keyId) {
        asked.push(keyId)
        return parts.confirm(keyId)
      },
    },
    clock,
    ended: (connection, { rejected }) => ended.push([names.get(connection) ?? '', rejected]),
  })
  const open = async (keyId: string) => {
    const connection = { ws: {} as Socket, principal: undefined } as Connection
    names.set(connection, keyId)
    const answer = await sessions.authenticate(connection, keyId)
    return { connection, answer }
  }
  const goesOn = ({ connection }: { connection: Connection }) =>
    sessions.principalOf(connection) !== undefined
  return { sessions, clock, ended, asked, parts, principalOf, open, goesOn }
}

const AWAY = new Fault('STORE_UNAVAILABLE', 'away', { retryable: true })

test('after the store connection is lost, each API key is looked up once, and only sessions of revoked keys end', async () => {
  const { sessions, clock, ended, asked, parts, principalOf, open, goesOn } = fixture()
  const good = [await open('good'), await open('good')]
  const bad = await open('bad')
  parts.confirm = async (keyId) =>
    keyId === 'bad' ? reject('UNAUTHORIZED_KEY_INACTIVE') : principalOf(keyId)
  sessions.mayHaveMissed()
  await eventually(() => assert.deepEqual(ended, [['bad', 'UNAUTHORIZED_KEY_INACTIVE']]))
  assert.deepEqual(asked, ['good', 'bad'])
  clock.advance(CONFIRM_MS_MAX)
  assert.deepEqual([...good, bad].map(goesOn), [true, true, false])
})

test('a failed lookup of an API key is retried, and the key’s sessions end if it is not confirmed in time', async () => {
  const { sessions, clock, ended, asked, parts, principalOf, open, goesOn } = fixture()
  const [slow, lost] = [await open('slow'), await open('lost')]
  parts.confirm = async () => Promise.reject(AWAY)
  sessions.mayHaveMissed()
  await eventually(() => assert.equal(clock.pending, 2))
  parts.confirm = async (keyId) => (keyId === 'slow' ? principalOf(keyId) : reject('OVERLOADED'))
  clock.advance(1_000)
  await eventually(() => assert.deepEqual(asked, ['slow', 'lost', 'slow', 'lost']))
  assert.deepEqual(ended, [])
  // The store connection is lost a second time, before the key `lost` was confirmed. The key's deadline stays the same.
  sessions.mayHaveMissed()
  parts.confirm = () => new Promise(() => {})
  clock.advance(CONFIRM_MS_MAX - 1_000)
  assert.deepEqual(ended, [['lost', 'UNAUTHORIZED_KEY_INACTIVE']])
  assert.deepEqual([goesOn(slow), goesOn(lost)], [true, false])
})

test('an API key lookup that began before the store connection was lost does not confirm the key', async () => {
  const { sessions, ended, parts, principalOf, open, goesOn } = fixture()
  const session = await open('k')
  const early = Promise.withResolvers<Principal>()
  parts.confirm = () => early.promise
  sessions.mayHaveMissed()
  parts.confirm = async () => reject('UNAUTHORIZED_KEY_INACTIVE')
  sessions.mayHaveMissed()
  early.resolve(principalOf('k'))
  await eventually(() => assert.deepEqual(ended, [['k', 'UNAUTHORIZED_KEY_INACTIVE']]))
  assert.equal(goesOn(session), false)
})

test('if the store connection is lost while a token is checked, the token’s API key is looked up again', async () => {
  const { sessions, parts, principalOf, open, goesOn } = fixture()
  parts.confirm = async (keyId) =>
    keyId === 'revoked' ? reject('UNAUTHORIZED_KEY_INACTIVE') : principalOf(keyId)
  const opening = [open('revoked'), open('good')]
  sessions.mayHaveMissed()
  const [revoked, good] = await Promise.all(opening)
  assert.deepEqual(revoked?.answer, reject('UNAUTHORIZED_KEY_INACTIVE'))
  assert.deepEqual(good?.answer, principalOf('good'))
  assert.deepEqual(
    [revoked, good].map((each) => each && goesOn(each)),
    [false, true],
  )
})
