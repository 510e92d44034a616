/**
 * A market's whole life as the API tells it: created, traded, expired, proposed, disputed, found
 * false, proposed again, disputed again, found true, settled, redeemed. After each step every field
 * of the resolution endpoint and every event of the `market` channel; then the same life with the
 * process killed between any two steps. The chain and UMA's oracle are real.
 */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { stringToHex } from 'viem'
import type { ResolutionStatus } from '#client/answers.ts'
import { type Client, createClient } from '#client/client.ts'
import type { MarketMessage } from '#client/stream-messages.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { MAX_UINT256, type Market, SETTINGS, UNIT } from '../contracts/support/world.ts'
import { startTestChain, type TestChain } from '../support/chain.ts'
import { eventually } from '../support/eventually.ts'
import { type Exchange, startExchange } from '../support/exchange.ts'

const TRUE = 10n ** 18n
const WINDOW = Number(SETTINGS.disputeSeconds)
const BOND = String(SETTINGS.bond)
/** The exchange may learn late that the chain's clock was moved; two days cover it. */
const TTL = { ttlSeconds: 172_800 }
const ANN = devnetKey(10)
const BOB = devnetKey(11)

type Life = {
  readonly chain: TestChain
  readonly exchange: Exchange
  readonly market: Market
  /** Clients of the exchange as it runs now. */
  ann(): Client
  bob(): Client
  /** Waits until the endpoint says exactly this. */
  stands(expected: Omit<ResolutionStatus, 'marketId'>): Promise<void>
  /** What stands at the oracle, in the words of the endpoint. */
  assertion(
    proposer: string,
    yes: boolean,
    state?: { disputed?: boolean; settled?: boolean },
  ): Promise<NonNullable<ResolutionStatus['assertion']>>
  /** The outcome of the market is proposed by Ann. */
  propose(outcome: 'YES' | 'NO'): Promise<void>
  dispute(): Promise<void>
  /** UMA's voters decide, by its mock. */
  arbitrate(truth: boolean): Promise<void>
  /** The stream has named who won, unless this life is one of kills. */
  winnerTold(): Promise<void>
  /** After the step: the events that it brought, and the kill that may follow it. */
  after(...events: string[]): Promise<void>
}

async function begin(t: TestContext, kills: boolean): Promise<Life> {
  const chain = await startTestChain(t)
  const { ann, bob, carol, relayer, collateral, oracle } = chain
  await chain.fund(relayer, { collateral: 10_000n * UNIT })
  await chain.fund(carol, { collateral: 10_000n * UNIT })
  await chain.chain.send(carol, collateral, 'approve', [oracle.address, MAX_UINT256])
  const market = await chain.createMarket({ expiration: (await chain.chain.now()) + 3_600n })
  await chain.fund(ann, { collateral: 1_000n * UNIT })
  await chain.fund(bob, { collateral: 1_000n * UNIT, shares: 1_000n * UNIT, market: market.id })
  const exchange = await startExchange(t, {
    environment: { ...chain.environment, SIBYL_RELAYER_POLL_MS: '50' },
  })
  const clientOf = (signer: typeof ANN) => createClient({ url: exchange.url, signer })
  const heard: MarketMessage[] = []
  let told = 0
  let stream = clientOf(ANN).stream()
  const follow = () => {
    stream = clientOf(ANN).stream()
    stream.market(market.id, (message) => heard.push(message))
  }
  t.after(() => stream.close())
  stream.market(market.id, (message) => heard.push(message))
  await eventually(() => assert.ok(heard.some(({ type }) => type === 'market.snapshot')))

  const life: Life = {
    chain,
    exchange,
    market,
    ann: () => clientOf(ANN),
    bob: () => clientOf(BOB),
    async stands(expected) {
      await eventually(async () => {
        assert.deepEqual(await life.ann().resolution.status(market.id), {
          marketId: market.id,
          ...expected,
        })
      })
    },
    async assertion(proposer, yes, { disputed = false, settled = false } = {}) {
      const { id, assertionTime } = await chain.read(market, 'assertion', [])
      return {
        id,
        proposer,
        proposedOutcome: yes,
        bondAmount: BOND,
        assertionTime: Number(assertionTime),
        expirationTime: Number(assertionTime) + WINDOW,
        settled,
        settlementResolution: settled,
        disputed,
      }
    },
    async propose(outcome) {
      const intent = { market: { contractAddress: market.address }, outcome, ...TTL }
      await eventually(() => life.ann().resolution.propose(intent))
      // The answer comes with the broadcast.
      await eventually(async () => {
        const { id } = await chain.read(market, 'assertion', [])
        assert.notEqual(BigInt(id), 0n)
      })
    },
    async dispute() {
      const { id } = await chain.read(market, 'assertion', [])
      await chain.chain.send(carol, oracle, 'disputeAssertion', [id, carol.address])
    },
    async arbitrate(truth) {
      const { id, assertionTime } = await chain.read(market, 'assertion', [])
      const ancillary = await chain.publicClient.readContract({
        ...oracle,
        functionName: 'stampAssertion',
        args: [id],
      })
      await chain.chain.send(chain.owner, chain.arbiter, 'pushPrice', [
        stringToHex('ASSERT_TRUTH', { size: 32 }),
        assertionTime,
        ancillary,
        truth ? TRUE : 0n,
      ])
    },
    async winnerTold() {
      if (kills) return
      await eventually(() =>
        assert.ok(
          heard.some(
            (message) => message.type === 'market' && message.resolution?.winningOutcome === 0,
          ),
        ),
      )
    },
    async after(...events) {
      if (!kills) {
        // `resolved` is told by the market's log, which ends with it, and by the chain, which says
        // who won; whichever comes first.
        const names = () => {
          const all = heard.slice(told).filter((message) => message.type === 'market')
          return [...new Set(all.map(({ event }) => event))]
        }
        await eventually(() => assert.deepEqual(names(), events))
        told = heard.length
        return
      }
      stream.close()
      await exchange.kill()
      await exchange.start()
      follow()
    },
  }
  return life
}

