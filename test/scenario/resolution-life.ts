/**
 * The whole life of a market as the API shows it: created, traded, expired, proposed, disputed, found false, proposed
 * again, disputed again, found true, settled, redeemed. After each step the test compares every field of the resolution
 * endpoint and every event of the `market` channel. If the test kills the process after some steps, events are not
 * compared. The chain and the UMA oracle are real. Several markets can be tested on them one after the other.
 */

import assert from 'node:assert/strict'
import { stringToHex } from 'viem'
import { type Client, createClient } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import type { ResolutionStatus } from '#protocol/shapes/markets.ts'
import type { MarketMessage } from '#protocol/shapes/stream.ts'
import { MAX_UINT256, type Market, SETTINGS, UNIT } from '../contracts/support/world.ts'
import type { TestChain } from '../support/chain.ts'
import { eventually } from '../support/eventually.ts'
import type { Environment, Exchange } from '../support/exchange.ts'

const TRUE = 10n ** 18n
export const WINDOW = Number(SETTINGS.disputeSeconds)
const BOND = String(SETTINGS.bond)
/** Requests are valid for two days, because the test moves the chain's clock and the exchange may learn of it late. */
export const TTL = { ttlSeconds: 172_800 }
export const ANN = devnetKey(10)
const BOB = devnetKey(11)

/** Steps after which the process can be killed, in order. */
export const STEPS = [
  'created',
  'traded',
  'expired',
  'proposed',
  'disputed',
  'overturned',
  'proposed again',
  'disputed again',
  'resolved',
] as const

export type Step = (typeof STEPS)[number]

export type Place = {
  readonly chain: TestChain
  readonly exchange: Exchange
  /** Settings for a restart after a kill. */
  readonly environment: Environment
}

/**
 * Funds the accounts that pay bonds in all tests, before an exchange runs. A later transaction with an
 * exchange's key would take the nonce that the exchange uses next.
 */
export async function fundBonds(chain: TestChain): Promise<void> {
  const { carol, relayer, collateral, oracle } = chain
  await chain.fund(relayer, { collateral: 100_000n * UNIT })
  await chain.fund(carol, { collateral: 100_000n * UNIT })
  await chain.chain.send(carol, collateral, 'approve', [oracle.address, MAX_UINT256])
}

/** Returns the environment of an exchange that resolves markets on this chain. */
export function environmentOn(chain: TestChain): Environment {
  return { ...chain.environment, SIBYL_RELAYER_POLL_MS: '50', SIBYL_VERIFY_THREADS: '1' }
}

type Life = {
  readonly chain: TestChain
  readonly exchange: Exchange
  readonly market: Market
  /**
   * Creates a client with Ann's key for the current process of the exchange; `bob` does the same with Bob's
   * key.
   */
  ann(): Client
  bob(): Client
  /** Waits until the resolution endpoint returns exactly `expected`. */
  stands(expected: Omit<ResolutionStatus, 'marketId'>): Promise<void>
  /** Returns the market's assertion at the oracle, in the format of the resolution endpoint. */
  assertion(
    proposer: string,
    yes: boolean,
    state?: { disputed?: boolean; settled?: boolean },
  ): Promise<NonNullable<ResolutionStatus['assertion']>>
  /** Proposes this outcome of the market, as Ann. */
  propose(outcome: 'YES' | 'NO'): Promise<void>
  dispute(): Promise<void>
  /** Decides the disputed assertion through the mock of UMA's voters. */
  arbitrate(truth: boolean): Promise<void>
  /** Waits until the stream has named the winner. Does nothing if the test kills the process after some steps. */
  winnerTold(): Promise<void>
  /** Ends a step: waits for its events, or kills the process if the step is one of `killedAfter`. */
  after(step: Step, ...events: string[]): Promise<void>
  close(): void
}

