/** A trade whose side lacks something fails at once; a poisoned one fails alone; and none waits for ever. */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { TradeId } from '#domain/ids.ts'
import { statusOf } from '#services/settlement/lag.ts'
import { AWAY, keyOf, type Refusal, traderNumbered, World } from './settlement-fixture.ts'

const [MAKER, RESELLER, BUYER] = [101, 102, 103].map(traderNumbered) as [
  ReturnType<typeof traderNumbered>,
  ReturnType<typeof traderNumbered>,
  ReturnType<typeof traderNumbered>,
]
const LACKS_SHARES: Refusal = { reason: 'InsufficientShares', fault: 'seller' }
const PANIC = { name: 'Panic', words: 'a panic' }

function several(world: World, count: number): TradeId[] {
  return Array.from({ length: count }, () => world.trade())
}

/** Shares were bought by a transaction that is in no block yet, and sold on. */
async function resold(size: { readonly bought: number; readonly sold: number }) {
  const world = new World()
  world.automine = false
  const bought = world.trade({ seller: MAKER, buyer: RESELLER, size: size.bought })
  await world.step()
  assert.equal(world.rows.length, 1)
  const sold = world.trade({ seller: RESELLER, buyer: BUYER, size: size.sold })
  return { world, bought, sold }
}

describe('a trade whose side lacks something', () => {
  for (const reason of ['InsufficientAllowance', 'SharesNotApproved', 'CollateralRefused']) {
    it(`fails at once by ${reason}, whatever older trades of the trader are on their way`, async () => {
      const { world, sold } = await resold({ bought: 1, sold: 1 })
      world.refuses = (id) => (id === sold ? { reason, fault: 'seller' } : undefined)
      await world.step()
      assert.equal(world.status(sold), 'failed')
      world.refuses = () => undefined
      world.automine = true
      await world.steps(60)
      assert.deepEqual(world.wayOf(sold), ['failed'])
    })
  }

  it('fails at once if the older trades on their way bring less than is missing', async () => {
    const { world, sold } = await resold({ bought: 4, sold: 5 })
    world.refuses = (id) => (id === sold ? LACKS_SHARES : undefined)
    await world.step()
    assert.deepEqual(world.wayOf(sold), ['failed'])
  })

  it('waits if they bring enough together with what the trader has', async () => {
    const { world, bought, sold } = await resold({ bought: 4, sold: 5 })
    world.refuses = (id) => {
      const isThere = world.settledBy.has(keyOf({ tradeId: bought }))
      return id === sold && !isThere
        ? { ...LACKS_SHARES, has: { buyer: 9n, seller: 1n } }
        : undefined
    }
    await world.steps(5)
    assert.deepEqual([world.status(sold), statusOf(world.state).waiting], ['matched', 1])
    world.automine = true
    await world.steps(5)
    assert.deepEqual(world.wayOf(sold), ['submitted', 'confirmed'])
  })

  it('fails at once if older trades take the allowance that its buyer has left', async () => {
    const { world, sold } = await resold({ bought: 4, sold: 1 })
    const again = world.trade({ seller: MAKER, buyer: BUYER, size: 1 })
    const third = world.trade({ seller: RESELLER, buyer: BUYER, size: 1 })
    // The allowance covers two of the three, each of which costs one.
    world.refuses = (id) =>
      id === third ? { ...LACKS_SHARES, has: { buyer: 9n, seller: 0n, allowance: 2n } } : undefined
    await world.step()
    assert.deepEqual([world.status(sold), world.status(again)], ['submitted', 'submitted'])
    assert.deepEqual(world.wayOf(third), ['failed'])
  })

  it('waits if older trades leave enough of the allowance', async () => {
    const { world } = await resold({ bought: 4, sold: 1 })
    const second = world.trade({ seller: RESELLER, buyer: BUYER, size: 1 })
    world.refuses = (id) =>
      id === second ? { ...LACKS_SHARES, has: { buyer: 9n, seller: 0n, allowance: 2n } } : undefined
    await world.step()
    assert.equal(world.status(second), 'matched')
  })

  it('fails with the trade that it waited for, although its side has the funds by then', async () => {
    const { world, bought, sold } = await resold({ bought: 1, sold: 1 })
    world.refuses = (id) => (id === sold ? LACKS_SHARES : undefined)
    await world.steps(3)
    assert.equal(world.status(sold), 'matched')
    const examined = world.submissions.length
    // The older one is refused by its block. Meanwhile the seller got shares elsewhere.
    world.refuses = (id) => (id === bought ? LACKS_SHARES : undefined)
    world.automine = true
    await world.steps(5)
    assert.deepEqual(
      [world.wayOf(bought), world.wayOf(sold)],
      [['submitted', 'failed'], ['failed']],
    )
    assert.equal(world.submissions.length, examined, 'nothing is examined again')
  })

  it('fails if the trades that it waited for settled and took what they brought', async () => {
    const { world, sold: first } = await resold({ bought: 5, sold: 5 })
    const second = world.trade({ seller: RESELLER, buyer: BUYER, size: 5 })
    const isShort = () => world.mined.size === 0
    world.refuses = (id) => {
      if (id === first && isShort()) return LACKS_SHARES
      return id === second ? LACKS_SHARES : undefined
    }
    await world.step()
    assert.deepEqual([world.status(first), world.status(second)], ['matched', 'failed'])
    world.automine = true
    await world.steps(5)
    assert.equal(world.status(first), 'confirmed')
  })

  it('fails if the block that brings what was missing also takes it', async () => {
    const { world, sold } = await resold({ bought: 5, sold: 5 })
    world.refuses = (id) => (id === sold ? LACKS_SHARES : undefined)
    await world.step()
    const younger = world.trade({ seller: RESELLER, buyer: MAKER, size: 5 })
    await world.step()
    assert.deepEqual([world.status(sold), world.status(younger)], ['matched', 'submitted'])
    const examined = world.submissions.length
    world.mine()
    // The seller has other shares by now.
    world.refuses = () => undefined
    await world.steps(3)
    assert.deepEqual([world.status(younger), world.status(sold)], ['confirmed', 'failed'])
    const since = world.submissions.length
    assert.equal(since, examined, 'nothing is examined again')
  })

  it('fails with the trade that it waited for, although a later trade brings the shares', async () => {
    const { world, bought, sold } = await resold({ bought: 1, sold: 1 })
    world.refuses = (id) => (id === sold ? LACKS_SHARES : undefined)
    await world.step()
    world.trade({ seller: MAKER, buyer: RESELLER })
    await world.step()
    world.refuses = (id) => (id === bought ? LACKS_SHARES : undefined)
    world.automine = true
    await world.steps(5)
    assert.deepEqual([world.status(bought), world.wayOf(sold)], ['failed', ['failed']])
  })

  it('waits in a row behind others that wait, and all settle in their order', async () => {
    const { world, bought, sold } = await resold({ bought: 1, sold: 1 })
    const soldOn = world.trade({ seller: BUYER, buyer: MAKER })
    const needs = new Map([
      [sold, bought],
      [soldOn, sold],
    ])
    world.refuses = (id) => {
      const needed = needs.get(id)
      const isThere = needed === undefined || world.settledBy.has(keyOf({ tradeId: needed }))
      return isThere ? undefined : LACKS_SHARES
    }
    await world.steps(4)
    assert.equal(statusOf(world.state).waiting, 2)
    world.automine = true
    await world.steps(8)
    for (const id of [bought, sold, soldOn]) assert.equal(world.status(id), 'confirmed')
  })

  it('is not failed while a transaction that has it is not final', async () => {
    const world = new World()
    world.automine = false
    const id = world.trade()
    await world.step()
    // The journal was lost once, and another transaction has the trade too.
    const [row] = world.rows
    assert(row !== undefined)
    world.rows.push({ ...row, nonce: 1, txHash: '0xother' })
    world.kill()
    await world.step()
    world.refuses = () => LACKS_SHARES
    world.pool.delete(1)
    world.mine()
    await world.steps(3)
    assert.notEqual(world.status(id), 'failed')
    world.refuses = () => undefined
    world.automine = true
    await world.steps(5)
    assert.equal(world.status(id), 'confirmed')
    assert.deepEqual(world.saidOf('Contradiction'), [])
  })
})