async function live(life: Life): Promise<void> {
  const { chain, market, ann, bob } = life
  const { oracle } = chain
  const proposer = chain.ann.address

  // Created: it trades, and nothing is known of its end.
  await life.stands({ expired: false, resolved: false })
  await life.after()

  // Traded: Bob sells Ann 100 YES at 0.40.
  const terms = { marketId: market.id, outcome: 'YES', price: '0.40', size: '100' } as const
  const tooEarly = life.ann().resolution.propose({
    market: { contractAddress: market.address },
    outcome: 'YES',
  })
  await assert.rejects(tooEarly, /the market has not expired/)
  await bob().orders.place({ ...terms, side: 'sell', ttlSeconds: 600 })
  await ann().orders.place({ ...terms, side: 'buy', ttlSeconds: 600 })
  await eventually(async () => {
    assert.equal(await chain.shares(chain.ann.address, market.id, 0), 100n * UNIT)
  })
  await life.stands({ expired: false, resolved: false })
  await life.after()

  // Expired: the books are closed, and there is no assertion.
  await chain.warp(3_700n)
  await life.stands({ expired: true, resolved: false })
  await eventually(() =>
    assert.rejects(
      ann().orders.place({ ...terms, side: 'buy', ...TTL }),
      ({ code }: { code: string }) => code === 'MARKET_CLOSED',
    ),
  )
  await life.after('expired')

  // Proposed: the window of two hours is open, and nothing else can be proposed meanwhile.
  await life.propose('NO')
  await life.stands({
    expired: true,
    resolved: false,
    assertion: await life.assertion(proposer, false),
  })
  const second = life.bob().resolution.propose({
    market: { contractAddress: market.address },
    outcome: 'YES',
    ...TTL,
  })
  await assert.rejects(second, /another proposal is open/)
  await life.after('proposed')

  // Disputed: no settlement by time any more.
  await life.dispute()
  const disputed = await life.assertion(proposer, false, { disputed: true })
  await life.stands({ expired: true, resolved: false, assertion: disputed })
  await life.after('disputed')

  // Found false, and told by somebody who goes to the oracle directly: the market is expired again.
  await life.arbitrate(false)
  await chain.chain.send(chain.carol, oracle, 'settleAssertion', [disputed.id as `0x${string}`])
  await life.stands({ expired: true, resolved: false })
  await life.after('overturned')

  // Proposed again, disputed again, and found true this time.
  await life.propose('YES')
  await life.stands({
    expired: true,
    resolved: false,
    assertion: await life.assertion(proposer, true),
  })
  await life.after('proposed')
  await life.dispute()
  await life.stands({
    expired: true,
    resolved: false,
    assertion: await life.assertion(proposer, true, { disputed: true }),
  })
  await life.after('disputed')

  // A dispute without an answer: settling is refused, and says why.
  await chain.warp(BigInt(WINDOW) + 3n * 86_400n)
  const settlement = { market: { contractAddress: market.address }, winningOutcome: 'YES', ...TTL }
  const settle = () => life.bob().resolution.settle(settlement as never)
  await assert.rejects(settle, ({ status }: { status: number }) => status === 422)

  // Settled by anybody's signature, with what the oracle found.
  await life.arbitrate(true)
  await eventually(settle)
  const settled = await life.assertion(proposer, true, { disputed: true, settled: true })
  await life.stands({ expired: true, resolved: true, winningOutcome: 0, assertion: settled })
  await life.winnerTold()
  await life.after('resolved')

  // Redeemed: each has what his tokens are worth.
  for (const [client, account, shares] of [
    [ann, chain.ann, 100n],
    [bob, chain.bob, 900n],
  ] as const) {
    const before = await chain.balance(account.address)
    const place = { id: market.id, contractAddress: market.address }
    await eventually(() => client().relayer.ctfRedemption({ market: place, ...TTL }))
    await eventually(async () =>
      assert.equal(await chain.balance(account.address), before + shares * UNIT),
    )
  }
  await life.stands({ expired: true, resolved: true, winningOutcome: 0, assertion: settled })
}

test('a market’s whole life, each state and each event as it is', async (t) => {
  await live(await begin(t, false))
})

test('the same with the process killed between any two steps', async (t) => {
  await live(await begin(t, true))
})

test('settled by the exchange itself once the window has passed, across a kill', async (t) => {
  const chain = await startTestChain(t)
  await chain.fund(chain.relayer, { collateral: 10_000n * UNIT })
  const market = await chain.createMarket({ expiration: (await chain.chain.now()) + 60n })
  const exchange = await startExchange(t, {
    environment: {
      ...chain.environment,
      SIBYL_AUTO_SETTLE: 'true',
      SIBYL_RESOLUTION_POLL_MS: '100',
      SIBYL_RELAYER_POLL_MS: '50',
    },
  })
  const client = () => createClient({ url: exchange.url, signer: ANN })
  await chain.warp(100n)
  const proposal = { market: { contractAddress: market.address }, outcome: 'NO', ...TTL } as const
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
})