async function begin(place: Place, killedAfter: readonly Step[]): Promise<Life> {
  const { chain, exchange } = place
  const kills = killedAfter.length > 0
  const { ann, bob, carol, oracle } = chain
  const market = await chain.createMarket({ expiration: (await chain.chain.now()) + 3_600n })
  await chain.fund(ann, { collateral: 1_000n * UNIT })
  await chain.fund(bob, { collateral: 1_000n * UNIT, shares: 1_000n * UNIT, market: market.id })
  const clientOf = (signer: typeof ANN) => createClient({ url: exchange.url, signer })
  const received: MarketMessage[] = []
  let told = 0
  // Before the indexer has opened the market, a request gets 404.
  await eventually(async () => {
    const { status } = await fetch(`${exchange.url}/api/v1/markets/${market.id}`)
    assert.equal(status, 200)
  })
  let stream = clientOf(ANN).stream()
  stream.market(market.id, (message) => received.push(message))
  await eventually(() => assert.ok(received.some(({ type }) => type === 'market.snapshot')))

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
      // The exchange answers when it has broadcast the transaction, before a block contains it.
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
          received.some(
            (message) => message.type === 'market' && message.resolution?.winningOutcome === 0,
          ),
        ),
      )
    },
    async after(step, ...events) {
      if (!kills) {
        // The event `resolved` is sent twice: when the log records the end of the market, and when the chain names the
        // winner. Either can be first, so repeated events count once.
        const names = () => {
          const all = received.slice(told).filter((message) => message.type === 'market')
          return [...new Set(all.map(({ event }) => event))]
        }
        await eventually(() => assert.deepEqual(names(), events))
        told = received.length
        return
      }
      if (!killedAfter.includes(step)) return
      stream.close()
      await exchange.kill()
      await exchange.start(place.environment)
      stream = clientOf(ANN).stream()
      stream.market(market.id, (message) => received.push(message))
    },
    close: () => stream.close(),
  }
  return life
}

/** Runs one life of a market, and kills the process after the steps in `killedAfter`. */
export async function liveAndEnd(place: Place, killedAfter: readonly Step[] = []): Promise<void> {
  const life = await begin(place, killedAfter)
  await live(life).finally(() => life.close())
}

async function live(life: Life): Promise<void> {
  const { chain, market, ann, bob } = life
  const { oracle } = chain
  const proposer = chain.ann.address

  // After its creation the market trades, and has no outcome.
  await life.stands({ expired: false, resolved: false })
  await life.after('created')

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
  await life.after('traded')

  // Expired: the market takes no orders, and no outcome is proposed yet.
  await chain.warp(3_700n)
  await life.stands({ expired: true, resolved: false })
  await eventually(() =>
    assert.rejects(
      ann().orders.place({ ...terms, side: 'buy', ...TTL }),
      ({ code }: { code: string }) => code === 'MARKET_CLOSED',
    ),
  )
  await life.after('expired', 'expired')

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
  await assert.rejects(
    second,
    /the market already has an open proposal: wait for the end of its dispute window/,
  )
  await life.after('proposed', 'proposed')

  // Disputed: from now on, the end of the window does not settle the assertion.
  await life.dispute()
  const disputed = await life.assertion(proposer, false, { disputed: true })
  await life.stands({ expired: true, resolved: false, assertion: disputed })
  await life.after('disputed', 'disputed')

  // Found false: another account settles the assertion at the oracle directly. The market is expired again, without a
  // proposal.
  await life.arbitrate(false)
  await chain.chain.send(chain.carol, oracle, 'settleAssertion', [disputed.id as `0x${string}`])
  await life.stands({ expired: true, resolved: false })
  await life.after('overturned', 'overturned')

  // Proposed again, disputed again, and found true this time.
  await life.propose('YES')
  await life.stands({
    expired: true,
    resolved: false,
    assertion: await life.assertion(proposer, true),
  })
  await life.after('proposed again', 'proposed')
  await life.dispute()
  await life.stands({
    expired: true,
    resolved: false,
    assertion: await life.assertion(proposer, true, { disputed: true }),
  })
  await life.after('disputed again', 'disputed')

  // While the dispute is undecided, a request to settle is refused with the reason.
  await chain.warp(BigInt(WINDOW) + 3n * 86_400n)
  const settlement = { market: { contractAddress: market.address }, winningOutcome: 'YES', ...TTL }
  const settle = () => life.bob().resolution.settle(settlement as never)
  await assert.rejects(settle, ({ status }: { status: number }) => status === 422)

  // Settled by any account's signature, with the oracle's result.
  await life.arbitrate(true)
  await eventually(settle)
  const settled = await life.assertion(proposer, true, { disputed: true, settled: true })
  await life.stands({ expired: true, resolved: true, winningOutcome: 0, assertion: settled })
  await life.winnerTold()
  await eventually(async () => {
    const [listed] = (await ann().markets()).filter(({ id }) => id === market.id)
    assert.equal(listed?.winningOutcome, 0)
  })
  await life.after('resolved', 'resolved')

  // Redeemed: each trader has the value of their tokens.
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
