import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { BUY, SELL, YES } from '#domain/order.ts'
import { AWAY, keyOf, World } from './settlement-fixture.ts'

const GHOST = `0x${'9'.repeat(40)}` as Address
const MAKER = `0x${'8'.repeat(40)}` as Address
const NO_MONEY = { reason: 'InsufficientCollateral', fault: 'buyer' } as const

const NO_MULTICALL = new Fault('CHAIN_REFUSED', 'there is no such contract', { retryable: false })

/** Longer than any test waits. */
const BATCH_WAIT_MS = 1_000_000

/** A world in which everything that the ghost has bought would be refused. */
function worldOfGhost(batchWaitMs = 0): World {
  const world = new World({ batchWaitMs })
  world.refuses = (id) => (world.trades.get(id)?.buyer === GHOST ? NO_MONEY : undefined)
  return world
}

describe('a trade of a trader who has settled none', () => {
  test('fails before its batch is due, if it would be refused', async () => {
    const world = worldOfGhost(BATCH_WAIT_MS)
    const ghosts = world.trade({ buyer: GHOST, seller: MAKER })
    const honest = world.trade()
    await world.steps(3)
    assert.equal(world.status(ghosts), 'failed')
    assert.equal(world.status(honest), 'matched')
    assert.deepEqual(world.submissions, [])
  })

  test('waits for its batch like any other, if it would settle', async () => {
    const world = worldOfGhost(5_000)
    const id = world.trade()
    await world.steps(2)
    assert.deepEqual([world.trials, world.submissions], [[[id]], []])
    await world.steps(6)
    assert.equal(world.status(id), 'confirmed')
    assert.equal(world.trials.length, 1, 'it is tried out once')
  })

  test('is not sent while it waits to be tried out', async () => {
    const world = new World({ batchMax: 1 })
    const [first, second] = [world.trade(), world.trade()]
    world.byHand = true
    await world.until(() => world.pending.some(({ port }) => port === 'tryOut'), isNot('tryOut'))
    await world.turn(isNot('tryOut'))
    assert.deepEqual(world.submissions, [])
    await world.until(() => world.status(second) === 'confirmed')
    assert.deepEqual(world.trials, [[first], [second]])
  })

  test('goes into its batch, if it cannot be tried out', async () => {
    const world = worldOfGhost()
    world.away.set('tryOut', AWAY)
    const id = world.trade()
    const ghosts = world.trade({ buyer: GHOST, seller: MAKER })
    await world.steps(5)
    assert.deepEqual([world.status(id), world.status(ghosts)], ['confirmed', 'failed'])
    assert.deepEqual(world.trials, [])
  })

  test('fails by a look at balances, of many at once, and is not tried out', async () => {
    const world = new World({ batchMax: 2, batchWaitMs: BATCH_WAIT_MS })
    world.refuses = (id) => (world.trades.get(id)?.buyer === GHOST ? NO_MONEY : undefined)
    world.isBare = () => true
    const ghosts = Array.from({ length: 7 }, () => world.trade({ buyer: GHOST, seller: MAKER }))
    const honest = world.trade()
    await world.steps(3)
    assert.deepEqual(new Set(ghosts.map((id) => world.status(id))), new Set(['failed']))
    assert.deepEqual(world.looks, [[...ghosts, honest]])
    assert.deepEqual(world.trials, [[honest]])
  })

  test('is tried out at once while balances cannot be looked at', async () => {
    const world = worldOfGhost(BATCH_WAIT_MS)
    world.isBare = () => true
    world.away.set('lookAt', NO_MULTICALL)
    const first = world.trade({ buyer: GHOST, seller: MAKER })
    await world.steps(3)
    const second = world.trade({ buyer: GHOST, seller: MAKER })
    await world.steps(3)
    assert.deepEqual([world.status(first), world.status(second)], ['failed', 'failed'])
    assert.deepEqual(world.trials, [[first], [second]])
    assert.deepEqual(world.looks, [])
  })

  test('does not fail by a look while one of his is being tried out, which may bring what he lacks', async () => {
    const world = new World()
    const bought = world.trade({ buyer: GHOST, seller: MAKER })
    world.byHand = true
    await world.until(() => world.pending.some(({ port }) => port === 'tryOut'), isNot('tryOut'))
    const sold = world.trade({ seller: GHOST })
    world.isBare = () => true
    world.refuses = (id) =>
      id === sold && !world.settledBy.has(keyOf({ tradeId: bought }))
        ? { reason: 'InsufficientShares', fault: 'seller' }
        : undefined
    await world.until(() => world.looks.flat().includes(sold), isNot('tryOut'))
    await world.turn(isNot('tryOut'))
    assert.equal(world.status(sold), 'matched')
    await world.until(() => world.status(sold) === 'confirmed')
    assert.deepEqual(world.lines, [], 'nobody is asked who waits for what does not come back')
  })

  test('does not fail while an older one of his is being sent, which may bring what he lacks', async () => {
    const world = new World()
    const bought = world.trade({ buyer: GHOST, seller: MAKER })
    world.byHand = true
    await world.until(() => world.pending.some(({ port }) => port === 'submit'), isNot('submit'))
    const sold = world.trade({ seller: GHOST })
    world.refuses = (id) =>
      id === sold && !world.settledBy.has(keyOf({ tradeId: bought }))
        ? { reason: 'InsufficientShares', fault: 'seller' }
        : undefined
    await world.until(() => world.trials.flat().includes(sold), isNot('submit'))
    await world.turn(isNot('submit'))
    assert.equal(world.status(sold), 'matched')
    await world.until(() => world.status(sold) === 'confirmed')
    assert.equal(world.status(bought), 'confirmed')
  })
})

