/**
 * Runs the market life of `resolution-life.ts` several times in sequence, on one chain and in one data folder. In one
 * run the process is killed after a random step. With `npm run test:whole` or `npm run crash -- resolution`, the
 * process is killed after every step.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from '#client/client.ts'
import { startTestChain } from '../support/chain.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { randomFrom } from '../support/random.ts'
import { WHOLE } from '../support/sample.ts'
import { ANN, environmentOn, fundBonds, liveAndEnd, STEPS, TTL, WINDOW } from './resolution-life.ts'

test('markets are resolved through the oracle', async (t) => {
  const chain = await startTestChain(t)
  await fundBonds(chain)
  const environment = environmentOn(chain)
  const exchange = await startExchange(t, {
    environment: { ...environment, SIBYL_AUTO_SETTLE: 'true', SIBYL_RESOLUTION_POLL_MS: '100' },
  })

  await t.test(
    'the exchange settles a market’s assertion after the dispute window, even if the exchange was killed during the window',
    async () => {
      const market = await chain.createMarket({ expiration: (await chain.chain.now()) + 60n })
      const client = () => createClient({ url: exchange.url, signer: ANN })
      await chain.warp(100n)
      const proposal = {
        market: { contractAddress: market.address },
        outcome: 'NO',
        ...TTL,
      } as const
      await eventually(() => client().resolution.propose(proposal))
      await client().resolution.waitFor(market.id, 'proposed', { everyMs: 20, waitMs: 120_000 })
      await exchange.kill()
      await chain.warp(BigInt(WINDOW) + 1n)
      await exchange.start()
      const status = await client().resolution.waitFor(market.id, 'resolved', {
        everyMs: 20,
        waitMs: 120_000,
      })
      assert.equal(status.winningOutcome, 1)
      assert.equal(status.assertion?.settled, true)
      assert.equal(await chain.read(market, 'winningOutcome', []), 1)
    },
  )

  // So far, `SIBYL_AUTO_SETTLE` has made the exchange settle markets by itself. After the first kill in this test, the
  // exchange restarts without this setting, and settles a market only on request.
  await t.test(
    'a market is resolved even if the exchange is killed after any step of the resolution',
    async (t2) => {
      const random = randomFrom(
        Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31)),
      )
      const killedAfter = WHOLE ? STEPS : [random.pick(STEPS)]
      t2.diagnostic(`TEST_SEED=${random.seed}: killed after ${killedAfter.join(', ')}`)
      await liveAndEnd({ chain, exchange, environment }, killedAfter)
    },
  )

  await t.test(
    'a resolution during which the exchange is not killed goes through the expected market states and events',
    async () => {
      await liveAndEnd({ chain, exchange, environment })
    },
  )
})
