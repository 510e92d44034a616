/**
 * Tests refusals that are outdated when they arrive. The check runs before the block that brings the missing balance,
 * and its answer arrives after that block.
 */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type Call,
  keyOf,
  type Refusal,
  traderNumbered,
  turnOver,
  World,
} from './settlement-fixture.ts'

const [MAKER, RESELLER, BUYER] = [101, 102, 103].map(traderNumbered)
const LACKS: Refusal = { reason: 'InsufficientShares', fault: 'seller' }

const isSubmission = ({ port }: Call): boolean => port === 'submit'

/**
 * Makes a trade in which RESELLER buys shares, and a trade that sells them on. The second trade is checked before the
 * first is mined, but the answer arrives later. If `isGood` is false, the contract refuses the first trade.
 */
async function resold(confirmations: number, isGood = true) {
  assert(MAKER !== undefined && RESELLER !== undefined && BUYER !== undefined)
  const world = new World()
  world.automine = false
  world.confirmations = confirmations
  const bought = world.trade({ seller: MAKER, buyer: RESELLER })
  await world.step()
  assert.equal(world.rows.length, 1)
  const sold = world.trade({ seller: RESELLER, buyer: BUYER })
  world.refuses = (id) => {
    if (id === bought) return isGood ? undefined : { reason: 'WrongSignature', fault: 'seller' }
    return world.settledBy.has(keyOf({ tradeId: bought })) ? undefined : LACKS
  }
  world.byHand = true
  await world.until(
    () => world.pending.some(isSubmission),
    (call) => !isSubmission(call),
  )
  const at = world.pending.findIndex(isSubmission)
  const [call] = world.pending.splice(at, 1)
  assert(call !== undefined)
  const answer = call.work()
  world.mine()
  const [batch] = world.state.flight.batches.values()
  await world.until(() => batch?.mined === true)
  return { world, bought, sold, answer }
}

describe('settlement ignores a refusal by the simulation if the missing balance arrived meanwhile', () => {
  for (const confirmations of [0, 3]) {
    it(`a sale refused by a simulation does not fail if the seller’s shares arrived meanwhile (${confirmations} confirmations)`, async () => {
      const { world, bought, sold, answer } = await resold(confirmations)
      answer()
      await turnOver()
      assert.equal(world.status(sold), 'matched')
      world.automine = true
      await world.until(() => world.status(sold) === 'confirmed')
      assert.deepEqual(world.wayOf(bought), ['submitted', 'confirmed'])
      assert.deepEqual(world.wayOf(sold), ['submitted', 'confirmed'])
    })
  }

  it('a refused trade fails if the older trade that should bring the missing balance fails on chain', async () => {
    const { world, bought, sold, answer } = await resold(0, false)
    await world.until(() => world.status(bought) === 'failed')
    const sent = world.submissions.length
    answer()
    await world.until(() => world.status(sold) === 'failed')
    assert.equal(world.submissions.length, sent, 'it is not examined again')
  })
})
