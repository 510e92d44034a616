/** Decisions of settlement without a chain: all ports answer from tables in the test. */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TradeId } from '#domain/ids.ts'
import { reject } from '#domain/rejection.ts'
import { statusOf } from '#services/settlement/lag.ts'
import type { SettlementState } from '#services/settlement/state.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import {
  AWAY,
  hashOf,
  keyOf,
  marketNumbered,
  type Port,
  type Refusal,
  traderNumbered,
  turnOver,
  World,
} from './settlement-fixture.ts'

const LACKS_SHARES: Refusal = { reason: 'InsufficientShares', fault: 'seller' }
const POOR: Refusal = { reason: 'InsufficientCollateral', fault: 'buyer' }

function several(world: World, count: number): TradeId[] {
  return Array.from({ length: count }, () => world.trade())
}

/** Asserts that nothing is in flight and all reports are sent. */
function assertIdle(state: SettlementState): void {
  assert.deepEqual(
    [
      state.trades.size,
      state.flight.batches.size,
      state.queue.tradeIds.length,
      state.queue.groups.length,
      state.reports.inFlight,
    ],
    [0, 0, 0, 0, 0],
  )
}

/** Settlement reads and polls by itself only once an hour. */
const HOURLY = { readEveryMs: 3_600_000, pollEveryMs: 3_600_000 }

describe('settlement receives notices about new trades', () => {
  it('after a notice about a new trade, settlement sends the trade without waiting for the next regular read', async () => {
    const world = new World(HOURLY)
    await world.step()
    const id = world.trade()
    await world.steps(3)
    assert.deepEqual(world.submissions, [])
    await world.written()
    assert.deepEqual(world.submissions, [[id]])
    assert.deepEqual(world.wayOf(id), ['submitted'])
  })

  it('if a notice about new trades arrives during a read, settlement reads again', async () => {
    const world = new World(HOURLY)
    await world.step()
    world.byHand = true
    const first = world.trade()
    void world.written()
    await turnOver()
    const [reading] = world.pending.splice(0)
    reading?.run()
    const second = world.trade()
    void world.written()
    world.byHand = false
    await turnOver()
    await world.steps(2, 100)
    assert.deepEqual(world.submissions.flat(), [first, second])
  })

  it('a notice about new trades is not lost when a read fails', async () => {
    const world = new World(HOURLY)
    await world.step()
    const id = world.trade()
    world.away.set('readPending', AWAY)
    await world.written()
    world.away.clear()
    await world.steps(2)
    assert.deepEqual(world.submissions, [[id]])
  })

  it('a hundred notices about new trades in quick succession cause only two reads', async () => {
    const world = new World(HOURLY)
    await world.steps(2)
    const before = world.asked.get('readPending') ?? 0
    for (let told = 0; told < 100; told++) await world.written()
    await world.steps(10, 10)
    assert.equal((world.asked.get('readPending') ?? 0) - before, 2)
  })
})

describe('settlement sends trades in batches', () => {
  it('trades that wait at the same time share one transaction, and their markets receive each status', async () => {
    const world = new World()
    const trades = several(world, 3)
    await world.steps(4)
    assert.deepEqual(world.submissions, [trades])
    for (const id of trades) assert.deepEqual(world.wayOf(id), ['submitted', 'confirmed'])
    assert(world.told.every(({ txHash }) => txHash === hashOf(0)))
    assert.deepEqual(world.acknowledged, [0])
    assertIdle(world.state)
    assert.deepEqual(world.saidOf('BatchSent'), [{ type: 'BatchSent', trades: 3 }])
    assert.partialDeepStrictEqual(world.saidOf('BatchEnded'), [{ settled: 3, rejected: 0 }])
    assert.equal(world.saidOf('TradeEnded').length, 3)
  })

  it('settlement sends full batches of the oldest trades at once, and the last partial batch after batchWaitMs', async () => {
    const world = new World({ batchMax: 2, batchWaitMs: 5_000 })
    const trades = several(world, 5)
    await world.steps(3)
    assert.deepEqual(world.submissions, [trades.slice(0, 2), trades.slice(2, 4)])
    await world.step()
    assert.equal(world.submissions.length, 2)
    await world.steps(3)
    assert.deepEqual(world.submissions[2], trades.slice(4))
    assertIdle(world.state)
  })

  it('a trade that arrives while a batch waits is added to that batch', async () => {
    const world = new World({ batchWaitMs: 5_000 })
    const first = world.trade()
    await world.steps(3)
    const second = world.trade()
    await world.steps(2)
    assert.deepEqual(world.submissions, [])
    await world.steps(2)
    assert.deepEqual(world.submissions, [[first, second]])
  })

  it('settlement has at most inFlightMax transactions that are in no block yet', async () => {
    const world = new World({ batchMax: 1, inFlightMax: 2 })
    world.automine = false
    several(world, 4)
    await world.steps(5)
    assert.equal(world.rows.length, 2)
    world.mine()
    await world.step()
    assert.equal(world.rows.length, 4)
  })

  it('a trade has the status submitted until its transaction has enough confirmations', async () => {
    const world = new World()
    world.confirmations = 2
    const id = world.trade()
    await world.steps(3)
    assert.deepEqual(world.wayOf(id), ['submitted'])
    assert.deepEqual(statusOf(world.state).inFlight, 1)
    world.mine()
    world.mine()
    await world.steps(2)
    assert.deepEqual(world.wayOf(id), ['submitted', 'confirmed'])
  })

  it('settlement sends an order’s permit with the order’s trades until the permit is used', async () => {
    const world = new World()
    const id = world.trade({ permit: true })
    await world.steps(3)
    world.trade()
    await world.steps(2)
    assert.deepEqual(world.permits, [[], [world.trades.get(id)?.buyOrderHash]])
  })

  it('a transaction with raised fees is reported under its new hash', async () => {
    const world = new World()
    world.automine = false
    const id = world.trade()
    await world.step()
    const [row] = world.rows
    assert(row !== undefined)
    row.txHash = hashOf(77)
    world.news.push('replaced')
    await world.step()
    assert.deepEqual(
      world.told.map(({ status, txHash }) => [status, txHash]),
      [
        ['submitted', hashOf(0)],
        ['submitted', hashOf(77)],
      ],
    )
    world.mine()
    await world.steps(2)
    assert.equal(world.told.at(-1)?.txHash, hashOf(77))
    assert.equal(world.markets.get(id)?.attempts, 2)
  })

  it('settlement sends the trades of a cancelled transaction again in a new transaction', async () => {
    const world = new World()
    world.automine = false
    const trades = several(world, 2)
    await world.step()
    const [row] = world.rows
    assert(row !== undefined)
    row.blank = true
    world.mine()
    await world.step()
    world.automine = true
    await world.steps(3)
    assert.deepEqual(world.submissions, [trades, trades])
    for (const id of trades) assert.equal(world.status(id), 'confirmed')
    assert.deepEqual(world.acknowledged, [0, 1])
    assertIdle(world.state)
  })

  it('a trade that has just ended is not sent again while the database lags behind', async () => {
    const world = new World()
    const id = world.trade()
    world.projecting = false
    await world.steps(30)
    assert.deepEqual(world.submissions, [[id]])
    assert.equal(world.status(id), 'confirmed')
    assertIdle(world.state)
    // A minute after the trade has ended, settlement forgets it and submits it again. The contract answers that the
    // trade is settled. So settlement sends no transaction and no report.
    await world.steps(60)
    assert.equal(world.submissions.length, 2)
    assert.equal(world.rows.length, 1, 'what has settled is not sent again')
    assert.deepEqual(world.wayOf(id), ['submitted', 'confirmed'])
    assertIdle(world.state)
  })

  for (const away of [undefined, 'readPending'] as const) {
    const how = away === undefined ? 'behind' : 'unreachable and then behind'
    it(`a failed trade is not sent again, even if the database is ${how} for a long time`, async () => {
      const world = new World()
      const bad = world.trade()
      world.projecting = false
      world.refuses = () => POOR
      await world.steps(3)
      assert.equal(world.status(bad), 'failed')
      world.refuses = () => undefined
      if (away !== undefined) world.away.set(away, AWAY)
      await world.steps(120)
      world.away.clear()
      const good = world.trade()
      await world.steps(20)
      assert.equal(world.status(good), 'confirmed')
      assert.deepEqual([...world.settledBy.keys()], [keyOf({ tradeId: good })])
      assertIdle(world.state)
    })
  }

  it('a trade matched after the start of settlement is sent without a query to its market', async () => {
    const world = new World()
    await world.step()
    await world.step(3_600_000)
    world.knows = () => assert.fail('it was asked')
    const id = world.trade()
    await world.steps(4)
    assert.equal(world.status(id), 'confirmed')
  })
})

