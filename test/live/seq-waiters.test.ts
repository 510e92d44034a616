import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import type { MarketBoard, ShownMarket } from '#live/market-board.ts'
import { makeSeqWaiters } from '#live/seq-waiters.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

const id = `0x${'a'.repeat(64)}` as MarketId

function waitersAt(seq: number, asleep: readonly MarketId[] = []) {
  const shown = { market: { id }, seq } as unknown as ShownMarket
  const board = { markets: new Map([[id, shown]]) } as unknown as MarketBoard
  const clock = simulatedClock(0)
  const dozing = new Set(asleep)
  const waiters = makeSeqWaiters(() => board, clock, {
    need: (marketId) => (dozing.has(marketId) ? new Promise(() => {}) : undefined),
    needThese: (markets) => markets !== 'all' && ![...markets].some((each) => dozing.has(each)),
  })
  const advance = (to: number) => {
    shown.seq = to
    waiters.advanced(shown)
  }
  return { waiters, advance, clock, dozing }
}

test('a read with a minSeq is not delayed if the front has already reached that seq', () => {
  const { waiters } = waitersAt(5)
  assert.equal(waiters.until(id, undefined, { deadlineAtMs: 10_000 }), undefined)
  assert.equal(waiters.until(id, 5, { deadlineAtMs: 10_000 }), undefined)
})

test('a read with a minSeq waits until the front has reached that seq', async () => {
  const { waiters, advance } = waitersAt(5)
  let ended = false
  const waiting = waiters.until(id, 7, { deadlineAtMs: 10_000 })
  const told = waiting?.then((rejection) => {
    ended = true
    return rejection
  })
  advance(6)
  await null
  assert.equal(ended, false)
  advance(7)
  assert.equal(await told, undefined)
})

test('if the front does not reach a read’s minSeq in time, the read is refused before its deadline', async () => {
  for (const deadlineAtMs of [1_000, 60_000]) {
    const { waiters, clock, advance } = waitersAt(5)
    const waiting = waiters.until(id, 6, { deadlineAtMs })
    clock.advance(Math.min(2_000, deadlineAtMs - 50))
    assert.deepEqual(await waiting, { rejected: 'SEQ_NOT_REACHED' })
    advance(6)
  }
})

test('a read of an unknown market waits for its minSeq until the front knows the market', async () => {
  const { waiters, clock } = waitersAt(5)
  const other = `0x${'b'.repeat(64)}` as MarketId
  const waiting = waiters.until(other, 1, { deadlineAtMs: 60_000 })
  waiters.advanced({ market: { id: other }, seq: 1 } as unknown as ShownMarket)
  assert.equal(await waiting, undefined)
  clock.advance(5_000)
})

test('the number of reads that wait for a minSeq is limited', async () => {
  const { waiters, advance } = waitersAt(0)
  const waiting = Array.from({ length: 1_001 }, () =>
    waiters.until(id, 1, { deadlineAtMs: 60_000 }),
  )
  assert.deepEqual(await waiting.at(-1), { rejected: 'SEQ_NOT_REACHED' })
  advance(1)
  assert.equal(await waiting[0], undefined)
})

test('one IP address can have only 50 reads that wait for a minSeq; other addresses can still wait', async () => {
  const { waiters, advance } = waitersAt(5)
  const wait = (ip: string) => waiters.until(id, 6, { deadlineAtMs: 60_000, ip })
  const waiting = Array.from({ length: 50 }, () => wait('192.0.2.1'))
  const refused = await wait('192.0.2.1')
  assert.deepEqual([refused?.rejected, refused?.field], ['RATE_LIMITED', 'minSeq'])
  const neighbours = [wait('192.0.2.2'), wait('2001:db8::1'), wait('')]
  advance(6)
  for (const each of [...waiting, ...neighbours]) assert.equal(await each, undefined)
  const later = waiters.until(id, 7, { deadlineAtMs: 60_000, ip: '192.0.2.1' })
  advance(7)
  assert.equal(await later, undefined, 'reads that are over leave their places')
})

test('clients in one IPv6 /48 network cannot use up all places for reads that wait for a minSeq', async () => {
  const { waiters, advance } = waitersAt(5)
  const wait = (ip: string) => waiters.until(id, 6, { deadlineAtMs: 60_000, ip })
  const waiting = Array.from({ length: 200 }, (_, at) => wait(`2001:db8:1:${at % 20}::1`))
  assert.equal((await wait('2001:db8:1:99::1'))?.rejected, 'RATE_LIMITED')
  const neighbour = wait('2001:db8:2:1::1')
  advance(6)
  for (const each of [...waiting, neighbour]) assert.equal(await each, undefined)
})

test('the refusal of one waiting read does not end another read that waits for the same market', async () => {
  const { waiters, advance } = waitersAt(5)
  const other = `0x${'b'.repeat(64)}` as MarketId
  const ask = (market: MarketId, ip: string) =>
    waiters.until(market, 6, { deadlineAtMs: 60_000, ip })
  const waiting = Array.from({ length: 50 }, () => ask(other, '192.0.2.1'))
  // Both requests arrive in one turn of the event loop. So when the first request is refused, the second one already
  // waits.
  const refused = ask(id, '192.0.2.1')
  const honest = ask(id, '192.0.2.2')
  assert.equal((await refused)?.rejected, 'RATE_LIMITED')
  let answer: unknown = 'still waiting'
  const told = honest?.then((rejection) => {
    answer = rejection
  })
  advance(6)
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(answer, undefined)
  waiters.advanced({ market: { id: other }, seq: 6 } as unknown as ShownMarket)
  await Promise.all([told, ...waiting])
})

test('a read of a paused market waits until the front follows the market and has reached the minSeq', async () => {
  const { waiters, advance, dozing, clock } = waitersAt(5, [id])
  const other = `0x${'b'.repeat(64)}` as MarketId
  const context = { deadlineAtMs: 10_000 }
  assert.equal(waiters.until(other, undefined, context), undefined)
  assert.equal(waiters.untilFollowed([other], context), undefined)
  let ended = 0
  const waiting = [
    waiters.until(id, undefined, context),
    waiters.until(id, 7, context),
    waiters.untilFollowed([other, id], context),
  ].map(async (each) => {
    assert.equal(await each, undefined)
    ended++
  })
  waiters.woken()
  advance(6)
  await null
  assert.equal(ended, 0)
  dozing.clear()
  waiters.woken()
  await Promise.all([waiting[0], waiting[2]])
  assert.equal(ended, 2)
  advance(7)
  await waiting[1]
  // If a partition takes too long to load, the read is refused and may be retried.
  dozing.add(id)
  const late = waiters.until(id, undefined, context)
  clock.advance(2_000)
  assert.deepEqual(await late, { rejected: 'OVERLOADED' })
})
