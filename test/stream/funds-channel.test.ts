import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Address } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { FundsView } from '#protocol/accounts.ts'
import type { Feed } from '#stream/feeds.ts'
import { makeFundsChannel } from '#stream/funds-channel.ts'
import { makeTopicRegistry } from '#stream/topic-registry.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

const trader = `0x${'ab'.repeat(20)}` as Address

/** Runs the callbacks of all settled promises. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

function viewOf(held: number): FundsView {
  const amounts = { allowed: '0', reservedOpen: '1', reservedPending: '2', free: '3' }
  return {
    chainId: 7,
    trader,
    blockNumber: held,
    tokens: [
      { token: 'stablecoin', held: String(held), ...amounts },
      { token: `0x${'1'.repeat(64)}/1` as never, held: '5', ...amounts },
    ],
  }
}

test('a funds subscriber gets a snapshot of all balances, then updates that combine simultaneous changes', async () => {
  const clock = simulatedClock(1_800_000_000_000)
  const published: string[] = []
  const flushed: Feed<object>[] = []
  const asked: ((answer: FundsView | Rejection) => void)[] = []
  const registry = makeTopicRegistry<object>({
    limits: {
      replayMessages: 10,
      replayBytes: 10_000,
      replayBytesTotal: 10_000,
      lingerMs: 1,
      lingeringMax: 1,
    },
    clock,
    publish: (_, text) => void published.push(text),
    forgotten() {},
  })
  const channel = makeFundsChannel<object>(registry, clock, {
    gateway: { funds: () => new Promise((resolve) => asked.push(resolve)) },
    chainIds: new Set([7]),
    flushed: (feed) => void flushed.push(feed),
  })
  const feed = channel.feedOf(trader, 7)
  assert('topic' in feed)
  registry.join(feed, {})
  assert.equal(channel.snapshot(feed, false), undefined, 'nothing is known yet')

  // The accounts thread is overloaded, so the channel repeats its request after a second.
  asked.shift()?.(reject('OVERLOADED'))
  await settled()
  clock.advance(1_000)
  await settled()
  asked.shift()?.(viewOf(10))
  await settled()
  assert.deepEqual(flushed, [feed])
  const snapshot = JSON.parse(channel.snapshot(feed, true) ?? '')
  assert.equal(snapshot.type, 'funds.snapshot')
  assert.equal(snapshot.reset, true)
  assert.equal(snapshot.blockNumber, 10)
  assert.deepEqual(snapshot.tokens[1], {
    ...{ token: 'outcome', marketId: `0x${'1'.repeat(64)}`, outcome: 1 },
    ...{ held: '5', allowed: '0', reservedForOrders: '1', reservedForTrades: '2', free: '3' },
  })

  for (let times = 0; times < 5; times++) channel.changed(trader, 7)
  assert.equal(asked.length, 1, 'one question at a time')
  asked.shift()?.(viewOf(11))
  await settled()
  assert.equal(asked.length, 1, 'and one more for all that changed meanwhile')
  asked.shift()?.(viewOf(12))
  await settled()
  const told = published.map((text) => JSON.parse(text))
  assert.deepEqual(
    told.map(({ type, blockNumber }) => [type, blockNumber]),
    [
      ['funds', 11],
      ['funds', 12],
    ],
  )
  assert.equal(told[1].prevCursor, told[0].cursor)
  assert.equal(told[0].prevCursor, snapshot.cursor)

  // A change of a trader's funds causes no request if nobody follows the trader.
  channel.changed(`0x${'cd'.repeat(20)}` as Address, 7)
  channel.forget(feed)
  channel.changed(trader, 7)
  assert.equal(asked.length, 0)
})

test('a subscription to funds is refused for an unknown chain, or if the exchange does not reserve funds', () => {
  const clock = simulatedClock(1_800_000_000_000)
  const registry = {} as never
  const none = { chainIds: new Set([7]), flushed() {} }
  const off = makeFundsChannel<object>(registry, clock, { ...none, gateway: undefined })
  assert.deepEqual((off.feedOf(trader, 7) as Rejection).rejected, 'NOT_FOUND')
  const gateway = { funds: async () => reject('OVERLOADED') }
  const on = makeFundsChannel<object>(registry, clock, { ...none, gateway })
  assert.deepEqual((on.feedOf(trader, 8) as Rejection).field, 'chainId')
})
