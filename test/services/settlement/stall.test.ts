/** If settlement waits for long, the reason is logged, whichever component is late. */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { AWAY, World } from './settlement-fixture.ts'

describe('the log names the reason when settlement waits long', () => {
  it('if a read of the database is never answered, settlement logs this after 10 s, and again every 30 s', async () => {
    const world = new World()
    world.byHand = true
    world.trade()
    await world.until(
      () => world.pending.some(({ port }) => port === 'readPending'),
      ({ port }) => port !== 'readPending',
    )
    for (let turns = 0; turns < 50; turns++) await world.turn(({ port }) => port !== 'readPending')
    const said = world.saidOf('Stalled')
    assert.equal(said.length, 2)
    assert.match(said[0]?.why ?? '', /^the step read has had no answer for 1\d s/)
  })

  it('settlement logs that it waits for a market that does not acknowledge its reports', async () => {
    const world = new World()
    world.trade()
    await world.step()
    world.trade()
    world.away.set('report', AWAY)
    await world.steps(15)
    assert.match(
      world.saidOf('Stalled')[0]?.why ?? '',
      /a market did not acknowledge a settlement report: /,
    )
  })

  it('if the chain does not answer, settlement logs the step that fails', async () => {
    const world = new World()
    world.trade()
    for (const port of ['submit', 'poll'] as const) world.away.set(port, AWAY)
    await world.steps(15)
    assert.match(world.saidOf('Stalled')[0]?.why ?? '', /submit failed: it is away/)
  })

  it('settlement logs no stall while no trade is open, or while trades settle', async () => {
    const world = new World()
    await world.steps(60)
    for (let trades = 0; trades < 20; trades++) {
      world.trade()
      await world.steps(3)
    }
    assert.deepEqual(world.saidOf('Stalled'), [])
  })
})
