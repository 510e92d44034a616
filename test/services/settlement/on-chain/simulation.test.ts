/**
 * Tests that a batch is simulated with the gas price of its transaction. A contract may accept tokens only at a gas
 * price of 0, so a simulation with this price proves nothing.
 */

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { numberToHex } from 'viem'
import { SELL } from '#domain/order.ts'
import { statusOf } from '#services/settlement/lag.ts'
import { openTestChain, type TestChain } from '../../../support/chain.ts'
import { giveCode, startWorld } from './chain-fixture.ts'

let chain: TestChain
before(async () => {
  chain = await openTestChain({ seed: true })
})
after(() => chain.close())

describe('settlement simulates a batch with the gas price of its transaction', () => {
  it('a trade of an account that accepts shares only at gas price 0 fails without gas costs', async () => {
    const world = await startWorld(chain)
    try {
      // This code accepts outcome tokens only in a call with a gas price of 0.
      await giveCode(chain, 12, 'FreeRideReceiver')
      await world.place({ by: 10, side: SELL, size: 45 })
      for (let fill = 0; fill < 45; fill++) await world.place({ by: 12, size: 1 })
      await world.until('every trade is decided', world.allDecided)
      const gas = world.said.reduce(
        (sum, each) => sum + (each.type === 'BatchEnded' ? each.gasUsed : 0),
        0,
      )
      assert.equal(gas, 0, `the operator paid ${gas} gas for fills that were refused`)
      const failed = (await world.trades()).map(({ status, reason }) => `${status} ${reason}`)
      assert.deepEqual(new Set(failed), new Set(['failed SharesRefused']))
    } finally {
      await world.close()
    }
  })

  it('while the settlement key has too little ether, no trade fails and the settlement status reports the lack', async () => {
    const world = await startWorld(chain)
    const operator = chain.chain.account(0).address
    const balance = await chain.publicClient.getBalance({ address: operator })
    try {
      await chain.chain.request('hardhat_setBalance', [operator, '0x1'])
      await world.trade()
      for (let steps = 0; steps < 5; steps++) await world.step()
      const [status] = await world.statuses()
      assert(status === 'matched' || status === 'submitted', status)
      assert.match(statusOf(world.state).why, /enough funds|ether/)
      await chain.chain.request('hardhat_setBalance', [operator, numberToHex(balance)])
      await world.until('it is confirmed', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed'])
    } finally {
      await chain.chain.request('hardhat_setBalance', [operator, numberToHex(balance)])
      await world.close()
    }
  })
})
