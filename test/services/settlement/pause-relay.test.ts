import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reject } from '#domain/rejection.ts'
import { type TraderPause, TraderPauses } from '#domain/trader-pauses.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { Ref } from '#runtime/ref.ts'
import { makePauseRelay } from '#services/settlement/thread/pause-relay.ts'
import { eventually } from '../../support/eventually.ts'
import { traderNamed } from '../../support/orders.ts'

const TERMS = { firstMs: 10_000, maxMs: 60_000 }
const CHAIN = 31_337

/** Makes the part of a market thread that handles pauses. */
function thread() {
  const pauses = new TraderPauses(TERMS)
  const troubles: unknown[] = []
  let asked = 0
  const ref = {
    async ask() {
      asked++
      return troubles.shift() ?? { pauses: pauses.all() }
    },
    tell: (_type: string, { pauses: told }: { pauses: TraderPause[] }) => void pauses.merge(told),
  } as unknown as Ref<MarketThreadProtocol>
  const paused = () => pauses.all().map(({ trader }) => trader)
  return { ref, pauses, troubles, paused, asked: () => asked }
}

const ann = traderNamed('ann')
const bob = traderNamed('bob')

test('a trader’s pause reported by one market thread is sent to all market threads', () => {
  const [one, two] = [thread(), thread()]
  const relay = makePauseRelay([one.ref, two.ref], TERMS)
  one.pauses.fault(CHAIN, ann, 5)
  relay.received(one.pauses.all())
  assert.deepEqual(two.pauses.all(), one.pauses.all())
})

test('a newly connected market thread reports its trader pauses to settlement and receives those of other threads', async () => {
  const [one, two] = [thread(), thread()]
  one.pauses.fault(CHAIN, ann, 5)
  two.pauses.fault(CHAIN, bob, 5)
  const relay = makePauseRelay([one.ref, two.ref], TERMS)
  one.troubles.push({ unanswered: 'closed' }, reject('OVERLOADED'))
  relay.linked(one.ref)
  relay.linked(two.ref)
  await eventually(() => assert.deepEqual(one.paused(), [ann, bob]))
  assert.deepEqual(two.paused(), [bob], 'the first one could not answer')
  relay.tick(10)
  await eventually(() => assert.equal(one.asked(), 2))
  await new Promise((resolve) => setImmediate(resolve))
  relay.tick(20)
  await eventually(() => assert.deepEqual(two.paused(), [bob, ann]))
  relay.tick(30)
  assert.deepEqual([one.asked(), two.asked()], [3, 1], 'who has answered is not asked again')
})

test('a market thread that reconnects gets back the trader pauses that it reported earlier', async () => {
  const [one, two] = [thread(), thread()]
  const relay = makePauseRelay([one.ref, two.ref], TERMS)
  one.pauses.fault(CHAIN, ann, 5)
  relay.received(one.pauses.all())
  const back = thread()
  relay.linked(back.ref)
  assert.deepEqual(back.paused(), [ann])
})

test('if trader pauses are turned off, settlement does not query market threads about pauses', () => {
  const one = thread()
  makePauseRelay([one.ref], { firstMs: 0, maxMs: 60_000 }).linked(one.ref)
  assert.equal(one.asked(), 0)
})