describe('who is in line for what a failed trade gives back', () => {
  const traderOf = (digit: number) => `0x${String(digit).repeat(40)}` as Address
  const [empty, rich, poor, last] = [4, 5, 6, 7].map(traderOf) as [
    Address,
    Address,
    Address,
    Address,
  ]
  /** Of the line: an order at 0.50. */
  const waiting = (trader: Address, remaining: number, isPending = false) =>
    ({ trader, price: 500_000, remaining, isPending }) as World['inLine'][number]
  const left = (world: World) => world.withdrawn.map(({ trader }) => trader)

  /** A world in which the ghost has bought 10 times 1 of as many makers, and a look tells that he has nothing. */
  function worldWithLine(...inLine: ReturnType<typeof waiting>[]) {
    const world = worldOfGhost(BATCH_WAIT_MS)
    world.isBare = () => true
    world.inLine.push(...inLine)
    const ids = Array.from({ length: 10 }, () => world.trade({ buyer: GHOST }))
    return { world, id: ids.at(-1)! }
  }

  test('leaves before the failure is told, if he would be met and could not pay', async () => {
    const { world, id } = worldWithLine(waiting(empty, 45), waiting(rich, 4), waiting(poor, 3))
    world.purses.set(rich, 2n)
    world.purses.set(poor, 1n)
    await world.steps(3)
    assert.equal(world.status(id), 'failed')
    assert.deepEqual(world.withdrawn, [
      { trader: empty, failedBefore: 0 },
      { trader: poor, failedBefore: 0 },
    ])
    const [{ marketId, sell }] = [world.trades.get(id)!]
    const [back] = world.lines
    assert.deepEqual([back?.marketId, back?.outcome, back?.side], [marketId, YES, BUY])
    const { orderHash, price, expiration } = sell
    assert.equal(back?.orders.length, 10)
    assert.deepEqual(back?.orders.at(-1), { orderHash, price, expiration, size: 1 })
    const told = world.said.filter(({ type }) => type === 'LineCleared')
    assert.deepEqual(told, [{ type: 'LineCleared', orders: 2 }])
  })

  test('stays behind those who can pay for all of it, and needs no more than he would get', async () => {
    const { world } = worldWithLine(waiting(poor, 100), waiting(empty, 1))
    world.purses.set(poor, 5n)
    await world.steps(3)
    assert.deepEqual(left(world), [], 'ten at 0.50 cost 5, and then nothing is left')
    world.purses.set(poor, 4n)
    const next = worldWithLine(waiting(poor, 100), waiting(empty, 1)).world
    next.purses.set(poor, 4n)
    await next.steps(3)
    assert.deepEqual(left(next), [poor, empty])
  })

  test('who is at fault himself holds no place for others', async () => {
    const { world } = worldWithLine(waiting(GHOST, 45, true), waiting(empty, 1))
    await world.steps(3)
    assert.deepEqual(left(world), [empty])
  })

  test('one small order that he can pay for does not excuse the next', async () => {
    const { world } = worldWithLine(waiting(poor, 1), waiting(poor, 45), waiting(last, 9))
    world.purses.set(poor, 1n)
    world.purses.set(last, 100n)
    await world.steps(3)
    assert.deepEqual(left(world), [poor])
  })

  test('sellers need shares, and have to allow that they are taken', async () => {
    const world = new World({ batchWaitMs: BATCH_WAIT_MS })
    world.isBare = () => true
    world.refuses = (id) =>
      world.trades.get(id)?.seller === GHOST
        ? { reason: 'InsufficientShares', fault: 'seller' }
        : undefined
    world.inLine.push(waiting(empty, 1), waiting(rich, 3))
    world.purses.set(rich, 3n)
    const ids = Array.from({ length: 3 }, () => world.trade({ seller: GHOST }))
    await world.steps(3)
    assert.equal(world.status(ids[0]!), 'failed')
    assert.deepEqual(left(world), [empty])
    const [back] = world.lines
    assert.deepEqual(
      [back?.side, back?.orders[0]?.orderHash],
      [SELL, world.trades.get(ids[0]!)?.buy.orderHash],
    )
  })

  test('stays, if he has settled a trade, or has one under way', async () => {
    const world = worldOfGhost()
    world.isBare = () => true
    const regular = world.trade()
    await world.steps(5)
    assert.equal(world.status(regular), 'confirmed')
    const { buyer } = world.trades.get(regular)!
    world.inLine.push(
      waiting(empty, 1),
      waiting(buyer, 1),
      waiting(rich, 1),
      waiting(poor, 1, true),
    )
    const ghosts = Array.from({ length: 9 }, () => world.trade({ buyer: GHOST, seller: MAKER }))
    world.trade({ seller: rich })
    await world.until(() => world.status(ghosts[0]!) === 'failed')
    assert.deepEqual(left(world), [empty])
  })

  for (const port of ['nextInLine', 'lookAtOwners', 'withdraw'] as const) {
    test(`stays while ${port} does not answer, and the trade fails all the same`, async () => {
      const { world, id } = worldWithLine(waiting(empty, 1))
      world.away.set(port, AWAY)
      await world.steps(3)
      assert.equal(world.status(id), 'failed')
      assert.deepEqual(world.withdrawn, [])
      assert(world.said.some((said) => said.type === 'LineCleared' && said.why !== undefined))
    })
  }

  test('leaves one market while another does not answer, and before anything is told', async () => {
    const world = worldOfGhost(BATCH_WAIT_MS)
    world.isBare = () => true
    world.inLine.push(waiting(empty, 1))
    const ids = [1, 2].map((market) => world.trade({ market, buyer: GHOST }))
    const { marketId } = world.trades.get(ids[0]!)!
    world.silentMarkets.add(marketId)
    await world.steps(3)
    assert.deepEqual(
      ids.map((id) => world.status(id)),
      ['failed', 'failed'],
    )
    assert.deepEqual(world.withdrawn, [{ trader: empty, failedBefore: 0 }])
  })
})

describe('a trader who has settled a trade', () => {
  test('is tried out no more, until a trade fails by his fault', async () => {
    const world = new World()
    const first = world.trade({ buyer: GHOST, seller: MAKER })
    await world.steps(5)
    assert.equal(world.status(first), 'confirmed')
    const second = world.trade({ buyer: GHOST, seller: MAKER })
    await world.steps(5)
    assert.equal(world.status(second), 'confirmed')
    assert.deepEqual(world.trials, [[first]])

    world.refuses = (id) => (id === first || id === second ? undefined : NO_MONEY)
    const third = world.trade({ buyer: GHOST, seller: MAKER })
    await world.steps(5)
    assert.equal(world.status(third), 'failed')
    assert.deepEqual(world.trials, [[first]])
    const fourth = world.trade({ buyer: GHOST, seller: MAKER })
    await world.steps(5)
    assert.equal(world.status(fourth), 'failed')
    assert.deepEqual(world.trials, [[first], [fourth]])
  })
})

function isNot(port: string): (call: { readonly port: string }) => boolean {
  return (call) => call.port !== port
}
