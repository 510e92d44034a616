/**
 * The indexer on a real chain behind a provider with bad days, with a real database of either kind:
 * no market is lost, none is there twice, none that the chain does not have, and what is known in the
 * end is what somebody knows who reads the whole chain afresh.
 */
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, it, type TestContext } from 'node:test'
import {
  type IndexerEvent,
  type IndexerProtocol,
  type IndexerState,
  indexer,
  newIndexer,
} from '#actors/indexer.ts'
import { makeChainReader } from '#chain/chain-reader.ts'
import { makeChainClient } from '#chain/clients.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { systemClock } from '#runtime/clock.ts'
import { serve } from '#runtime/serve.ts'
import { claimChain } from '#store/chain-index/cursor.ts'
import { indexRange } from '#store/chain-index/index-range.ts'
import { rewindChain } from '#store/chain-index/rewind-chain.ts'
import {
  closeDatabase,
  type Database,
  openDatabase,
  sqlConnection,
} from '#store/engine/database.ts'
import { migrate } from '#store/engine/migrate.ts'
import {
  followedTokens,
  marketsOfContracts,
  openMarketContracts,
} from '#store/reads/chain-known.ts'
import {
  assertionsOfMarket,
  chainMarketById,
  listChainMarkets,
  marketsToReconcile,
  tokenBalancesOf,
} from '#store/reads/chain-markets.ts'
import { startWorld, UNIT, type World } from '../contracts/support/world.ts'
import { onBothDatabases } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts'

let world: World
let proxy: RpcProxy
let undo: () => Promise<void>

before(async () => {
  world = await startWorld()
  proxy = await startRpcProxy(world.chain)
})
after(async () => {
  await proxy.close()
  await world.chain.close()
})

type Follower = {
  readonly state: IndexerState
  readonly said: IndexerEvent[]
  /** Ends it between two steps, as a kill would: what is under way is not waited for. */
  stop(): void
}

type FollowOptions = {
  readonly confirmations?: number
  readonly rangeBlocksMax?: number
  readonly database: Database
}

const followers = new Set<Follower>()

function follow({ database, confirmations = 0, rangeBlocksMax = 100 }: FollowOptions): Follower {
  const chainId = world.chain.id
  const contracts = {
    marketFactory: toAddress(world.factory.address),
    conditionalTokens: toAddress(world.conditionalTokens.address),
    settlement: toAddress(world.settlement.address),
    stablecoin: toAddress(world.collateral.address),
  }
  const reader = makeChainReader({
    client: makeChainClient({
      chainId,
      rpcUrls: [proxy.url],
      timeoutMs: 1_000,
      rounds: 2,
      pauseMs: 1,
    }),
    contracts,
    knownMarkets: (contracts) => marketsOfContracts(database, { chainId, contracts }),
    knownTokens: (positionIds) => followedTokens(database, { chainId, positionIds }),
    openMarkets: (limit) => openMarketContracts(database, { chainId, limit }),
  })
  let stopped = false
  /** A dead thread writes nothing more. */
  const alive =
    <Args extends readonly unknown[], R>(work: (...args: Args) => Promise<R>) =>
    (...args: Args): Promise<R> =>
      stopped ? new Promise(() => {}) : work(...args)
  const state = newIndexer({
    chainId,
    confirmations,
    rangeBlocksMax,
    chain: reader,
    store: {
      claim: alive(async () => {
        const anchor = await reader.mark(0)
        assert(anchor !== undefined)
        return claimChain(database, { chainId, deployment: 'one', startBlock: 0, anchor, atMs: 1 })
      }),
      write: alive((range) => indexRange(database, range)),
      rewind: alive((rewind) => rewindChain(database, rewind)),
      marketsDue: alive((nowSec) => marketsToReconcile(database, { chainId, nowSec, limit: 100 })),
    },
  })
  const said: IndexerEvent[] = []
  const served = serve<IndexerState, IndexerProtocol, IndexerEvent>({
    behaviour: indexer,
    select: () => ({ state }),
    clock: systemClock,
    mailboxMax: 1_000,
    batchMax: 1_000,
    full: undefined,
    say: (events) => said.push(...events),
  })
  const timer = setInterval(() => served.hear('Tick', {}, 0, undefined), 5)
  const follower = {
    state,
    said,
    stop() {
      stopped = true
      clearInterval(timer)
      followers.delete(follower)
    },
  }
  followers.add(follower)
  return follower
}