describe('trades that revert or whose market is not on chain do not block other trades', () => {
  it('settlement halves a reverting batch until the bad trade is alone, and settles the other trades', async () => {
    const world = new World({ inFlightMax: 1 })
    const trades = several(world, 8)
    const bad = trades[5]
    assert(bad !== undefined)
    world.reverts = (ids) => (ids.includes(bad) ? { name: 'Panic', words: 'a panic' } : undefined)
    await world.steps(12)
    assert.deepEqual(
      world.saidOf('BatchReverts').slice(0, 4),
      [8, 4, 2, 1].map((size) => ({ type: 'BatchReverts', trades: size, why: 'a panic' })),
    )
    for (const id of trades) assert.equal(world.status(id) === 'confirmed', id !== bad, id)
    assert.deepEqual(world.wayOf(bad), [], 'it is not failed, it is nobody’s fault')
    world.reverts = () => undefined
    await world.step(600_000)
    await world.steps(3)
    assert.equal(world.status(bad), 'confirmed')
    assertIdle(world.state)
  })

  it('settlement also halves a batch that reverts on chain after a successful simulation', async () => {
    const world = new World()
    world.automine = false
    const trades = several(world, 3)
    const [bad] = trades
    await world.step()
    world.reverts = (ids) => (bad !== undefined && ids.includes(bad) ? PANIC : undefined)
    world.mine()
    world.automine = true
    await world.steps(6)
    assert.deepEqual(
      trades.map((id) => world.status(id)),
      ['submitted', 'confirmed', 'confirmed'],
    )
    assert.partialDeepStrictEqual(world.saidOf('BatchEnded')[0], { outcome: 'reverted' })
  })

  it('while the settlement contract is paused, all trades wait in one batch, and the status names the reason', async () => {
    const world = new World()
    const trades = several(world, 4)
    world.reverts = () => ({ name: 'EnforcedPause', words: 'it is paused' })
    await world.steps(6)
    assert.deepEqual(world.submissions, [trades, trades, trades])
    assert.equal(statusOf(world.state).why, 'it is paused')
    world.reverts = () => undefined
    await world.steps(4)
    assert.equal(statusOf(world.state).why, '')
    for (const id of trades) assert.equal(world.status(id), 'confirmed')
  })

  it('settlement stops reading trades of a market that is not on chain, but settles other trades', async () => {
    const world = new World()
    const late = marketNumbered(2)
    world.unknownMarkets.add(late)
    const [waits, goes] = [world.trade({ market: 2 }), world.trade()]
    await world.steps(2, 500)
    assert.equal(world.status(goes), 'confirmed')
    assert.equal(statusOf(world.state).waiting, 1)
    const later = world.trade({ market: 2 })
    await world.step(100)
    assert(!world.state.trades.has(later), 'what cannot be sent is left in the database')
    world.unknownMarkets.clear()
    await world.steps(4)
    for (const id of [waits, later]) assert.equal(world.status(id), 'confirmed')
  })

  it('trades of a market that a reorg removed wait until the market is on chain again', async () => {
    const world = new World()
    world.automine = false
    const id = world.trade({ market: 2 })
    await world.step()
    world.unknownMarkets.add(marketNumbered(2))
    world.mine()
    await world.step()
    assert.equal(statusOf(world.state).waiting, 1)
    world.unknownMarkets.clear()
    world.automine = true
    await world.steps(4)
    assert.equal(world.status(id), 'confirmed')
  })

  it('a trade of a market that is never created on chain fails once its orders can no longer settle', async () => {
    const world = new World()
    world.unknownMarkets.add(marketNumbered(2))
    const id = world.trade({ market: 2, expiresInSec: 60 })
    await world.steps(3)
    await world.step(60_000)
    assert.equal(world.status(id), 'matched', 'the contract’s grace is not over')
    await world.step(3_600_000)
    await world.steps(3)
    assert.deepEqual(world.wayOf(id), ['failed'])
    assert.equal(world.told.at(-1)?.reason, 'MarketUnknown')
    assertIdle(world.state)
  })
})

const PANIC = { name: 'Panic', words: 'a panic' }

