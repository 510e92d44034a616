/**
 * Tests the lane that sends the operator's transactions for quick markets, on a real chain, with a journal that the
 * test can make unavailable.
 */

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { ChainClient } from '#chain/clients.ts'
import { Fault } from '#domain/fault.ts'
import type { QuickMarket } from '#domain/quick-market.ts'
import { makeQuickMarketLane } from '#services/prices/chain/quick-market-lane.ts'
import { type LaneFixture, laneFixture } from '../../../chain/sender/lane-fixture.ts'
import { eventually } from '../../../support/eventually.ts'
import { type SimulatedClock, simulatedClock } from '../../../support/simulated-clock.ts'

const POLL_MS = 1_000
const AWAY = new Fault('STORE_AWAY', 'no database', { retryable: true })
/** The result of an `eth_call` for a market that does not exist yet. */
const NO = `0x${'0'.repeat(64)}`

describe('the price service creates each quick market by a transaction, and follows the transaction until it ends', () => {
  let f: LaneFixture
  let clock: SimulatedClock
  let restore: () => Promise<void>
  /** Number of saves that failed because the journal was unavailable. */
  let refusals: number
  before(async () => {
    f = await laneFixture()
    restore = await f.chain.snapshot()
  })
  after(() => f.close())
  beforeEach(async () => {
    f.journalFault = undefined
    f.rows.clear()
    clock = simulatedClock(f.nowMs)
    refusals = 0
    await restore()
    restore = await f.chain.snapshot()
    await f.chain.request('evm_setAutomine', [false])
    await f.mine()
    f.intercept = ({ method }) => (method === 'eth_call' ? Promise.resolve(NO) : undefined)
  })

  function start() {
    const { target, account, sender, journal } = f
    const lane = makeQuickMarketLane({
      client: { viem: f.client, chainId: f.chain.id } as ChainClient,
      contracts: { marketFactory: target, conditionalTokens: target, stablecoin: target },
      own: { account, address: sender },
      journal: {
        load: journal.load,
        async save(row) {
          if (f.journalFault !== undefined) refusals++
          await journal.save(row)
        },
      },
      clock,
      policy: { confirmations: 0 },
      pollMs: POLL_MS,
      idlePollMs: POLL_MS,
      onTrouble: () => undefined,
    })
    lane.start()
    return lane
  }

  const market = (digit: number): QuickMarket =>
    ({
      marketId: `0x${String(digit).repeat(64)}`,
      contractAddress: f.target,
      asset: 'BTC',
      startSec: 900,
      intervalSec: 900,
      strike: { price: 1, source: 'coinbase' },
    }) as unknown as QuickMarket

  /** Advances the clock poll by poll until the condition is true. */
  const polledUntil = (isSo: () => boolean): Promise<void> =>
    eventually(() => {
      clock.advance(POLL_MS)
      assert.ok(isSo())
    })

  /** Waits until the journal and the node have this many transactions. Each is saved first and sent afterwards. */
  const sent = (count: number): Promise<void> =>
    eventually(async () => {
      assert.equal(f.rows.size, count)
      assert.equal(await f.pendingCount(), count)
    })

  it('the request for a quick market is answered once its transaction is mined, even if the journal fails', async (t) => {
    const lane = start()
    t.after(() => lane.stop())
    const created = [lane.create(market(1)), lane.create(market(2))]
    await sent(2)
    f.journalFault = AWAY
    await f.mine()
    let received: string[] = []
    void Promise.all(created).then((hashes) => {
      received = hashes
    })
    await polledUntil(() => received.length === 2)
    assert.deepEqual(
      new Set(received),
      new Set([...f.rows.values()].map(({ hashes }) => hashes[0])),
    )
    assert.equal(lane.underway(), 2, 'the journal has no end of them yet')

    await polledUntil(() => refusals >= 4)
    f.journalFault = undefined
    await polledUntil(() => lane.underway() === 0)
    assert.deepEqual(
      [...f.rows.values()].map(({ state }) => state),
      ['succeeded', 'succeeded'],
    )
  })

  it('if a quick market is requested again after its transaction was mined, a new transaction is sent', async (t) => {
    const lane = start()
    t.after(() => lane.stop())
    const first = lane.create(market(1))
    await sent(1)
    f.journalFault = AWAY
    await f.mine()
    let isOver = false
    void first.then(() => {
      isOver = true
    })
    await polledUntil(() => isOver)

    await assert.rejects(lane.create(market(1)), { code: 'STORE_AWAY' })
    f.journalFault = undefined
    const again = lane.create(market(1))
    await sent(2)
    await f.mine()
    let hash = ''
    void again.then((found) => {
      hash = found
    })
    await polledUntil(() => hash !== '')
    assert.notEqual(hash, await first)
  })
})