const height = async () => Number(await world.chain.request('eth_blockNumber', []))
const hashAt = async (number: number) =>
  (
    (await world.chain.request('eth_getBlockByNumber', [`0x${number.toString(16)}`, false])) as {
      hash: string
    }
  ).hash
const mine = (blocks: number) =>
  world.chain.request('hardhat_mine', [`0x${blocks.toString(16)}`, '0x1'])

/** Until the follower stands on the very head of the chain. */
async function caughtUp({ state }: Follower, confirmations = 0): Promise<void> {
  await eventually(async () => {
    const target = (await height()) - confirmations
    assert.equal(state.indexed?.number, target, state.why)
    assert.equal(state.indexed?.hash, await hashAt(target))
  })
}

/** With the order in which their rows are compared; where the indexer stands comes first. */
const TABLES = [
  ['chain_cursors', 'chain_id'],
  ['chain_blocks', 'block_number'],
  ['chain_markets', 'market_id'],
  ['chain_outcomes', 'position_id'],
  ['chain_assertions', 'assertion_id'],
  ['chain_market_events', 'block_number, log_index'],
  ['chain_token_moves', 'block_number, log_index, part'],
  ['chain_token_balances', 'position_id, holder'],
  ['chain_conversions', 'block_number, log_index'],
  ['chain_trades', 'block_number, log_index'],
  ['chain_withdrawn_orders', 'order_hash'],
  ['chain_set_aside', 'block_number, log_index'],
] as const