describe('if the contract refuses a trade, the trade fails', () => {
  for (const fault of ['buyer', 'seller', 'both'] as const) {
    for (const foresees of [true, false]) {
      const when = foresees ? 'in the simulation' : 'only on chain'
      it(`a trade refused ${when} fails alone, with the reason of the contract and fault ${fault}`, async () => {
        const world = new World()
        world.foresees = foresees
        const reports: unknown[] = []
        world.answers = ({ status, reason, fault: side, txHash, size }) => {
          if (status === 'failed') reports.push({ reason, side, txHash, size })
          return undefined
        }
        const [good, bad] = several(world, 2)
        assert(good !== undefined && bad !== undefined)
        world.refuses = (id) => (id === bad ? { reason: 'Refused', fault } : undefined)
        await world.steps(4)
        assert.equal(world.status(good), 'confirmed')
        assert.deepEqual(world.wayOf(bad), foresees ? ['failed'] : ['submitted', 'failed'])
        const txHash = foresees ? '' : hashOf(0)
        assert.deepEqual(reports, [{ reason: 'Refused', side: fault, txHash, size: 1 }])
        assert.deepEqual(
          world.rows.map(({ tradeIds }) => tradeIds),
          [foresees ? [good] : [good, bad]],
          'it is not sent again',
        )
        const wastedGas = foresees ? 0 : world.gasUsed / 2
        assert.partialDeepStrictEqual(
          world.saidOf('TradeEnded').find(({ status }) => status === 'failed'),
          { reason: 'Refused', fault, wastedGas },
        )
        assertIdle(world.state)
      })
    }
  }

  for (const foresees of [true, false]) {
    const when = foresees ? 'in the simulation' : 'only on chain'
    it(`if a trade of expired orders is refused ${when}, the trade fails and neither side is at fault`, async () => {
      const world = new World()
      world.foresees = foresees
      const faults: string[] = []
      world.answers = ({ status, fault }) => {
        if (status === 'failed') faults.push(fault)
        return undefined
      }
      const id = world.trade({ expiresInSec: 60 })
      world.refuses = () => ({ reason: 'OrderExpired', fault: 'both' })
      // The exchange was away.
      world.nowMs += 7_200_000
      await world.steps(4)
      assert.equal(world.status(id), 'failed')
      assert.equal(world.told.at(-1)?.reason, 'OrderExpired')
      assert.deepEqual(faults, ['none'])
      assertIdle(world.state)
    })
  }

  it('many refused trades fail together, and no transaction is sent for them', async () => {
    const world = new World()
    const trades = several(world, 200)
    world.refuses = () => POOR
    await world.steps(4)
    for (const id of trades) assert.deepEqual(world.wayOf(id), ['failed'])
    assert.equal(world.rows.length, 0)
    assertIdle(world.state)
  })

  it('a trade whose funds come from an older trade does not fail before the older trade is mined', async () => {
    const world = new World()
    world.automine = false
    const [maker, reseller, buyer] = [101, 102, 103].map(traderNumbered)
    assert(maker !== undefined && reseller !== undefined && buyer !== undefined)
    const bought = world.trade({ seller: maker, buyer: reseller })
    await world.step()
    const resold = world.trade({ seller: reseller, buyer })
    const other = world.trade()
    world.refuses = (id) => {
      if (id === other) return POOR
      const isEmpty = id === resold && !world.settledBy.has(keyOf({ tradeId: bought }))
      return isEmpty ? { reason: 'InsufficientShares', fault: 'seller' } : undefined
    }
    await world.steps(5)
    assert.deepEqual([world.status(resold), world.status(other)], ['matched', 'failed'])
    assert.equal(world.rows.length, 1)
    world.automine = true
    await world.steps(5)
    assert.deepEqual([world.status(bought), world.status(resold)], ['confirmed', 'confirmed'])
    assertIdle(world.state)
  })

  it('if the trade that should bring a seller’s shares is being retried, the seller’s sale fails at once', async () => {
    const world = new World({ inFlightMax: 1 })
    const [a, b, c] = [101, 102, 103].map(traderNumbered)
    assert(a !== undefined && b !== undefined && c !== undefined)
    const setBack = world.trade({ seller: a, buyer: b })
    world.reverts = (ids) => (ids.includes(setBack) ? PANIC : undefined)
    await world.steps(2)
    assert.equal(statusOf(world.state).retrying, 1)
    const poor = world.trade({ seller: b, buyer: c })
    world.refuses = (id) => (id === poor ? LACKS_SHARES : undefined)
    await world.steps(2)
    assert.deepEqual([world.status(setBack), world.status(poor)], ['matched', 'failed'])
  })

  it('if the contract refuses a trade without naming a fault, the trade fails with both sides at fault', async () => {
    const world = new World()
    const faults: unknown[] = []
    world.answers = ({ status, fault, txHash }) => {
      if (status === 'failed') faults.push({ fault, txHash })
      return undefined
    }
    const [good, bad] = several(world, 2)
    assert(good !== undefined && bad !== undefined)
    world.refuses = (id) => (id === bad ? { reason: 'WrongSide', fault: 'none' } : undefined)
    await world.steps(3)
    world.refuses = () => undefined
    await world.steps(3_000)
    assert.deepEqual(
      [world.wayOf(good), world.wayOf(bad)],
      [['submitted', 'confirmed'], ['failed']],
    )
    assert.deepEqual(faults, [{ fault: 'both', txHash: '' }])
    assertIdle(world.state)
  })

  it('a trade that reverts even in a batch of its own is retried with growing pauses', async () => {
    const world = new World()
    const [good, bad] = several(world, 2)
    assert(good !== undefined && bad !== undefined)
    world.reverts = (ids) => (ids.includes(bad) ? PANIC : undefined)
    const triedAtSec: number[] = []
    for (let second = 0; second < 70; second++) {
      const before = world.submissions.length
      await world.step()
      if (world.submissions.slice(before).some((ids) => ids.length === 1 && ids[0] === bad)) {
        triedAtSec.push(second)
      }
    }
    const pauses = triedAtSec.slice(1).map((at, index) => at - (triedAtSec[index] ?? 0))
    assert.deepEqual(pauses, [2, 4, 8, 16, 32])
    assert.equal(statusOf(world.state).retrying, 1)
    assert.deepEqual([world.status(good), world.status(bad)], ['confirmed', 'matched'])
    world.reverts = () => undefined
    await world.steps(70)
    assert.equal(world.status(bad), 'confirmed')
    assert.equal(statusOf(world.state).retrying, 0)
  })

  it('a trade refused only on chain fails once its attempts have used the gas limit retryGasMax', async () => {
    const world = new World({ retryGasMax: 250_000 })
    world.foresees = false
    const id = world.trade()
    world.refuses = () => ({ reason: 'CollateralRefused', fault: 'none' })
    await world.steps(100)
    assert.equal(world.status(id), 'failed')
    assert.equal(world.rows.length, 3)
    assertIdle(world.state)
  })

  it('for a refused trade, only its share of the batch’s gas counts towards the limit retryGasMax', async () => {
    const world = new World({ retryGasMax: 50_000 })
    world.foresees = false
    const [bad] = several(world, 4)
    world.refuses = (id) =>
      id === bad ? { reason: 'CollateralRefused', fault: 'none' } : undefined
    await world.steps(100)
    assert.deepEqual(world.submissions.slice(1), [[bad]], '25,000 in the batch, 100,000 alone')
    assert.equal(world.status(bad as TradeId), 'failed')
  })

  it('a trade whose transactions revert on chain fails once the reverts have used the gas limit retryGasMax', async () => {
    const world = new World({ retryGasMax: 300_000 })
    const id = world.trade()
    let sent = 0
    // Every simulation of the transaction succeeds, but its block makes it revert.
    world.reverts = () => (++sent % 2 === 0 ? { name: 'Panic', words: 'it panics' } : undefined)
    await world.steps(100)
    assert.equal(world.status(id), 'failed')
    assert.equal(world.rows.length, 3)
    assertIdle(world.state)
  })

  it('a trade that is being retried fails once its orders can no longer settle', async () => {
    const world = new World()
    world.reverts = () => PANIC
    const id = world.trade({ expiresInSec: 60 })
    await world.step(60_000)
    await world.step(3_000)
    assert.equal(world.status(id), 'matched')
    await world.step(3_600_000)
    await world.steps(4)
    assert.deepEqual(world.wayOf(id).at(-1), 'failed')
    assert.equal(world.told.at(-1)?.reason, 'Reverted: a panic')
    assertIdle(world.state)
  })

  it('a trade that another account has settled is confirmed with that account’s transaction', async () => {
    const world = new World()
    const id = world.trade()
    // Another account has settled the trade, and the journal does not have its transaction.
    world.settledBy.set(keyOf({ tradeId: id }), '0xother')
    await world.steps(4)
    assert.equal(world.status(id), 'confirmed')
    assert.equal(world.told.at(-1)?.txHash, '0xother')
    assert.equal(world.rows.length, 0)
    assertIdle(world.state)
  })

  it('if the receipt of a mined transaction lacks one of its trades, settlement sends the trade again', async () => {
    const world = new World()
    world.automine = false
    const id = world.trade()
    await world.step()
    world.mined.set(0, { block: world.blocks, outcome: 'succeeded', verdicts: [] })
    world.pool.clear()
    await world.step()
    world.automine = true
    await world.steps(4)
    assert.deepEqual(world.wayOf(id), ['submitted', 'submitted', 'confirmed'])
    assertIdle(world.state)
  })
})

