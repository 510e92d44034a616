import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BUY } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import { type HeldOrder, SessionIndex } from '#services/market/held.ts'
import { SessionEnds } from '#services/market/host/session-ends.ts'
import { hashNamed, nameOf, traderNamed } from '../../support/orders.ts'
import { MARKET_ID } from './market-fixture.ts'

const order = (name: string): HeldOrder => ({
  marketId: MARKET_ID,
  orderHash: hashNamed(name),
  side: BUY,
  trader: traderNamed('ann'),
})

type Sent = { type: string; name: string; answer: (answer: unknown) => void }

/** Makes sessions whose markets answer when the test decides. */
function fixture(orders: Record<string, readonly string[]>, isAway = () => false) {
  const index = new SessionIndex()
  for (const [session, names] of Object.entries(orders)) {
    for (const name of names) index.add(session, order(name))
  }
  const sent: Sent[] = []
  const ends = new SessionEnds(
    index,
    (type, { orderHash }, answer) => sent.push({ type, name: nameOf(orderHash), answer }),
    isAway,
  )
  /** Returns the commands that were sent since the last call. */
  const take = () => sent.splice(0)
  return { index, ends, take }
}

const cancelled = { status: 'cancelled' }

test('the end of a session cancels its orders, and no other orders', () => {
  const { ends, take } = fixture({ s: ['a', 'b'], t: ['c'] })
  let done = 0
  ends.end('s', 0, () => done++)
  const sent = take()
  assert.deepEqual(sent.map(({ type, name }) => `${type} ${name}`).toSorted(), [
    'CancelOrder a',
    'CancelOrder b',
  ])
  sent[0]!.answer(cancelled)
  assert.equal(done, 0)
  sent[1]!.answer(cancelled)
  assert.equal(done, 1)
  ends.retry(0)
  assert.deepEqual(take(), [])
})

test('two requests to end one session are both confirmed once the session’s cancels are answered', () => {
  const { index, ends, take } = fixture({ s: ['a'] })
  let done = 0
  ends.end('s', 0, () => done++)
  const [cancel] = take()
  // The market has cancelled the order, but the cancellation is not durable yet.
  index.delete('s', hashNamed('a'))
  ends.end('s', 0, () => done++)
  ends.retry(0)
  assert.equal(done, 0)
  cancel!.answer(cancelled)
  assert.equal(done, 2)
  ends.retry(0)
  assert.equal(done, 2, 'each end is confirmed once')
})

test('the end of a session is confirmed only after all earlier commands are written to the log', () => {
  const index = new SessionIndex()
  const proofs: ((isSure: boolean) => void)[] = []
  const sent: HeldOrder[] = []
  const ends = new SessionEnds(
    index,
    (_type, held) => sent.push(held),
    () => false,
    (answered) => proofs.push(answered),
  )
  let done = 0
  ends.end('s', 0, () => done++)
  proofs.shift()?.(false)
  assert.equal(done, 0, 'the log could not be written')
  ends.retry(0)
  // An order of the session was still in the mailbox when the session ended. The market places it only now.
  index.add('s', order('a'))
  proofs.shift()?.(true)
  assert.equal(done, 0)
  ends.retry(0)
  assert.equal(sent.length, 1)
})

test('the end of a session without orders is confirmed immediately', () => {
  const { ends, take } = fixture({})
  let done = 0
  ends.end('s', 0, () => done++)
  assert.deepEqual([done, take().length], [1, 0])
})

test('the end of a session is not confirmed while a market that may contain its orders is unavailable', () => {
  let isAway = true
  const { index, ends, take } = fixture({}, () => isAway)
  let done = 0
  ends.end('s', 0, () => done++)
  ends.retry(40_000)
  assert.equal(done, 0, 'the orders of markets that are away are not known')
  isAway = false
  index.add('s', order('a'))
  ends.retry(41_000)
  const [cancel] = take()
  assert.equal(cancel?.name, 'a')
  cancel?.answer(cancelled)
  assert.equal(done, 1)
})