await onBothDatabases('the indexer', ({ fresh }) => {
  const opened: Database[] = []
  let used = 0
  /** One that knows nothing of the chain; making a new one each time would take longer. */
  async function freshDatabase(): Promise<Database> {
    const known = opened[used++]
    if (known !== undefined) {
      for (const [table] of TABLES) await sqlConnection(known).execute(`delete from ${table}`)
      return known
    }
    const database = await openDatabase(await fresh())
    await migrate(database)
    opened.push(database)
    return database
  }
  beforeEach(async () => {
    undo = await world.chain.snapshot()
    used = 0
    proxy.faults = {}
  })
  afterEach(async () => {
    for (const follower of followers) follower.stop()
    proxy.faults = {}
    proxy.before = undefined
    await undo()
  })
  after(async () => {
    for (const database of opened) await closeDatabase(database)
  })

  /** What a database knows of the chain, in words that two databases can be compared by. */
  async function knowledge(database: Database): Promise<string[]> {
    const all: string[] = []
    for (const [table, order] of TABLES.slice(2)) {
      const rows = await sqlConnection(database).execute<Record<string, unknown>[]>(
        `select * from ${table} order by ${order}`,
        [],
        'all',
      )
      for (const row of rows) {
        if (Number(row.balance_e6) === 0 || Number(row.listed) === 0) continue
        if (table === 'chain_token_balances') delete row.block_number
        const words = Object.entries(row).map(([column, value]) =>
          value instanceof Uint8Array
            ? `${column} ${Buffer.from(value).toString('hex')}`
            : `${column} ${value}`,
        )
        all.push(`${table}: ${words.join(', ')}`)
      }
    }
    return all
  }

  /** The whole chain, read afresh and in one go. */
  async function readAfresh(): Promise<string[]> {
    const { faults } = proxy
    proxy.faults = {}
    const database = await freshDatabase()
    const follower = follow({ database, rangeBlocksMax: 10_000 })
    await caughtUp(follower)
    follower.stop()
    proxy.faults = faults
    return knowledge(database)
  }

  const listed = async (database: Database) =>
    (await listChainMarkets(database, { limit: 100 })).map(({ id }) => id)

  /** Two people trade, split, merge; returns the market. */
  async function busyMarket() {
    const { ann, bob } = world
    const market = await world.createMarket()
    await world.fund(ann, { collateral: 1_000n * UNIT, shares: 300n * UNIT, market: market.id })
    await world.fund(bob, { collateral: 50n * UNIT, shares: 200n * UNIT, market: market.id })
    const terms = { price: 600_000n, size: 40n * UNIT }
    const sell = await world.sell(bob, market.id, terms)
    await world.trade(await world.buy(ann, market.id, terms), sell)
    // Carol has nothing: refused.
    const poor = await world.buy(world.carol, market.id, terms)
    await world.trade(poor, await world.sell(bob, market.id, terms))
    return market
  }

  it('follows a market from its creation to a redemption, to the last token', async () => {
    const { ann, bob, chain, conditionalTokens, collateral } = world
    const database = await freshDatabase()
    const follower = follow({ database })
    const market = await busyMarket()
    const marketId = market.id as string as MarketId
    const tokens = conditionalTokens
    await chain.send(ann, tokens, 'safeTransferFrom', [
      ann.address,
      bob.address,
      await world.positionId(market.id, 1),
      7n * UNIT,
      '0x',
    ])
    const zero = `0x${'0'.repeat(64)}` as const
    await chain.send(ann, tokens, 'mergePositions', [
      collateral.address,
      zero,
      market.id,
      [1n, 2n],
      UNIT,
    ])
    await caughtUp(follower)
    await balancesAgree(database, marketId, [ann, bob, world.carol])

    await chain.warpTo(market.expiration)
    await chain.send(world.owner, collateral, 'mint', [bob.address, 10_000n * UNIT])
    await chain.send(bob, collateral, 'approve', [market.address, 10_000n * UNIT])
    await chain.send(bob, market, 'propose', [true])
    await caughtUp(follower)
    const [assertion] = await assertionsOfMarket(database, marketId)
    assert.deepEqual(
      [assertion?.proposer, assertion?.outcome, assertion?.endedAs, assertion?.disputed],
      [toAddress(bob.address), 0, null, false],
    )
    await chain.warp(7_201)
    await chain.send(ann, market, 'settle', [])
    await chain.send(ann, tokens, 'redeemPositions', [
      collateral.address,
      zero,
      market.id,
      [1n, 2n],
    ])
    await caughtUp(follower)
    const known = await chainMarketById(database, marketId)
    assert.deepEqual(
      [known?.resolved, known?.winningOutcome, known?.redeemable, known?.contractAddress],
      [true, 0, true, toAddress(market.address)],
    )
    await balancesAgree(database, marketId, [ann, bob, world.carol])
    const kinds = await sqlConnection(database).execute<{ kind: string; times: number }[]>(
      'select kind, count(*) as times from chain_token_moves group by kind order by kind',
      [],
      'all',
    )
    assert.deepEqual(
      kinds.map(({ kind, times }) => [kind, Number(times)]),
      [
        ['merge', 2],
        ['redeem', 2],
        ['split', 4],
        ['trade', 1],
        ['transfer', 1],
      ],
    )
    const told = follower.said.flatMap((news) =>
      news.type === 'ChainAdvanced' ? news.events.map(({ type }) => type) : [],
    )
    for (const type of [
      'MarketCreated',
      'TradeSettled',
      'TradeRejected',
      'MarketResolved',
    ] as const) {
      assert.equal(told.filter((each) => each === type).length, 1, type)
    }
    const due = follower.said.flatMap((news) => (news.type === 'MarketsDue' ? [news] : []))
    assert(due.some(({ open }) => open[0]?.id === marketId))
    assert(due.some(({ close }) => close[0]?.marketId === marketId))
    assert.deepEqual(await knowledge(database), await readAfresh())
  })

  async function balancesAgree(
    database: Database,
    marketId: MarketId,
    people: readonly { address: `0x${string}` }[],
  ): Promise<void> {
    for (const { address } of people) {
      const known = await tokenBalancesOf(database, toAddress(address), world.chain.id)
      for (const outcome of [0, 1] as Outcome[]) {
        const balance = known.find((row) => row.marketId === marketId && row.outcome === outcome)
        assert.equal(
          balance?.balance ?? '0',
          String(await world.shares(address, marketId as string as `0x${string}`, outcome)),
        )
      }
    }
  }

  it('quick markets come with their prices and their maker', async () => {
    const { chain, quickOperator, factory } = world
    const database = await freshDatabase()
    const follower = follow({ database })
    const startSec = await chain.now()
    await chain.send(quickOperator, factory, 'createQuickMarket', [
      'ETH',
      startSec,
      900,
      300_000_000_000n,
      'pyth',
    ])
    const [address] = await world.read(factory, 'predictQuickMarket', ['ETH', startSec, 900])
    await chain.warp(901)
    await chain.send(quickOperator, factory, 'resolveQuickMarket', [
      address,
      300_000_000_000n,
      299_000_000_000n,
      'pyth',
    ])
    await caughtUp(follower)
    const [quick] = await listChainMarkets(database, { quick: true, limit: 1 })
    assert.deepEqual(
      [quick?.maker, quick?.category, quick?.resolved, quick?.winningOutcome],
      [toAddress(quickOperator.address), 'general', true, 1],
    )
    assert.deepEqual(quick?.quickFacts, {
      asset: 'ETH',
      startSec: Number(startSec),
      startPrice: 300_000_000_000,
      source: 'pyth',
      endPrice: 299_000_000_000,
      endStartPrice: 300_000_000_000,
      endSource: 'pyth',
    })
  })

  it('a provider that is down at the start is waited for', async () => {
    const database = await freshDatabase()
    const market = await world.createMarket()
    proxy.faults = { down: true }
    const follower = follow({ database })
    await eventually(() => assert(follower.state.failures > 1))
    assert.match(follower.state.why, /the chain|node|HTTP|failed/i)
    proxy.faults = {}
    await caughtUp(follower)
    assert.equal(follower.state.why, '')
    assert.deepEqual(await listed(database), [market.id])
  })

  it('a provider that goes away, is slow, errs or lags is followed when it is itself again', async () => {
    const database = await freshDatabase()
    const follower = follow({ database })
    const markets: string[] = []
    const bad = [
      { down: true },
      { status: 503 },
      { slowMs: 3_000 },
      { error: { code: -32603, message: 'Internal error' } },
      { error: { code: -32000, message: 'header not found' }, errorMethods: ['eth_getLogs'] },
    ]
    for (const faults of bad) {
      await caughtUp(follower)
      proxy.faults = faults
      markets.unshift((await world.createMarket()).id)
      await eventually(() => assert.notEqual(follower.state.why, ''))
      proxy.faults = {}
      await caughtUp(follower)
      assert.deepEqual([...(await listed(database))].sort(), [...markets].sort())
    }
    // Each kind of request fails more often than the client asks: it takes longer, and that is all.
    const errorTimes = { eth_chainId: 3, eth_getBlockByNumber: 3, eth_getLogs: 3 }
    proxy.faults = { errorTimes }
    markets.unshift((await world.createMarket()).id)
    await caughtUp(follower)
    assert.deepEqual(errorTimes, { eth_chainId: 0, eth_getBlockByNumber: 0, eth_getLogs: 0 })
    proxy.faults = {}
    assert.deepEqual([...(await listed(database))].sort(), [...markets].sort())
    assert.deepEqual(await knowledge(database), await readAfresh())
  })

  it('a node that lags loses nothing, and its old head is no reorg', async () => {
    const database = await freshDatabase()
    const follower = follow({ database })
    await world.createMarket()
    await caughtUp(follower)
    const seen = await height()
    // It shows the new head but gives the logs of an old one, as a balanced provider may.
    const late = await world.createMarket()
    proxy.faults = { staleHead: seen - 1 }
    await eventually(() => assert.match(follower.state.why, /behind/))
    proxy.faults = {}
    await caughtUp(follower)
    assert(new Set(await listed(database)).has(late.id as string as MarketId))
    assert.equal(follower.state.reorgs, 0)
  })

  it('a head without its logs is not believed', async () => {
    const database = await freshDatabase()
    const follower = follow({ database })
    await caughtUp(follower)
    const seen = await height()
    // The head is new, the range of logs comes from a node that does not have it yet.
    proxy.logsUpTo = seen
    const market = await world.createMarket()
    await eventually(() => assert.match(follower.state.why, /logs of block \d+ are missing/))
    assert.equal(follower.state.indexed?.number, seen)
    proxy.logsUpTo = undefined
    await caughtUp(follower)
    assert.deepEqual(await listed(database), [market.id])
  })

  it('a range that is too long is read in parts', async () => {
    const database = await freshDatabase()
    await world.createMarket()
    await mine(60)
    await world.createMarket()
    proxy.faults = { rangeMax: 5 }
    const follower = follow({ database, rangeBlocksMax: 10_000 })
    await caughtUp(follower)
    assert.equal((await listed(database)).length, 2)
    proxy.faults = {}
    assert.deepEqual(await knowledge(database), await readAfresh())
  })

  it('five blocks are replaced across the creation of a market', async (t: TestContext) => {
    const database = await freshDatabase()
    const follower = follow({ database })
    const kept = await world.createMarket()
    await caughtUp(follower)
    const back = await world.chain.snapshot()
    const fork = await height()
    const lost = await busyMarket()
    while ((await height()) < fork + 5) await mine(1)
    await caughtUp(follower)
    assert.equal((await listed(database)).length, 2)
    const before = await knowledge(database)

    // Another chain takes over: the market is not on it.
    await back()
    await world.chain.request('hardhat_setBalance', [world.carol.address, '0xde0b6b3a7640000'])
    const instead = await world.createMarket({ expiration: (await world.chain.now()) + 555n })
    await mine(25)
    await caughtUp(follower)
    assert(follower.state.reorgs >= 1)
    assert.notDeepEqual(await knowledge(database), before)
    assert.deepEqual(new Set(await listed(database)), new Set([kept.id, instead.id] as string[]))
    t.assert.ok(
      follower.said.some(
        (news) =>
          news.type === 'ChainRewound' && news.orphaned.includes(lost.id as string as MarketId),
      ),
      'the market that is gone was told',
    )
    assert.deepEqual(
      follower.said.flatMap((news) =>
        news.type === 'MarketsDue'
          ? news.close.map(({ marketId, reason }) => [marketId, reason])
          : [],
      ),
      [[lost.id, 'withdrawn']],
    )
    assert.deepEqual(await knowledge(database), await readAfresh())
  })

  it('a market that a reorg moves to another block is neither lost nor there twice', async () => {
    const database = await freshDatabase()
    const follower = follow({ database, confirmations: 2 })
    await mine(3)
    const back = await world.chain.snapshot()
    const expiration = (await world.chain.now()) + 1_000n
    const words = ['Does it move?', 'By reorg.', 3, expiration] as const
    await world.chain.send(world.maker, world.factory, 'createMarket', words)
    await mine(5)
    await caughtUp(follower, 2)
    const [id] = await listed(database)
    assert(id !== undefined)
    await back()
    await mine(4)
    await world.chain.send(world.maker, world.factory, 'createMarket', words)
    await mine(6)
    await caughtUp(follower, 2)
    assert.deepEqual(await listed(database), [id])
    const known = await chainMarketById(database, id)
    assert.equal(known?.withdrawn, false, 'it came back before it was given up')
    const withdrawn = follower.said.filter(
      (news) => news.type === 'MarketsDue' && news.close.length > 0,
    )
    assert.deepEqual(withdrawn, [])
  })

  it('killed again and again in the middle of ranges, it knows in the end what there is', async () => {
    const database = await freshDatabase()
    for (let round = 0; round < 3; round++) {
      await world.createMarket()
      await mine(4)
    }
    await busyMarket()
    const target = await height()
    // Each life is ended at another of its requests, so that every step is cut once.
    for (let life = 1; life < 60; life++) {
      let requests = 0
      let dead: Follower | undefined
      let hasDied = false
      proxy.before = () => {
        if (++requests < life % 17) return
        dead?.stop()
        hasDied = true
      }
      dead = follow({ database, rangeBlocksMax: 5 })
      const { state } = dead
      await eventually(() => assert.ok(hasDied || state.indexed?.number === target))
      dead.stop()
    }
    proxy.before = undefined
    const follower = follow({ database })
    await caughtUp(follower)
    assert.equal((await listed(database)).length, 4)
    assert.deepEqual(await knowledge(database), await readAfresh())
  })
})
