/** Tests what settlement still knows about a trade after a kill: its deadline, its gas, and its refusal by a block. */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Refusal, World } from './settlement-fixture.ts'

const LACKS_SHARES: Refusal = { reason: 'InsufficientShares', fault: 'seller' }
const PANIC = { name: 'Panic', words: 'a panic' }

describe('after a kill, settlement still knows the earlier failed attempts of a trade', () => {
  it('the deadline of a trade includes time that passed before settlement was killed', async () => {
    const world = new World({ tradeDeadlineMs: 300_000 })
    const bad = world.trade()
    world.reverts = () => PANIC
    // Each process is killed after 65 s, so none of them alone reaches the deadline of 300 s.
    for (let lives = 0; lives < 5; lives++) {
      assert.notEqual(world.status(bad), 'failed')
      await world.steps(65)
      world.kill()
    }
    await world.steps(65)
    assert.equal(world.status(bad), 'failed')
    assert.match(world.told.at(-1)?.reason ?? '', /^DeadlinePassed: /)
  })

  it('gas spent on a trade before settlement was killed counts towards the trade’s gas limit', async () => {
    const world = new World({ retryGasMax: 1_000_000 })
    world.foresees = false
    world.gasUsed = 300_000
    const bad = world.trade()
    world.refuses = () => ({ reason: 'Unexplained', fault: 'none' })
    for (let lives = 0; lives < 6 && world.status(bad) !== 'failed'; lives++) {
      await world.steps(8)
      world.kill()
    }
    await world.steps(5)
    assert.deepEqual([world.status(bad), world.faults.get(bad)], ['failed', 'both'])
    const wasted = world.rows.length * world.gasUsed
    assert(wasted <= 1_500_000, `${wasted} gas is at most one attempt more than allowed`)
  })

  for (const isOpen of [true, false]) {
    const where = isOpen ? 'is sent again' : 'is lost'
    it(`a trade refused in a block fails even if a reorg removes the block and the transaction ${where}`, async () => {
      const world = new World()
      world.confirmations = 3
      world.foresees = false
      world.automine = false
      const id = world.trade()
      await world.step()
      world.refuses = () => LACKS_SHARES
      world.mine()
      await world.steps(2)
      assert.equal(world.status(id), 'submitted', 'the block is not final')
      world.kill()
      world.reorg(0)
      if (!isOpen) world.rows[0]!.closed = true
      // The seller has the shares now.
      world.refuses = () => undefined
      world.automine = true
      await world.steps(20)
      assert.deepEqual([world.status(id), world.faults.get(id)], ['failed', 'seller'])
      assert.equal(world.settledBy.size, 0)
      assert.deepEqual(world.saidOf('Contradiction'), [])
    })
  }

  it('the stored notes about a trade are deleted when the trade ends', async () => {
    const world = new World()
    world.reverts = () => PANIC
    world.trade()
    await world.steps(60)
    assert.equal(world.notes.size, 1)
    world.reverts = () => undefined
    await world.steps(120)
    assert.equal(world.state.trades.size, 0)
    assert.equal(world.notes.size, 0)
  })
})