describe('settlement reports to the markets', () => {
  it('settlement resends a report that a market has not answered', async () => {
    const world = new World()
    const id = world.trade()
    const silence = [
      { unanswered: 'closed' },
      reject('OVERLOADED'),
      reject('OUTCOME_UNKNOWN'),
    ] as const
    let asked = 0
    world.answers = () => silence[asked++]
    await world.step()
    assert.equal(asked, 1)
    await world.step(199)
    assert.equal(asked, 1, 'not at once')
    await world.step(1)
    assert.equal(asked, 2)
    assert.deepEqual(world.acknowledged, [])
    assert.equal(statusOf(world.state).unreported, 1)
    await world.steps(3)
    assert.equal(world.status(id), 'confirmed')
    assert.deepEqual(world.acknowledged, [0])
  })

  it('a newer report about a trade replaces an older report that was not delivered', async () => {
    const world = new World()
    const id = world.trade()
    world.answers = () => ({ unanswered: 'closed' })
    await world.step()
    await world.step(100)
    world.answers = () => undefined
    await world.step(100)
    assert.deepEqual(world.wayOf(id), ['confirmed'])
  })

  it('settlement sends the next report about a trade only after the market answered the previous report', async () => {
    const world = new World()
    const id = world.trade()
    world.byHand = true
    await world.until(() => world.rows.length > 0)
    assert(world.pending.some(({ port }) => port === 'report'))
    // The chain has settled the trade before the market answers the first report.
    for (let looks = 0; looks < 3; looks++) await world.turn(({ port }) => port !== 'report')
    assert.equal(world.pending.filter(({ port }) => port === 'report').length, 1)
    await world.turn()
    await world.turn()
    assert.deepEqual(world.wayOf(id), ['submitted', 'confirmed'])
  })

  it('settlement closes a batch’s transaction in the journal only after all markets acknowledged their trades', async () => {
    const world = new World()
    const [first, second] = [world.trade({ market: 1 }), world.trade({ market: 2 })]
    world.answers = ({ tradeId }) => (tradeId === second ? { unanswered: 'closed' } : undefined)
    await world.steps(5)
    assert.equal(world.status(first), 'confirmed')
    assert.deepEqual(world.acknowledged, [])
    world.answers = () => undefined
    world.away.set('acknowledge', AWAY)
    await world.steps(3)
    assert.equal(world.status(second), 'confirmed')
    assert.equal(world.state.flight.batches.size, 1)
    world.away.clear()
    await world.steps(3)
    assert.deepEqual(world.acknowledged, [0])
    assertIdle(world.state)
  })

  it('settlement logs a contradiction if a market permanently rejects a report', async () => {
    const world = new World()
    world.trade()
    world.answers = ({ status }) => (status === 'confirmed' ? reject('NOT_FOUND') : undefined)
    await world.steps(4)
    assert.match(
      world.saidOf('Contradiction')[0]?.what ?? '',
      /rejects the report that the trade is confirmed: NOT_FOUND/,
    )
    assertIdle(world.state)
  })

  it('settlement logs a contradiction if the chain settles a trade that its market has marked as failed', async () => {
    const world = new World()
    const id = world.trade()
    world.answers = ({ status }) => (status === 'confirmed' ? { status: 'failed' } : undefined)
    await world.steps(4)
    assert.partialDeepStrictEqual(world.saidOf('Contradiction'), [{ tradeId: id }])
    assertIdle(world.state)
  })

  it('if a market has confirmed a trade that then fails, settlement reports a revert before the failure', async () => {
    const world = new World()
    world.foresees = false
    const id = world.trade()
    world.refuses = () => POOR
    world.automine = false
    await world.step()
    // An earlier process saw a block confirm the trade, and was killed. A reorg then removed that block.
    world.markets.get(id)!.status = 'confirmed'
    world.mine()
    await world.steps(3)
    assert.deepEqual(world.wayOf(id), ['submitted', 'reverted', 'failed'])
    assert.deepEqual(world.saidOf('Contradiction'), [])
    assertIdle(world.state)
  })
})