describe('a trade that a submission cannot deal with', () => {
  for (const [what, error] of [
    ['this process does not understand it', new TypeError('not a number')],
    ['a node refuses the request', new Fault('CHAIN_REFUSED', 'too large', { retryable: false })],
    ['a node never answers about it', AWAY],
  ] as const) {
    it(`does not stop the others when ${what}`, async () => {
      const world = new World({ maxLagMs: 600_000, tradeDeadlineMs: 300_000 })
      const trades = several(world, 9)
      const bad = trades[4]
      world.throws = (ids) => (bad !== undefined && ids.includes(bad) ? error : undefined)
      await world.steps(120)
      for (const id of trades) {
        if (id !== bad) assert.equal(world.status(id), 'confirmed', id)
      }
      world.kill()
      const later = several(world, 3)
      await world.steps(120)
      for (const id of later) assert.equal(world.status(id), 'confirmed')
      await world.steps(300)
      assert.equal(world.status(bad!), 'failed')
      assert.deepEqual(world.saidOf('LagChanged'), [])
    })
  }

  it('fails at once and alone when this process does not understand it', async () => {
    const world = new World()
    const trades = several(world, 8)
    const [bad] = trades
    world.throws = (ids) => (ids.includes(bad!) ? new TypeError('not a number') : undefined)
    await world.steps(20)
    assert.deepEqual(
      world.told.filter(({ status }) => status === 'failed'),
      [{ tradeId: bad, status: 'failed', txHash: '', reason: 'Unprocessable: not a number' }],
    )
    assert.equal(world.state.trades.size, 0)
  })

  it('is not sought while the chain is away: the batch stays whole', async () => {
    const world = new World()
    const trades = several(world, 5)
    for (const port of ['submit', 'poll'] as const) world.away.set(port, AWAY)
    await world.steps(100)
    world.away.clear()
    await world.steps(20)
    assert.deepEqual(
      world.rows.map(({ tradeIds }) => tradeIds),
      [trades],
    )
  })
})

