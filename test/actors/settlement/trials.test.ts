import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { BUY, YES } from '#domain/order.ts'
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
  const [empty, rich, poor] = ['4', '5', '6'].map((digit) => `0x${digit.repeat(40)}` as Address)
  const waiting = (trader: Address | undefined, least = 10) =>
    ({ trader: trader as Address, least }) as World['inLine'][number]

  /** A world in which the ghost has bought 1 at 0.50, and a look tells that he has nothing. */
  function worldWithLine(...inLine: ReturnType<typeof waiting>[]) {
    const world = worldOfGhost(BATCH_WAIT_MS)
    world.isBare = () => true
    world.inLine.push(...inLine)
    const id = world.trade({ buyer: GHOST, seller: MAKER })
    return { world, id }
  }

  test('leaves before the failure is told, if he could not pay for the least of it', async () => {
    const { world, id } = worldWithLine(waiting(empty), waiting(rich), waiting(poor))
    world.purses.set(rich as Address, 1n)
    await world.steps(3)
    assert.equal(world.status(id), 'failed')
    assert.deepEqual(world.withdrawn, [
      { trader: empty, failedBefore: 0 },
      { trader: poor, failedBefore: 0 },
    ])
    const [{ marketId }] = [world.trades.get(id)!]
    assert.deepEqual(world.lines, [{ marketId, outcome: YES, side: BUY, price: 500_000 }])
    const told = world.said.filter(({ type }) => type === 'LineCleared')
    assert.deepEqual(told, [{ type: 'LineCleared', orders: 2 }])
  })

  test('stays, if he has settled a trade, or has one under way', async () => {
    const world = worldOfGhost()
    world.isBare = () => true
    const regular = world.trade()
    await world.steps(5)
    assert.equal(world.status(regular), 'confirmed')
    const { buyer } = world.trades.get(regular)!
    world.refuses = (id) => (world.trades.get(id)?.buyer === GHOST ? NO_MONEY : undefined)
    world.inLine.push(waiting(buyer), waiting(rich), waiting(empty))
    const ghosts = world.trade({ buyer: GHOST, seller: MAKER })
    world.trade({ seller: rich as Address })
    await world.until(() => world.status(ghosts) === 'failed')
    assert.deepEqual(
      world.withdrawn.map(({ trader }) => trader),
      [empty],
    )
  })

  test('is not asked for while nobody is at fault', async () => {
    const world = new World()
    world.inLine.push(waiting(empty))
    const id = world.trade()
    await world.until(() => world.status(id) === 'confirmed')
    assert.deepEqual([world.lines, world.withdrawn], [[], []])
  })

  for (const port of ['nextInLine', 'lookAtOwners', 'withdraw'] as const) {
    test(`stays while ${port} does not answer, and the trade fails all the same`, async () => {
      const { world, id } = worldWithLine(waiting(empty))
      world.away.set(port, AWAY)
      await world.steps(3)
      assert.equal(world.status(id), 'failed')
      assert.deepEqual(world.withdrawn, [])
      assert(world.said.some((said) => said.type === 'StepFailed' && said.step === 'line'))
    })
  }
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