describe('after a kill, settlement resumes its unfinished trades and batches', () => {
  it('after a kill, settlement follows the journal’s open transactions and does not resend their trades', async () => {
    const world = new World()
    world.automine = false
    const trades = several(world, 2)
    world.answers = () => ({ unanswered: 'closed' })
    await world.step()
    world.kill()
    world.answers = () => undefined
    await world.steps(3)
    for (const id of trades) assert.deepEqual(world.wayOf(id), ['submitted'])
    assert.equal(world.submissions.length, 1)
    world.mine()
    await world.steps(3)
    for (const id of trades) assert.deepEqual(world.wayOf(id), ['submitted', 'confirmed'])
    assert.equal(world.rows.length, 1)
    assertIdle(world.state)
  })

  it('after a kill, settlement finishes a batch whose transaction was not closed in the journal', async () => {
    const world = new World()
    const id = world.trade()
    world.away.set('acknowledge', AWAY)
    await world.steps(4)
    assert.equal(world.status(id), 'confirmed')
    world.kill()
    world.away.clear()
    await world.steps(3)
    assert.deepEqual(world.wayOf(id), ['submitted', 'confirmed'], 'its market received nothing new')
    assert.deepEqual(world.acknowledged, [0])
    assert.equal(world.rows.length, 1)
    assertIdle(world.state)
  })

  it('after a kill, settlement does not send a failed trade that the lagging database lists as pending', async () => {
    const world = new World()
    world.projecting = false
    world.refuses = () => POOR
    const bad = world.trade()
    await world.steps(2)
    world.foresees = false
    const sent = world.trade()
    await world.steps(4)
    assert.deepEqual([world.wayOf(bad), world.wayOf(sent)], [['failed'], ['submitted', 'failed']])
    assert.deepEqual(world.acknowledged, [0])
    world.kill()
    world.foresees = true
    world.refuses = () => undefined
    const good = world.trade()
    await world.steps(5)
    assert.equal(world.status(good), 'confirmed')
    assert.deepEqual([...world.settledBy.keys()], [keyOf({ tradeId: good })])
    assert.deepEqual(world.saidOf('Contradiction'), [])
    assertIdle(world.state)
  })

  it('after a kill, a settled trade does not fail although its traders have no funds left', async () => {
    const world = new World()
    const id = world.trade()
    world.projecting = false
    await world.steps(4)
    world.kill()
    world.refuses = () => POOR
    await world.steps(5)
    assert.deepEqual(world.wayOf(id), ['submitted', 'confirmed'])
    assertIdle(world.state)
  })

  it('after a start, settlement does not send an earlier trade until its market has reported the trade’s status', async () => {
    const world = new World({ maxLagMs: 10_000 })
    const [silent, other] = [world.trade({ market: 1 }), world.trade({ market: 2 })]
    world.knows = (id) => (id === silent ? { unanswered: 'closed' } : undefined)
    await world.steps(30)
    assert.deepEqual([world.status(silent), world.status(other)], ['matched', 'confirmed'])
    assert.deepEqual(world.saidOf('LagChanged'), [], 'one market does not stop the others')
    world.knows = () => undefined
    await world.steps(3)
    assert.equal(world.status(silent), 'confirmed')
    assertIdle(world.state)
  })

  it('after a kill, a trade that was sent is looked up on chain before it is sent again', async () => {
    const world = new World()
    const sent = { status: 'submitted', txHash: hashOf(99), attempts: 1 } as const
    const [settled, lost] = [world.trade({ known: sent }), world.trade({ known: sent })]
    world.settledBy.set(keyOf({ tradeId: settled }), hashOf(99))
    world.unconfirmed.add(settled)
    await world.steps(3)
    assert.deepEqual(world.rows[0]?.tradeIds, [lost])
    assert.equal(world.status(settled), 'submitted', 'not for long enough to believe it')
    world.unconfirmed.clear()
    await world.steps(3)
    for (const id of [settled, lost]) assert.equal(world.status(id), 'confirmed')
    assert.equal(world.markets.get(settled)?.txHash, hashOf(99))
    assert.equal(world.rows.length, 1)
    assertIdle(world.state)
  })

  it('after a kill, settlement waits until the journal can be read', async () => {
    const world = new World()
    world.trade()
    world.away.set('recover', AWAY)
    await world.steps(5)
    assert.equal(world.asked.get('readPending'), undefined)
    assert.equal(world.asked.get('poll'), undefined)
    assert(world.saidOf('StepFailed').every(({ step }) => step === 'recover'))
    world.away.clear()
    await world.steps(8)
    assertIdle(world.state)
    assert.equal(world.rows.length, 1)
  })
})

describe('settlement reverts and resends the trades of a batch that a reorg removes', () => {
  it('if a reorg removes a batch closed in the journal, the batch’s trades become reverted and settle again', async () => {
    const world = new World()
    const trades = several(world, 2)
    await world.steps(4)
    world.reorg(0)
    await world.steps(5)
    for (const id of trades) {
      assert.deepEqual(world.wayOf(id), [
        'submitted',
        'confirmed',
        'reverted',
        'submitted',
        'confirmed',
      ])
    }
    assert.equal(world.rows.length, 1)
    assert.deepEqual(world.abandoned, [])
    assert.deepEqual(world.acknowledged, [0, 0])
    assert.deepEqual(world.saidOf('BatchVanished'), [{ type: 'BatchVanished', trades: 2 }])
    assertIdle(world.state)
  })

  it('if a reorg removes a batch open in the journal, the batch’s trades become reverted and settle again', async () => {
    const world = new World()
    const id = world.trade()
    world.away.set('acknowledge', AWAY)
    await world.steps(3)
    world.reorg(0)
    world.away.clear()
    await world.steps(5)
    const way = world.wayOf(id)
    assert.deepEqual(way.slice(0, 3), ['submitted', 'confirmed', 'reverted'])
    assert.equal(way.at(-1), 'confirmed')
    assert.equal(world.rows.length, 1)
    assert.deepEqual(world.acknowledged, [0])
    assertIdle(world.state)
  })

  it('after a reorg, settlement sends nothing until the markets have acknowledged which trades were reverted', async () => {
    const world = new World()
    world.trade()
    await world.steps(4)
    world.reorg(0)
    world.answers = () => ({ unanswered: 'closed' })
    await world.step()
    const [polls, rows] = [world.asked.get('poll'), world.rows.length]
    world.trade()
    await world.steps(5)
    assert.equal(world.asked.get('poll'), polls)
    assert.equal(world.rows.length, rows)
    assert.equal(world.mined.size, 0)
    world.answers = () => undefined
    await world.steps(5)
    assert.equal(world.mined.size, 2)
    assertIdle(world.state)
  })

  it('after a reorg, settlement sends nothing until it has read the trades of the removed batch', async () => {
    const world = new World()
    const id = world.trade()
    await world.steps(4)
    world.reorg(0)
    world.away.set('readTrades', AWAY)
    await world.steps(3)
    assert.equal(world.mined.size, 0)
    assert.equal(world.status(id), 'confirmed')
    world.away.clear()
    await world.steps(6)
    assert.equal(world.status(id), 'confirmed')
    assert(world.wayOf(id).includes('reverted'))
    assertIdle(world.state)
  })

  it('after a reorg, the permits of the removed batch count as unused and are sent again', async () => {
    const world = new World()
    world.foresees = false
    const [good, bad] = [world.trade({ permit: true }), world.trade()]
    const orderHash = world.trades.get(good)?.buyOrderHash
    assert(orderHash !== undefined)
    world.refuses = (id) => (id === bad ? POOR : undefined)
    await world.steps(4)
    assert.deepEqual([world.status(good), world.status(bad)], ['confirmed', 'failed'])
    assert.deepEqual([...world.state.flight.usedPermits], [orderHash])
    world.reorg(0)
    await world.until(() => world.rows.length === 2)
    assert.deepEqual(world.rows[1]?.tradeIds, [good])
    assert.deepEqual(world.permits.at(-1), [], 'no permit is taken for used')
    await world.until(() => world.status(good) === 'confirmed')
    assert.deepEqual([...world.state.flight.usedPermits], [orderHash])
  })

  it('after a reorg, a transaction with a failed trade is cancelled, and its other trades are sent again', async () => {
    const world = new World()
    world.foresees = false
    const [good, bad] = several(world, 2)
    assert(good !== undefined && bad !== undefined)
    world.refuses = (id) => (id === bad ? POOR : undefined)
    await world.steps(4)
    assert.deepEqual([world.status(good), world.status(bad)], ['confirmed', 'failed'])
    world.reorg(0)
    // On the new branch the buyer has funds. So the same transaction, if mined again, would settle the failed trade.
    world.refuses = () => undefined
    await world.steps(8)
    assert.deepEqual(world.abandoned, [0])
    assert.deepEqual(
      world.rows.map(({ blank, tradeIds }) => ({ blank, tradeIds })),
      [
        { blank: true, tradeIds: [good, bad] },
        { blank: false, tradeIds: [good] },
      ],
    )
    assert.deepEqual(world.wayOf(bad), ['submitted', 'failed'])
    assert.equal(world.status(good), 'confirmed')
    assert.equal(world.settledBy.has(keyOf({ tradeId: bad })), false)
    assertIdle(world.state)
  })

  it('a trade refused in a removed block still fails, even if its trader has funds after the reorg', async () => {
    const world = new World()
    world.foresees = false
    world.confirmations = 3
    world.automine = false
    const [good, bad] = several(world, 2)
    assert(good !== undefined && bad !== undefined)
    world.refuses = (id) => (id === bad ? POOR : undefined)
    await world.step()
    world.mine()
    await world.step()
    assert.deepEqual([world.status(good), world.status(bad)], ['submitted', 'submitted'])
    world.reorg(0)
    world.refuses = () => undefined
    world.automine = true
    await world.steps(12)
    assert.deepEqual(
      [world.status(good), world.status(bad), world.faults.get(bad)],
      ['confirmed', 'failed', POOR.fault],
    )
    assert.equal(world.settledBy.has(keyOf({ tradeId: bad })), false)
    assert.deepEqual(world.saidOf('Contradiction'), [])
    assertIdle(world.state)
  })

  it('a failed trade does not settle after a reorg that happens while settlement is stopped', async () => {
    const world = new World()
    world.foresees = false
    const [good, bad] = several(world, 2)
    assert(good !== undefined && bad !== undefined)
    world.refuses = (id) => (id === bad ? POOR : undefined)
    // The markets get the results of both trades. The journal's row stays open, because it cannot be acknowledged.
    world.away.set('acknowledge', AWAY)
    await world.steps(4)
    assert.equal(world.status(bad), 'failed')
    world.kill()
    world.reorg(0)
    world.away.clear()
    world.refuses = () => undefined
    await world.steps(8)
    assert.equal(world.status(bad), 'failed')
    assert.equal(world.settledBy.has(keyOf({ tradeId: bad })), false)
    assert.equal(world.settledBy.has(keyOf({ tradeId: good })), true)
    assertIdle(world.state)
  })
})

