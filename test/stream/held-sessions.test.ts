import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SessionsProtocol } from '#protocol/market-followers.ts'
import type { Ref } from '#runtime/ref.ts'
import { makeHeldSessions } from '#stream/held-sessions.ts'
import { eventually } from '../support/eventually.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

/** Makes the sessions of a front with two market threads; the test controls the answers of the first thread. */
function fixture() {
  const asked: string[] = []
  const clock = simulatedClock(0)
  let mode: 'answers' | 'late' | 'closed' = 'answers'
  const refOf = (thread: number): Ref<SessionsProtocol> => ({
    async ask(type, message) {
      const about = 'sessions' in message ? message.sessions.join(',') : message.session
      asked.push(`${thread} ${type} ${about}`)
      if (thread === 0 && mode !== 'answers') return { unanswered: mode }
      return { ended: true } as never
    },
    tell: () => assert.fail('each message is answered'),
    get isOpen() {
      return thread !== 0 || mode !== 'closed'
    },
    peerSentAtMs: 0,
  })
  const held = makeHeldSessions({ threads: [refOf(0), refOf(1)], clock })
  return {
    held,
    clock,
    take: () => asked.splice(0),
    be: (now: typeof mode) => {
      mode = now
    },
  }
}

test('a front sends the end of a session to every market thread until the thread answers', async () => {
  const { held, clock, take, be } = fixture()
  held.hold('s')
  assert.deepEqual(take(), [])
  be('late')
  held.end('s')
  assert.deepEqual(take(), ['0 EndSession s', '1 EndSession s'])
  await eventually(() => assert.equal(clock.pending, 1))
  be('answers')
  clock.advance(250)
  await held.settled()
  assert.deepEqual(take(), ['0 EndSession s'])
})

test('a market thread that was disconnected is notified of an ended session when it reconnects', async () => {
  const { held, clock, take, be } = fixture()
  be('closed')
  held.hold('s')
  held.hold('t')
  held.end('s')
  await held.settled()
  assert.equal(clock.pending, 0, 'no timer runs meanwhile')
  take()
  be('answers')
  await held.claim(0)
  assert.deepEqual(take(), ['0 EndSession s', '0 ClaimSessions t'])
  await held.settled()
  await held.claim(0)
  assert.deepEqual(take(), ['0 ClaimSessions t'])
})

test('if a session turns cancel-on-disconnect back on, a pending request to keep its orders is dropped', async () => {
  const { held, take, be } = fixture()
  be('closed')
  held.hold('s')
  held.keep('s')
  await held.settled()
  held.hold('s')
  take()
  be('answers')
  await held.claim(0)
  assert.deepEqual(take(), ['0 ClaimSessions s'])
})

test('a front reports its sessions to a market thread a thousand at a time, and repeats a lost report', async () => {
  const { held, clock, take, be } = fixture()
  for (let at = 0; at < 1_500; at++) held.hold(`s${at}`)
  await held.claim(1)
  assert.deepEqual(
    take().map((line) => line.split(',').length),
    [1_000, 500],
  )
  be('late')
  await held.claim(0)
  assert.equal(take().length, 1)
  be('answers')
  clock.advance(250)
  const claims: string[] = []
  await eventually(() => assert.equal(claims.push(...take()), 2))
})