describe('a trade that does not settle by its deadline', () => {
  it('fails, says why, and raises an alarm', async () => {
    const world = new World({ tradeDeadlineMs: 60_000 })
    const bad = world.trade()
    world.reverts = () => PANIC
    await world.steps(55)
    assert.equal(world.status(bad), 'matched')
    await world.steps(10)
    const why = 'Reverted: a panic'
    assert.deepEqual(world.saidOf('TradeOverdue'), [{ type: 'TradeOverdue', tradeId: bad, why }])
    assert.equal(world.told.at(-1)?.reason, `DeadlinePassed: ${why}`)
    assert.partialDeepStrictEqual(world.saidOf('TradeEnded'), [{ fault: 'none' }])
    assert.equal(world.state.trades.size, 0)
  })

  it('does not fail by the time in which the chain was away', async () => {
    const world = new World({ tradeDeadlineMs: 60_000 })
    const id = world.trade()
    for (const port of ['submit', 'poll'] as const) world.away.set(port, AWAY)
    await world.steps(600)
    assert.equal(world.status(id), 'matched')
    world.away.clear()
    await world.steps(30)
    assert.equal(world.status(id), 'confirmed')
    assert.deepEqual(world.saidOf('TradeOverdue'), [])
  })

  it('does not fail while it is in a transaction that may still settle it', async () => {
    const world = new World({ tradeDeadlineMs: 60_000 })
    world.automine = false
    const id = world.trade()
    await world.steps(200)
    assert.equal(world.status(id), 'submitted')
    world.automine = true
    await world.steps(5)
    assert.equal(world.status(id), 'confirmed')
  })
})

describe('permits of one owner', () => {
  const OWNER = traderNumbered(99)

  it('are sent one after the other, each once the one before is in a block', async () => {
    const world = new World()
    world.automine = false
    const [second, first, plain] = [
      world.trade({ buyer: OWNER, permit: 8 }),
      world.trade({ buyer: OWNER, permit: 7 }),
      world.trade({ buyer: OWNER }),
    ]
    const other = world.trade({ permit: 0 })
    await world.steps(5)
    assert.deepEqual(
      world.rows.map(({ tradeIds }) => tradeIds),
      [[first, plain, other]],
    )
    world.mine()
    await world.steps(3)
    assert.deepEqual(world.rows[1]?.tradeIds, [second])
    world.automine = true
    await world.steps(5)
    for (const id of [first, second, plain, other]) assert.equal(world.status(id), 'confirmed')
  })

  it('wait for no trade that waits for one of them, when their seller sells on what was just bought', async () => {
    const world = new World({ maxLagMs: 60_000 })
    world.automine = false
    const bought = world.trade({ seller: MAKER, buyer: RESELLER, size: 20 })
    await world.step()
    // The order with the later permit has the better price, so it trades first.
    const second = world.trade({ seller: RESELLER, buyer: OWNER, size: 8, permit: 8 })
    const first = world.trade({ seller: RESELLER, buyer: OWNER, size: 12, permit: 7 })
    world.refuses = (id) => {
      const isThere = world.settledBy.has(keyOf({ tradeId: bought }))
      return !isThere && (id === first || id === second) ? LACKS_SHARES : undefined
    }
    await world.steps(3)
    world.automine = true
    await world.steps(100)
    for (const id of [first, second]) assert.equal(world.status(id), 'confirmed')
    assert.deepEqual(
      world.rows.map(({ tradeIds }) => tradeIds),
      [[bought], [first], [second]],
    )
    assert.deepEqual(world.saidOf('LagChanged'), [])
  })

  it('do not wait in a ring with those of another owner', async () => {
    const world = new World({ maxLagMs: 60_000 })
    const other = traderNumbered(98)
    const [late, otherLate, early, otherEarly] = [
      world.trade({ seller: MAKER, buyer: OWNER, size: 5, permit: 8 }),
      world.trade({ seller: MAKER, buyer: other, size: 5, permit: 8 }),
      world.trade({ seller: other, buyer: OWNER, size: 5, permit: 7 }),
      world.trade({ seller: OWNER, buyer: other, size: 5, permit: 7 }),
    ]
    // Each owner sells what its own later permit buys, to the earlier permit of the other one.
    world.refuses = (id) => (id === early || id === otherEarly ? LACKS_SHARES : undefined)
    await world.step()
    world.refuses = () => undefined
    await world.steps(100)
    for (const id of [late, otherLate, early, otherEarly]) {
      assert.equal(world.status(id), 'confirmed')
    }
    assert.deepEqual(world.saidOf('LagChanged'), [])
  })
})