describe('settlement recovers after a kill during a reorg', () => {
  it('settlement logs a contradiction if a failed trade settles after a reorg and a kill', async () => {
    const world = new World()
    world.foresees = false
    const id = world.trade()
    world.refuses = () => POOR
    world.away.set('acknowledge', AWAY)
    await world.steps(4)
    assert.equal(world.status(id), 'failed')
    world.kill()
    world.reorg(0)
    world.away.clear()
    world.refuses = () => undefined
    // A node had kept it.
    world.pool.add(0)
    world.mine()
    await world.steps(4)
    assert.partialDeepStrictEqual(world.saidOf('Contradiction'), [{ tradeId: id }])
    assertIdle(world.state)
  })

  it('after a reorg, a failed trade is not settled although the lagging database lists it as submitted', async () => {
    const world = new World()
    world.foresees = false
    const [good, bad] = several(world, 2)
    assert(good !== undefined && bad !== undefined)
    world.refuses = (id) => (id === bad ? POOR : undefined)
    await world.step()
    world.projecting = false
    await world.steps(3)
    assert.equal(world.status(bad), 'failed')
    assert.equal(world.database.get(bad)?.status, 'submitted')
    world.reorg(0)
    world.refuses = () => undefined
    await world.steps(8)
    assert(world.abandoned.includes(0))
    assert.equal(world.status(bad), 'failed')
    assert.equal(world.settledBy.has(keyOf({ tradeId: bad })), false)
    assert.equal(world.settledBy.has(keyOf({ tradeId: good })), true)
    assertIdle(world.state)
  })

  it('if a reorg removes a confirmed trade while settlement is down, the trade is reverted and confirmed again', async () => {
    const world = new World()
    const id = world.trade()
    world.away.set('acknowledge', AWAY)
    await world.steps(4)
    assert.equal(world.status(id), 'confirmed')
    world.kill()
    world.reorg(0)
    world.rows[0]!.blank = true
    world.away.clear()
    await world.steps(6)
    const again = ['reverted', 'submitted', 'confirmed'] as const
    assert.deepEqual(world.wayOf(id), ['submitted', 'confirmed', ...again])
    assert.deepEqual(world.acknowledged, [0, 1])
    assertIdle(world.state)
  })

  it('settlement keeps a reverted batch open in the journal until the market has acknowledged the reverted trade', async () => {
    const world = new World()
    world.trade()
    world.away.set('acknowledge', AWAY)
    await world.steps(4)
    world.kill()
    world.reorg(0)
    world.rows[0]!.blank = true
    world.away.clear()
    world.away.set('submit', AWAY)
    world.answers = ({ status }) => (status === 'reverted' ? { unanswered: 'closed' } : undefined)
    await world.steps(5)
    assert.deepEqual(world.acknowledged, [])
  })

  it('a trade that two transactions contain fails only if neither transaction settles it', async () => {
    const world = new World()
    world.foresees = false
    world.automine = false
    const id = world.trade()
    await world.step()
    const [row] = world.rows
    assert(row !== undefined)
    world.rows.push({ ...row, nonce: 1, txHash: hashOf(1) })
    world.kill()
    await world.step()
    world.pool.delete(1)
    world.refuses = () => POOR
    world.mine()
    world.away.set('submit', AWAY)
    await world.step()
    world.refuses = () => undefined
    world.mine()
    await world.steps(3)
    assert.equal(world.status(id), 'confirmed')
    assert(!world.wayOf(id).includes('failed'))
    assertIdle(world.state)
  })

  it('a reverted batch whose only trade has already failed does not block other batches', async () => {
    const world = new World()
    world.automine = false
    world.projecting = false
    const id = world.trade()
    await world.step()
    world.reverts = () => PANIC
    world.mine()
    world.markets.get(id)!.status = 'failed'
    world.kill()
    await world.steps(2)
    world.project()
    world.reverts = () => undefined
    world.automine = true
    const next = world.trade()
    await world.steps(4)
    assert.equal(world.status(next), 'confirmed')
    assertIdle(world.state)
  })

  it('a late acknowledgement does not end a batch that a reorg has reopened', async () => {
    const world = new World()
    const id = world.trade()
    world.byHand = true
    const isClosing = ({ port }: { port: Port }) => port === 'acknowledge'
    await world.until(
      () => world.pending.some(isClosing),
      (call) => !isClosing(call),
    )
    world.reorg(0)
    world.automine = false
    await world.until(
      () => world.wayOf(id).filter((status) => status === 'submitted').length === 2,
      (call) => !isClosing(call),
    )
    await world.turn()
    world.automine = true
    await world.until(() => world.rows[0]?.closed === true && world.state.flight.batches.size === 0)
    assert.equal(world.status(id), 'confirmed')
    assertIdle(world.state)
  })
})

