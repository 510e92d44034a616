/**
 * A trade fails at once if a side lacks something that older trades do not bring. A trade that makes its whole
 * transaction revert fails alone. No trade waits forever.
 */

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

/** Makes a resale of shares whose purchase is sent, but not mined yet. */
async function resold(size: { readonly bought: number; readonly sold: number }) {
  const world = new World()
  world.automine = false
  const bought = world.trade({ seller: MAKER, buyer: RESELLER, size: size.bought })
  await world.step()
  assert.equal(world.rows.length, 1)
  const sold = world.trade({ seller: RESELLER, buyer: BUYER, size: size.sold })
  return { world, bought, sold }
}

describe('a trade that lacks funds or shares fails at once, unless older unsettled trades may deliver them', () => {
  for (const reason of ['InsufficientAllowance', 'SharesNotApproved', 'CollateralRefused']) {
    it(`a trade refused with ${reason} fails at once, even while older trades of the trader are being settled`, async () => {
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

  it('a trader’s mint with themselves fails at once if older trades bring too little for both payments', async () => {
    const world = new World()
    world.automine = false
    world.trade({ seller: BUYER, size: 2 })
    await world.step()
    const minted = world.trade({ buyer: BUYER, seller: BUYER, size: 3, kind: 'mint' })
    const has = { buyer: 1n, allowance: 9n, seller: 1n, sellerAllowance: 9n }
    const refusal = { reason: 'InsufficientCollateral', fault: 'seller', has } as const
    world.refuses = (id) => (id === minted ? refusal : undefined)
    await world.step()
    assert.deepEqual(world.wayOf(minted), ['failed'])
  })

  it('a trade fails at once if older unsettled trades bring fewer shares than its seller lacks', async () => {
    const { world, sold } = await resold({ bought: 4, sold: 5 })
    world.refuses = (id) => (id === sold ? LACKS_SHARES : undefined)
    await world.step()
    assert.deepEqual(world.wayOf(sold), ['failed'])
  })

  it('a trade waits if older unsettled trades will bring the shares that its seller lacks', async () => {
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

  it('a trade does not wait for its seller’s incoming shares if the buyer’s allowance covers only older trades', async () => {
    const { world, sold } = await resold({ bought: 4, sold: 1 })
    const again = world.trade({ seller: MAKER, buyer: BUYER, size: 1 })
    const third = world.trade({ seller: RESELLER, buyer: BUYER, size: 1 })
    // Each trade costs the buyer one dollar. The allowance is two dollars, so nothing is left for the third trade.
    world.refuses = (id) =>
      id === third ? { ...LACKS_SHARES, has: { buyer: 9n, seller: 0n, allowance: 2n } } : undefined
    await world.step()
    assert.deepEqual([world.status(sold), world.status(again)], ['submitted', 'submitted'])
    assert.deepEqual(world.wayOf(third), ['failed'])
  })

  it('a trade waits for its seller’s incoming shares if the buyer’s allowance also covers the older trades', async () => {
    const { world } = await resold({ bought: 4, sold: 1 })
    const second = world.trade({ seller: RESELLER, buyer: BUYER, size: 1 })
    world.refuses = (id) =>
      id === second ? { ...LACKS_SHARES, has: { buyer: 9n, seller: 0n, allowance: 2n } } : undefined
    await world.step()
    assert.equal(world.status(second), 'matched')
  })

  it('if an older trade fails, a trade that waited for it fails too, even after receiving funds', async () => {
    const { world, bought, sold } = await resold({ bought: 1, sold: 1 })
    world.refuses = (id) => (id === sold ? LACKS_SHARES : undefined)
    await world.steps(3)
    assert.equal(world.status(sold), 'matched')
    const examined = world.submissions.length
    // Now the contract refuses the older trade in its block. The waiting trade could settle, because its seller got
    // shares elsewhere.
    world.refuses = (id) => (id === bought ? LACKS_SHARES : undefined)
    world.automine = true
    await world.steps(5)
    assert.deepEqual(
      [world.wayOf(bought), world.wayOf(sold)],
      [['submitted', 'failed'], ['failed']],
    )
    assert.equal(world.submissions.length, examined, 'nothing is examined again')
  })

  it('if incoming shares cover only one of two trades, the older trade settles and the younger trade fails', async () => {
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

  for (const kind of [undefined, 'merge'] as const) {
    it(`a younger ${kind ?? 'trade'} does not take the shares that an older trade is waiting for`, async () => {
      const { world, sold } = await resold({ bought: 5, sold: 5 })
      world.refuses = (id) => (id === sold && world.mined.size === 0 ? LACKS_SHARES : undefined)
      await world.step()
      const younger = world.trade({ seller: RESELLER, buyer: MAKER, size: 5, kind })
      const other = world.trade()
      await world.steps(2)
      assert.deepEqual(
        [sold, younger, other].map((id) => world.status(id)),
        ['matched', 'matched', 'submitted'],
      )
      world.mine()
      await world.steps(2)
      assert.deepEqual([world.status(sold), world.status(younger)], ['submitted', 'submitted'])
      assert.deepEqual(world.rows.at(-2)?.tradeIds, [sold])
    })
  }

  it('a younger trade does not wait for an older one if the balance covers both', async () => {
    const { world, sold } = await resold({ bought: 5, sold: 5 })
    const has = { buyer: 9n, seller: 0n, allowance: 9n }
    world.refuses = (id) => (id === sold ? { ...LACKS_SHARES, has } : undefined)
    await world.step()
    // The waiting trade needs 3 of the buyer's 9 dollars. The other 6 dollars cover the new trade of size 2, but
    // neither the trade of size 12 nor the mint of size 14.
    const [covered, tooMuch] = [2, 12].map((size) => world.trade({ buyer: BUYER, size }))
    const minted = world.trade({ seller: BUYER, size: 14, kind: 'mint' })
    await world.step()
    assert.deepEqual(
      [sold, covered!, tooMuch!, minted].map((id) => world.status(id)),
      ['matched', 'submitted', 'matched', 'matched'],
    )
  })

  it('a sale does not wait for an older purchase whose shares the seller’s balance already contains', async () => {
    const world = new World()
    world.automine = false
    const bought = world.trade({ seller: MAKER, buyer: RESELLER, size: 5 })
    await world.step()
    // The purchase is mined before the sale is checked, but settlement receives its block only later.
    world.mine()
    const sold = world.trade({ seller: RESELLER, buyer: BUYER, size: 8 })
    world.refuses = (id) =>
      id === sold ? { ...LACKS_SHARES, has: { buyer: 9n, seller: 5n } } : undefined
    world.away.set('poll', AWAY)
    await world.step()
    assert.equal(world.status(sold), 'matched', 'it may be that the purchase is still to come')
    world.away.clear()
    // Whatever its seller does meanwhile.
    world.refuses = () => undefined
    await world.steps(5)
    assert.deepEqual([world.status(bought), world.wayOf(sold)], ['confirmed', ['failed']])
  })

  it('a waiting trade fails if settlement later reads an older trade that takes the awaited shares', async () => {
    const { world, sold } = await resold({ bought: 5, sold: 5 })
    world.refuses = (id) => (id === sold ? LACKS_SHARES : undefined)
    await world.step()
    const matchedAtMs = world.nowMs - 60_000
    const late = world.trade({ seller: RESELLER, buyer: MAKER, size: 5, matchedAtMs })
    await world.steps(2)
    assert.deepEqual([world.status(sold), world.status(late)], ['matched', 'submitted'])
    const examined = world.submissions.length
    world.mine()
    // The seller has got other shares meanwhile, but the waiting trade still fails.
    world.refuses = () => undefined
    await world.steps(3)
    assert.deepEqual([world.status(late), world.status(sold)], ['confirmed', 'failed'])
    const since = world.submissions.length
    assert.equal(since, examined, 'nothing is examined again')
  })

  it('a waiting trade fails if the older trade it waits for fails, even if a later trade brings the shares', async () => {
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

  it('a chain of trades that depend on each other settles from oldest to youngest', async () => {
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

  it('a trade that two transactions contain does not fail while one of them may still settle it', async () => {
    const world = new World()
    world.automine = false
    const id = world.trade()
    await world.step()
    // A second transaction contains the trade too, as after a loss of the journal.
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

describe('if a trade prevents the submission of its batch, only that trade fails', () => {
  for (const [what, error] of [
    ['settlement cannot encode the trade', new TypeError('not a number')],
    ['a node refuses the request', new Fault('CHAIN_REFUSED', 'too large', { retryable: false })],
    ['a node never answers the request', AWAY],
  ] as const) {
    it(`a trade that cannot be submitted because ${what} does not stop other trades`, async () => {
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

  it('a trade with data that settlement cannot encode fails alone and is not retried', async () => {
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

  it('settlement does not split a batch in search of a bad trade while the chain is unreachable', async () => {
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

describe('each trade has a deadline after which it fails', () => {
  it('a trade that misses its deadline fails with its last failure reason and causes an alarm', async () => {
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

  it('time in which the chain is unreachable does not count towards the deadline of a trade', async () => {
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

  it('a trade past its deadline does not fail while a transaction may still settle it', async () => {
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

describe('permits of one owner are sent in the order of their nonces', () => {
  const OWNER = traderNumbered(99)

  it('settlement sends an owner’s second permit only after the transaction with the first permit is mined', async () => {
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

  it('settlement sends an owner’s permits in one transaction if each permit also covers the earlier payments', async () => {
    const world = new World()
    world.automine = false
    const trades = Array.from({ length: 32 }, (_, nonce) =>
      world.trade({ buyer: OWNER, permit: { nonce, value: nonce + 1 } }),
    )
    await world.step()
    assert.deepEqual(
      world.rows.flatMap(({ tradeIds }) => tradeIds),
      trades,
    )
  })

  it('a trade waits for a later transaction if its permit does not cover the owner’s earlier payments', async () => {
    const world = new World()
    world.automine = false
    const [first] = [1, 2, 2].map((value, nonce) =>
      world.trade({ buyer: OWNER, permit: { nonce, value } }),
    )
    await world.step()
    assert.deepEqual(
      world.rows.map(({ tradeIds }) => tradeIds),
      [[first]],
    )
  })

  for (const [what, prepare] of [
    ['settled in a block that is not final', () => {}],
    [
      'refused in a block that is not final',
      (world: World, first: TradeId) => {
        world.foresees = false
        world.refuses = (id) =>
          id === first ? { reason: 'InsufficientAllowance', fault: 'buyer' } : undefined
      },
    ],
    [
      'settled, and a later trade of the same order is not',
      (world: World, first: TradeId) => {
        const { buy, buyOrderHash } = world.trades.get(first)!
        const later = world.trade({ buyer: OWNER, size: 20 })
        world.trades.set(later, { ...world.trades.get(later)!, buy, buyOrderHash })
        world.database.delete(later)
        return later
      },
    ],
  ] as const) {
    it(`a permit need not cover an earlier payment of its owner that was ${what}`, async () => {
      const world = new World()
      world.automine = false
      world.confirmations = 12
      const first = world.trade({ buyer: OWNER, size: 20, permit: { nonce: 0, value: 20 } })
      const later = prepare(world, first)
      await world.step()
      world.mine()
      await world.steps(2)
      if (later !== undefined) world.project()
      // The chain has already used the permit of the first trade, whose payment is 20. So the values of the other
      // permits need not include these 20.
      const trades = Array.from({ length: 31 }, (_, index) =>
        world.trade({ buyer: OWNER, permit: { nonce: index + 1, value: index + 1 } }),
      )
      await world.step()
      assert.deepEqual(world.rows[1]?.tradeIds, later === undefined ? trades : [later, ...trades])
    })
  }

  it('if each wallet pays with two permits in two successive mints, 90 mints settle within the maximum lag', async () => {
    const world = new World({ maxLagMs: 20_000 })
    const wallet = (index: number) => traderNumbered(1_000 + index)
    // Each wallet pays in two successive mints. In the first it is the seller, with permit 0. In the next it is the
    // buyer, with permit 1.
    const mints = Array.from({ length: 90 }, (_, at) =>
      world.trade({
        ...{ buyer: wallet(at), permit: { nonce: 1, value: 2 } },
        ...{ seller: wallet(at + 1), sellerPermit: { nonce: 0, value: 1 } },
      }),
    )
    await world.steps(20)
    for (const id of mints) assert.equal(world.status(id), 'confirmed')
    assert.deepEqual(world.saidOf('LagChanged'), [])
  })

  it('when their seller’s shares arrive, two trades of one buyer settle in the sequence of the permit nonces', async () => {
    const world = new World({ maxLagMs: 60_000 })
    world.automine = false
    const bought = world.trade({ seller: MAKER, buyer: RESELLER, size: 20 })
    await world.step()
    // The buyer's order with permit 8 matches before the order with permit 7. But permits are used in the order of
    // their nonces, so the trade with permit 7 settles first.
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

  it('trades of two owners whose permits and shares depend on each other settle without a deadlock', async () => {
    const world = new World({ maxLagMs: 60_000 })
    const other = traderNumbered(98)
    const [late, otherLate, early, otherEarly] = [
      world.trade({ seller: MAKER, buyer: OWNER, size: 5, permit: 8 }),
      world.trade({ seller: MAKER, buyer: other, size: 5, permit: 8 }),
      world.trade({ seller: other, buyer: OWNER, size: 5, permit: 7 }),
      world.trade({ seller: OWNER, buyer: other, size: 5, permit: 7 }),
    ]
    // In each early trade, the buyer uses permit 7. The seller gets its shares only in its own late trade with permit
    // 8, which must settle after permit 7 is used. So each owner waits for the other.
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