test('the cancels of an ended session are sent 256 at a time, and overloaded ones are sent again', () => {
  const names = Array.from({ length: 1_000 }, (_, at) => `o${at}`)
  const { index, ends, take } = fixture({ s: names })
  let done = 0
  ends.end('s', 0, () => done++)
  const answers = [
    ...Array(100).fill(reject('OVERLOADED')),
    ...Array(100).fill(reject('OUTCOME_UNKNOWN')),
    ...Array(100).fill(reject('ORDER_CLOSED')),
    ...Array(700).fill(cancelled),
  ]
  const first = take()
  assert.equal(first.length, 256, 'not all at once')
  const asked = [...first]
  for (let at = 0; at < 1_000; at++) {
    asked[at]!.answer(answers[at])
    asked.push(...take())
  }
  assert.equal(asked.length, 1_000)
  assert.deepEqual([done, index.sizeOf('s')], [0, 200])
  ends.retry(1_000)
  const again = take()
  assert.deepEqual(
    new Set(again.map(({ name }) => name)),
    new Set(asked.slice(0, 200).map(({ name }) => name)),
  )
  for (const { answer } of again) answer(reject('ORDER_NOT_FOUND'))
  assert.deepEqual([done, index.sizeOf('s')], [1, 0])
})

test('if a market immediately refuses a session’s cancels, the cancels are retried later, not in a tight loop', () => {
  const index = new SessionIndex()
  for (let at = 0; at < 50_000; at++) index.add('s', order(`o${at}`))
  let asked = 0
  let full = true
  const ends = new SessionEnds(index, (_type, _order, answered) => {
    asked++
    answered(full ? reject('OVERLOADED') : cancelled)
  })
  ends.suspend('s', 0)
  assert.deepEqual([asked, index.sizeOf('s')], [50_000, 50_000])
  full = false
  ends.retry(0)
  assert.deepEqual([asked, index.sizeOf('s')], [100_000, 0])
})

test('an order that reaches its market after its session has ended is cancelled', () => {
  const { index, ends, take } = fixture({})
  ends.end('s', 0, () => {})
  index.add('s', order('late'))
  ends.retry(1_000)
  const [sent] = take()
  assert.equal(sent?.name, 'late')
  sent.answer(cancelled)
  ends.retry(30_000)
  index.add('s', order('of no front'))
  ends.retry(31_000)
  assert.deepEqual(take(), [], 'an ended session is forgotten; a restart finds what is left')
})

test('if a lost front returns, the orders of its session that are not cancelled yet stay open', () => {
  const { ends, take } = fixture({ s: ['a'] })
  ends.suspend('s', 0)
  take()[0]!.answer(reject('OVERLOADED'))
  assert.equal(ends.continue('s'), true)
  ends.retry(1_000)
  assert.deepEqual(take(), [])
})

test('an order that arrives after the end of its session is cancelled before the end is confirmed', () => {
  const { index, ends, take } = fixture({ s: ['a'] })
  let done = 0
  ends.end('s', 0, () => done++)
  const [first] = take()
  assert.equal(ends.continue('s', hashNamed('late')), false)
  index.add('s', order('late'))
  first!.answer(cancelled)
  assert.equal(done, 0, 'the late order is still open')
  ends.retry(1_000)
  const [late] = take()
  assert.equal(late?.name, 'late')
  // An ended session cannot be continued, even if its front is lost before the end is confirmed.
  ends.suspend('s', 1_000)
  assert.equal(ends.continue('s'), false)
  late?.answer(cancelled)
  assert.equal(done, 1)
})

test('a request to keep an order beyond its session is sent again until the market has recorded it', () => {
  const { index, ends, take } = fixture({ s: ['a', 'b'] })
  ends.keep('s')
  const [a, b] = take()
  assert.deepEqual([a!.type, b!.type], ['KeepOrder', 'KeepOrder'])
  index.delete('s', hashNamed('a'))
  a!.answer(undefined)
  b!.answer(reject('OVERLOADED'))
  index.add('s', order('next'))
  ends.retry(0)
  const again = take()
  assert.deepEqual(
    again.map(({ name }) => name),
    ['b'],
    'an order that was placed since is still held',
  )
  ends.continue('s', hashNamed('b'))
  ends.retry(0)
  assert.deepEqual(take(), [], 'the session has placed it again')
})