describe('settlement measures its lag', () => {
  const lags = (world: World) => world.saidOf('LagChanged').map(({ behind }) => behind)

  it('settlement reports that it is behind when a trade that it could settle is older than maxLagMs', async () => {
    const world = new World({ maxLagMs: 10_000 })
    world.trade()
    world.away.set('submit', AWAY)
    await world.steps(11)
    assert.deepEqual(lags(world), [true])
    assert.equal(world.state.lag.behind, true)
    assert.equal(statusOf(world.state).why, AWAY.message)
    world.away.clear()
    await world.steps(20)
    assert.deepEqual(lags(world), [true, false])
    assert.equal(world.state.lag.oldestMs, 0)
  })

  it('trades in markets not on chain, or with undelivered reports, do not count towards the settlement lag', async () => {
    const world = new World({ maxLagMs: 10_000 })
    world.unknownMarkets.add(marketNumbered(2))
    world.trade({ market: 2 })
    world.trade()
    world.answers = () => ({ unanswered: 'closed' })
    await world.steps(20, 900)
    world.trade({ market: 2 })
    await world.steps(20, 900)
    assert.deepEqual(lags(world), [], 'nor while its market is looked for again')
    assert.equal(statusOf(world.state).unreported, 1)
    world.unknownMarkets.clear()
    world.away.set('submit', AWAY)
    await world.steps(10)
    assert.deepEqual(lags(world), [], 'its time counts from then on')
    await world.steps(5)
    assert.deepEqual(lags(world), [true])
  })

  it('a trade that makes its batch revert does not count towards the settlement lag, but others do', async () => {
    const world = new World({ maxLagMs: 10_000 })
    const bad = world.trade()
    world.reverts = (ids) => (ids.includes(bad) ? PANIC : undefined)
    await world.steps(900)
    assert.deepEqual(lags(world), [])
    assert.equal(world.status(bad), 'matched')
    assert(world.state.lag.oldestMs >= 899_000, 'the oldest trade is still told')
    const good = world.trade()
    world.away.set('submit', AWAY)
    await world.steps(12)
    assert.deepEqual(lags(world), [true])
    world.away.clear()
    await world.steps(20)
    assert.equal(world.status(good), 'confirmed')
    assert.deepEqual(lags(world), [true, false])
  })

  it('trades that are sent but not mined make settlement count as behind, even after a restart', async () => {
    const world = new World({ maxLagMs: 10_000 })
    world.automine = false
    world.trade()
    await world.steps(5)
    world.kill()
    await world.steps(7)
    assert.deepEqual(lags(world), [true])
  })

  it('an old trade in a market that was never on chain does not make settlement count as behind', async () => {
    const world = new World({ maxLagMs: 10_000 })
    world.unknownMarkets.add(marketNumbered(2))
    world.trade({ market: 2, matchedAtMs: world.nowMs - 60_000 })
    await world.steps(20, 300)
    assert.deepEqual(lags(world), [])
  })

  it('settlement is behind when the database cannot be read for longer than maxLagMs', async () => {
    const world = new World({ maxLagMs: 10_000 })
    await world.steps(3)
    world.away.set('readPending', AWAY)
    await world.steps(9)
    assert.deepEqual(lags(world), [])
    await world.steps(5)
    assert.deepEqual(lags(world), [true])
    world.away.clear()
    await world.steps(20)
    assert.deepEqual(lags(world), [true, false])
  })

  it('without a maximum lag, settlement never counts as behind', async () => {
    const world = new World()
    world.trade()
    world.away.set('submit', AWAY)
    await world.steps(5, 1_000_000)
    assert.deepEqual(lags(world), [])
  })

  it('settlement reports a wrong setting if the maximum lag is not below the contract’s grace period', async () => {
    const world = new World({ maxLagMs: 10_000 })
    world.graceSec = 10
    await world.steps(2)
    assert.match(
      statusOf(world.state).why,
      /grace period of the settlement contract is 10 s, but it must be above SIBYL_SETTLEMENT_MAX_LAG_SECONDS/,
    )
  })
})

describe('settlement retries after outages', () => {
  it('after each failed attempt of a step, settlement doubles the pause before the next, up to 15 seconds', async () => {
    const world = new World()
    world.away.set('poll', AWAY)
    const failedAtMs: number[] = []
    for (let ms = 0; ms < 70_000; ms += 50) {
      const before = world.saidOf('StepFailed').length
      await world.step(50)
      if (world.saidOf('StepFailed').length > before) failedAtMs.push(ms)
    }
    assert.deepEqual(
      failedAtMs.slice(1).map((at, index) => at - (failedAtMs[index] ?? 0)),
      [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000],
    )
    assert.equal(statusOf(world.state).why, AWAY.message)
    world.away.clear()
    await world.steps(16)
    assert.equal(statusOf(world.state).why, '')
  })

  it('settlement sends each trade exactly once after outages of the chain, the database and the journal', async () => {
    const world = new World({ batchMax: 2 })
    const trades = several(world, 5)
    for (const port of ['submit', 'poll', 'readPending', 'acknowledge'] as const) {
      world.away.set(port, AWAY)
      await world.steps(3, 5_000)
      assert(world.saidOf('StepFailed').length > 0, port)
      world.away.clear()
      await world.step(15_000)
      world.said.length = 0
      trades.push(world.trade())
    }
    await world.steps(5)
    for (const id of trades) assert.deepEqual(world.wayOf(id), ['submitted', 'confirmed'])
    assert.equal(world.rows.flatMap(({ tradeIds }) => tradeIds).length, trades.length)
    assertIdle(world.state)
  })

  it('settlement’s status names the problem that the transaction sender reports', async () => {
    const world = new World()
    world.trouble = 'its key has no ether'
    await world.step()
    assert.equal(statusOf(world.state).why, 'its key has no ether')
  })
})

const STORIES = 60
const STORY_STEPS = 500
const STORY_TRADES = 14
/** Ports whose answers may be lost although their work was done. Answers to polls and sends are never lost. */
const MAY_BE_LOST: readonly Port[] = ['report', 'acknowledge', 'readPending', 'readTrades']
const REFUSALS: readonly (Refusal | undefined)[] = [
  undefined,
  undefined,
  undefined,
  POOR,
  { reason: 'InsufficientShares', fault: 'seller' },
  { reason: 'Expired', fault: 'both' },
  { reason: 'Paused', fault: 'none' },
]

/**
 * A random run with faults. Requests are answered late, in any order, or not at all. Reorgs remove blocks, and the new
 * branch may settle other trades. Settlement is killed at any step.
 */
class Story {
  readonly world: World
  readonly random: Random
  readonly refusals = new Map<TradeId, Refusal | undefined>()
  /** Trade that makes every batch with it revert as a whole. */
  poison: TradeId | undefined
  kills = 0
  reorgs = 0

  constructor(random: Random) {
    this.random = random
    this.world = new World({
      batchMax: random.int(1, 5),
      inFlightMax: random.int(1, 3),
      batchWaitMs: random.pick([0, 2_000]),
      readEveryMs: random.pick([0, 1_000]),
      pollEveryMs: random.pick([0, 1_000]),
      maxLagMs: random.pick([0, 20_000]),
    })
    const { world } = this
    world.byHand = true
    world.automine = false
    world.projecting = false
    world.confirmations = random.int(0, 2)
    world.foresees = random.chance(0.5)
    world.refuses = (id) => this.refusals.get(id)
    world.reverts = (ids) =>
      this.poison !== undefined && ids.includes(this.poison) ? PANIC : undefined
    if (random.chance(0.3)) world.unknownMarkets.add(marketNumbered(2))
  }

  step(): void {
    const { world, random } = this
    const chance = random.next()
    if (chance < 0.05) this.#trade()
    else if (chance < 0.25) {
      world.nowMs += random.int(1, random.chance(0.05) ? 90_000 : 3_000)
      world.tick()
    } else if (chance < 0.75) this.#answer()
    else if (chance < 0.9) world.mine()
    else if (chance < 0.92) world.pool.delete(random.int(0, world.rows.length))
    else if (chance < 0.94) this.#reorg()
    else if (chance < 0.96) world.project()
    else if (chance < 0.97) world.unknownMarkets.clear()
    else if (chance < 0.98) this.poison = random.pick([undefined, ...world.trades.keys()])
    else this.#kill()
  }

  #trade(): void {
    const { world, random, refusals } = this
    if (world.trades.size >= STORY_TRADES) return
    const id = world.trade({ market: random.int(1, 2), expiresInSec: 10_000_000 })
    refusals.set(id, random.pick(REFUSALS))
  }

  #answer(): void {
    const { world, random } = this
    const [call] = world.pending.splice(random.int(0, world.pending.length - 1), 1)
    if (call === undefined) return
    const chance = random.next()
    if (chance < 0.1) call.fail(AWAY)
    else if (chance < 0.2 && MAY_BE_LOST.includes(call.port)) call.lose()
    else call.run()
  }

  #reorg(): void {
    const { world, random, refusals } = this
    if (world.mined.size === 0) return
    world.reorg(random.int(0, world.mined.size - 1))
    this.reorgs++
    // On the new branch some traders have other funds.
    for (const id of refusals.keys()) {
      if (random.chance(0.3)) refusals.set(id, random.pick(REFUSALS))
    }
  }

  #kill(): void {
    this.world.kill(() => this.random.chance(0.5))
    this.kills++
    // A reorg may bring back any submitted trade. So the database gets the newest status of these trades.
    this.world.project(({ attempts }) => attempts > 0)
  }

  /** The bad days are over. */
  async end(): Promise<void> {
    const { world, refusals } = this
    world.byHand = false
    world.automine = true
    world.projecting = true
    world.confirmations = 0
    world.unknownMarkets.clear()
    this.poison = undefined
    for (const [id, refusal] of refusals) if (refusal?.fault === 'none') refusals.delete(id)
    world.project()
    for (const call of world.pending.splice(0)) call.run()
    const isOpen = () =>
      world.state.trades.size + world.state.flight.batches.size > 0 ||
      [...world.markets.values()].some(({ status }) => !isDecided(status))
    // Retried trades wait for up to ten minutes.
    for (let steps = 0; steps < 200 && (steps < 10 || isOpen()); steps++) await world.step(15_000)
  }

  /** Asserts that each trade settled once or failed once, and that its market knows. */
  audit(): void {
    const { world } = this
    assertIdle(world.state)
    assert.deepEqual(world.saidOf('Contradiction'), [])
    assert(world.rows.every(({ closed }) => closed))
    for (const [id, { status, txHash }] of world.markets) {
      const settledBy = world.settledBy.get(keyOf({ tradeId: id }))
      assert(isDecided(status), `${id} is ${status}: forgotten`)
      assert.equal(settledBy !== undefined, status === 'confirmed', `${id} is ${status}`)
      // The market has the hash of some transaction that contains the trade. After an unnoticed reorg, another
      // transaction may have settled the trade.
      const row = world.rows.find((each) => each.txHash === txHash)
      if (status === 'confirmed') assert(row?.tradeIds.includes(id), `${id} by ${txHash}`)
      const way = world.wayOf(id)
      const times = (wanted: string) => way.filter((each) => each === wanted).length
      assert.equal(times('confirmed') - times('reverted'), status === 'confirmed' ? 1 : 0, `${way}`)
      assert.equal(times('failed'), status === 'failed' ? 1 : 0, `${way}`)
      assert.equal(way.at(-1), status)
    }
  }
}

function isDecided(status: string): boolean {
  return status === 'confirmed' || status === 'failed'
}

describe('settlement decides each trade exactly once despite random faults and kills', () => {
  it('under random faults and kills each trade either settles once or fails once, and its market is notified', async (t) => {
    const first = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
    t.diagnostic(`TEST_SEED=${first}`)
    const sum = { trades: 0, failed: 0, kills: 0, reorgs: 0, transactions: 0 }
    for (let seed = first; seed < first + STORIES; seed++) {
      const story = new Story(randomFrom(seed))
      try {
        for (let step = 0; step < STORY_STEPS; step++) {
          story.step()
          await turnOver()
        }
        await story.end()
        story.audit()
      } catch (error) {
        if (error instanceof Error) error.message = `TEST_SEED=${seed}: ${error.message}`
        throw error
      }
      const { world, kills, reorgs } = story
      sum.trades += world.trades.size
      sum.failed += world.told.filter(({ status }) => status === 'failed').length
      sum.kills += kills
      sum.reorgs += reorgs
      sum.transactions += world.rows.length
    }
    t.diagnostic(JSON.stringify(sum))
    assert(sum.failed > 0 && sum.kills > 0 && sum.reorgs > 0)
  })
})
