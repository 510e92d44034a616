/**
 * Tests the indexer on a real chain behind a faulty provider, with SQLite and with MariaDB or MySQL. The indexer
 * neither loses nor duplicates nor invents a market. The final state equals that of a fresh read of the whole chain.
 */
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, it, type TestContext } from 'node:test'
import { encodeFunctionData } from 'viem'
import { MARKET_TOPICS } from '#chain/market-contract.ts'
import { positionIdOf } from '#chain/position-id.ts'
import { ours } from '#devnet/artifact.ts'
import { type MarketId, type OrderHash, toAddress, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { auditPositions } from '#store/audit/audit-positions.ts'
import { auditSetAside } from '#store/audit/audit-set-aside.ts'
import { indexRange } from '#store/chain-index/index-range.ts'
import { rewindChain } from '#store/chain-index/rewind-chain.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import {
  assertionsOfMarket,
  chainMarketById,
  listChainMarkets,
  marketsWithoutPayout,
  tokenBalancesOf,
} from '#store/reads/chain-markets.ts'
import { openInterestOf, openInterestOfChain, realisedProfitOf } from '#store/reads/positions.ts'
import {
  type Market,
  startWorld,
  UNIT,
  type World,
  ZERO_BYTES32,
} from '../../contracts/support/world.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { eventually } from '../../support/eventually.ts'
import { type Follower, type FollowOptions, followChain } from '../../support/follow-chain.ts'
import { type RpcProxy, startRpcProxy } from '../../support/rpc-proxy.ts'

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

const followers = new Set<Follower>()

function follow(
  options: Pick<FollowOptions, 'database' | 'confirmations' | 'rangeBlocksMax' | 'others'>,
): Follower {
  const contracts = {
    marketFactory: toAddress(world.factory.address),
    conditionalTokens: toAddress(world.conditionalTokens.address),
    settlement: toAddress(world.settlement.address),
    stablecoin: toAddress(world.collateral.address),
  }
  const follower = followChain({ url: proxy.url, chainId: world.chain.id, contracts, ...options })
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

/** Waits until the follower has reached the head of the chain. */
async function caughtUp({ state }: Follower, confirmations = 0): Promise<void> {
  await eventually(async () => {
    const target = (await height()) - confirmations
    assert.equal(state.indexed?.number, target, state.why)
    assert.equal(state.indexed?.hash, await hashAt(target))
  })
}

/** Tables to compare, each with the column that orders its rows. The position of the indexer comes first. */
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
  ['chain_withdrawn_epochs', 'block_number, log_index'],
  ['chain_delegates', 'block_number, log_index'],
  ['chain_set_aside', 'block_number, log_index'],
  ['event_markets', 'market_id'],
  ['events', 'event_hash'],
] as const

await onBothDatabases('the indexer follows a chain', ({ dialect, fresh }) => {
  /** Tests of provider failures run on one database only, because these failures do not depend on the database. */
  const withOne = dialect === 'sqlite' ? it : () => {}
  const opened: Database[] = []
  let used = 0
  /**
   * Returns a database without data of the chain. Empties a used database if there is one, because making a new one
   * takes longer.
   */
  async function freshDatabase(): Promise<Database> {
    const known = opened[used++]
    if (known !== undefined) {
      const derived = [
        ...['positions', 'market_holdings', 'chain_holdings'],
        ...['position_profits', 'holder_profits'],
      ]
      for (const table of [...TABLES.map(([name]) => name), ...derived]) {
        await sqlConnection(known).execute(`delete from ${table}`)
      }
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
    proxy.refuse = undefined
    proxy.twist = undefined
    proxy.logsUpTo = undefined
    await undo()
  })
  after(async () => {
    for (const database of opened) await closeDatabase(database)
  })

  /** Returns the database's data about the chain as text, for comparison. */
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

  /** Reads the whole chain into an empty database at once; returns the result as text. */
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

  /** Makes a market in which two people trade, split and merge. */
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

  it('the indexer’s balances match the chain to the last token, from a market’s creation to its redemption', async () => {
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
      [known?.resolved, known?.winningOutcome, known?.contractAddress],
      [true, 0, toAddress(market.address)],
    )
    const unpaid = await marketsWithoutPayout(database, { chainId: world.chain.id, limit: 9 })
    assert.deepEqual(unpaid, [])
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

  it('the indexer attributes mints and merges to the traders, and no shares to the settlement contract', async () => {
    const { ann, bob, settlement } = world
    const database = await freshDatabase()
    const follower = follow({ database })
    const market = await world.createMarket({ complementary: true })
    const plain = await world.createMarket()
    for (const trader of [ann, bob]) await world.fund(trader, { collateral: 100n * UNIT })
    const [half, size] = [500_000n, 10n * UNIT]
    const no = { price: half, size, outcome: 1 }
    const yes = { price: half, size, outcome: 0 }
    const mint = {
      buy: await world.buy(ann, market.id, yes),
      sell: await world.buy(bob, market.id, no),
    }
    const merge = {
      buy: await world.sell(bob, market.id, no),
      sell: await world.sell(ann, market.id, yes),
    }
    assert.equal((await world.trade(mint.buy, mint.sell, { price: half })).settled, true)
    const part = { price: half, size: 4n * UNIT }
    assert.equal((await world.trade(merge.buy, merge.sell, part)).settled, true)
    await caughtUp(follower)
    const marketId = market.id as string as MarketId
    await balancesAgree(database, marketId, [ann, bob, settlement])
    const open = follower.said.flatMap((news) => (news.type === 'MarketsDue' ? news.open : []))
    const matching = (id: string) => open.find((each) => each.id === id)?.matching
    assert.deepEqual([matching(market.id), matching(plain.id)], ['complementary', undefined])
    const own = toAddress(settlement.address)
    assert.deepEqual(await tokenBalancesOf(database, own, world.chain.id), [])
    const moves = await sqlConnection(database).execute<{ kind: string; times: number }[]>(
      'select kind, count(*) as times from chain_token_moves group by kind order by kind',
      [],
      'all',
    )
    assert.deepEqual(
      moves.map(({ kind, times }) => [kind, Number(times)]),
      [['trade', 4]],
    )
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

  it('the indexer stores each quick market with its start and end prices and its creator', async () => {
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
    const [facts] = await sqlConnection(database).execute<object[]>(
      `select asset, start_sec, cast(start_price_e8 as char) as start_price, price_source, end_source,
        cast(end_price_e8 as char) as end_price, cast(end_start_price_e8 as char) as end_start_price
        from chain_markets where quick = 1`,
    )
    assert.deepEqual(
      { ...facts },
      {
        asset: 'ETH',
        start_sec: Number(startSec),
        start_price: '300000000000',
        price_source: 'pyth',
        end_price: '299000000000',
        end_start_price: '300000000000',
        end_source: 'pyth',
      },
    )
  })

  withOne('the indexer waits for an RPC provider that is down at the start', async () => {
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

  withOne(
    'the indexer follows an RPC provider again after it was down, slow, failing or lagging',
    async () => {
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
      // Each kind of request fails more often than the client retries it. The indexer still catches up, but takes
      // longer.
      const errorTimes = { eth_chainId: 3, eth_getBlockByNumber: 3, eth_getLogs: 3 }
      proxy.faults = { errorTimes }
      markets.unshift((await world.createMarket()).id)
      await caughtUp(follower)
      assert.deepEqual(errorTimes, { eth_chainId: 0, eth_getBlockByNumber: 0, eth_getLogs: 0 })
      proxy.faults = {}
      assert.deepEqual([...(await listed(database))].sort(), [...markets].sort())
      assert.deepEqual(await knowledge(database), await readAfresh())
    },
  )

  withOne(
    'while an Ethereum node lags, the indexer loses no events and detects no reorg',
    async () => {
      const database = await freshDatabase()
      const follower = follow({ database })
      await world.createMarket()
      await caughtUp(follower)
      const seen = await height()
      // The provider returns an old head, as a lagging node behind a load balancer does.
      const late = await world.createMarket()
      proxy.faults = { staleHead: seen - 1 }
      await eventually(() => assert.match(follower.state.why, /behind/))
      proxy.faults = {}
      await caughtUp(follower)
      assert(new Set(await listed(database)).has(late.id as string as MarketId))
      assert.equal(follower.state.reorgs, 0)
    },
  )

  withOne(
    'the indexer does not accept a block whose logs the Ethereum node does not return',
    async () => {
      const database = await freshDatabase()
      const follower = follow({ database })
      await caughtUp(follower)
      const seen = await height()
      // The head is new, but the logs come from a node that does not have this block yet.
      proxy.logsUpTo = seen
      const market = await world.createMarket()
      await eventually(() =>
        assert.match(follower.state.why, /did not return all logs of block \d+/),
      )
      assert.equal(follower.state.indexed?.number, seen)
      proxy.logsUpTo = undefined
      await caughtUp(follower)
      assert.deepEqual(await listed(database), [market.id])
    },
  )

  withOne(
    'the indexer does not accept a block without its logs, even many blocks later',
    async () => {
      const database = await freshDatabase()
      const before = follow({ database })
      await caughtUp(before)
      before.stop()
      proxy.logsUpTo = await height()
      await mine(40)
      const market = await world.createMarket()
      const follower = follow({ database })
      await eventually(() =>
        assert.match(follower.state.why, /did not return all logs of block \d+/),
      )
      proxy.logsUpTo = undefined
      await caughtUp(follower)
      assert.deepEqual(await listed(database), [market.id])
    },
  )

  withOne('a chain log that an Ethereum node returns twice counts once', async () => {
    const database = await freshDatabase()
    const market = await busyMarket()
    proxy.twist = (method, _params, answer) =>
      method === 'eth_getLogs' ? [...(answer as object[]), ...(answer as object[])] : answer
    const follower = follow({ database })
    await caughtUp(follower)
    proxy.twist = undefined
    assert.deepEqual(await auditSetAside(database), [])
    await balancesAgree(database, market.id as string as MarketId, [world.ann, world.bob])
    assert.deepEqual(await knowledge(database), await readAfresh())
  })

  withOne(
    'two chain logs with the same position, and logs of other blocks, are not accepted',
    async () => {
      const database = await freshDatabase()
      await busyMarket()
      const further = { toBlock: 'latest' }
      const madness: [RegExp, (filter: object, logs: object[]) => unknown][] = [
        [
          /has two different logs with the number 7/,
          (_filter, logs) => logs.map((log) => ({ ...log, logIndex: '0x7' })),
        ],
        [
          /was not requested/,
          (filter) => world.chain.request('eth_getLogs', [{ ...filter, ...further }]),
        ],
        [
          /has an invalid log/,
          (_filter, logs) => logs.map((log) => ({ ...log, logIndex: 'the first' })),
        ],
      ]
      const follower = follow({ database, rangeBlocksMax: 4 })
      await caughtUp(follower)
      for (const [why, twisted] of madness) {
        const seen = await height()
        proxy.twist = (method, [filter], answer) =>
          method === 'eth_getLogs' ? twisted(filter as object, answer as object[]) : answer
        proxy.faults = { down: true }
        await world.createMarket()
        await mine(8)
        await world.createMarket()
        proxy.faults = {}
        await eventually(() => assert.match(follower.state.why, why))
        assert.equal(follower.state.indexed?.number, seen)
        proxy.twist = undefined
        await caughtUp(follower)
        assert.deepEqual(await auditSetAside(database), [])
      }
      assert.deepEqual(await knowledge(database), await readAfresh())
    },
  )

  withOne('if an RPC address returns blocks but no logs, the next address is used', async (t) => {
    const other = await startRpcProxy(world.chain)
    t.after(() => other.close())
    const database = await freshDatabase()
    const follower = follow({ database, others: [other.url] })
    await caughtUp(follower)
    const error = { code: -32000, message: 'the logs are not indexed' }
    proxy.faults = { error, errorMethods: ['eth_getLogs'] }
    const refused = await world.createMarket()
    await caughtUp(follower)
    proxy.faults = {}
    // The second provider leaves out logs without an error. The Bloom filters of its blocks show this, so the indexer
    // uses the first provider again.
    other.logsUpTo = await height()
    const silent = await world.createMarket()
    await caughtUp(follower)
    assert.deepEqual([...(await listed(database))].sort(), [refused.id, silent.id].sort())
  })

  withOne('a block range that is too long is read in parts', async () => {
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

  it('if a reorg of five blocks removes a market’s creation, the index equals one that is rebuilt from the chain', async (t: TestContext) => {
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

    // A longer branch without the market's creation replaces the chain.
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

  it('the indexer lists a market exactly once if a reorg moves it to another block', async () => {
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

  it('the indexer still follows the chain after an account splits a huge amount of a worthless token', async () => {
    const { ann, bob, chain, conditionalTokens } = world
    const database = await freshDatabase()
    const follower = follow({ database })
    const market = await busyMarket()
    const free = await chain.deploy(bob, ours('test/FreeCollateral'), [])
    const condition = await prepared(bob, 3n)
    for (const amount of [2n ** 255n, 2n ** 256n - 1n - 2n ** 255n]) {
      await chain.send(bob, conditionalTokens, 'splitPosition', [
        free,
        ZERO_BYTES32,
        condition,
        [1n, 2n, 4n],
        amount,
      ])
    }
    // Bob holds shares of the exchange's market. Bob now also splits the worthless token `free` under this market's
    // condition.
    await chain.send(bob, conditionalTokens, 'splitPosition', [
      free,
      ZERO_BYTES32,
      market.id,
      [1n, 2n],
      2n ** 255n,
    ])
    await world.fund(ann, { shares: 5n * UNIT, market: market.id })
    await caughtUp(follower)
    assert.equal(follower.state.why, '')
    const marketId = market.id as string as MarketId
    await balancesAgree(database, marketId, [ann, bob])
    assert.equal(await openInterestOf(database, { marketId }), 505n * UNIT)
    assert.deepEqual((await auditPositions(database)).differences, [])
    const strangers = await sqlConnection(database).execute(
      `select 1 from chain_token_moves where position_id not in (select position_id from chain_outcomes)`,
    )
    assert.deepEqual(strangers, [])
    assert.deepEqual(await knowledge(database), await readAfresh())
  })

  it('the indexer counts a redemption once, even if it lists each outcome twenty times', async () => {
    const { ann, bob, chain, conditionalTokens, collateral } = world
    const database = await freshDatabase()
    const follower = follow({ database })
    const market = await busyMarket()
    await resolve(market)
    const sets = Array.from({ length: 40 }, (_, at) => (at % 2 === 0 ? 2n : 1n))
    const redeem = [collateral.address, ZERO_BYTES32, market.id, sets] as const
    await chain.send(ann, conditionalTokens, 'redeemPositions', redeem)
    await chain.send(bob, conditionalTokens, 'redeemPositions', redeem)
    await caughtUp(follower)
    const rows = await sqlConnection(database).execute<{ index_sets: string }[]>(
      `select index_sets from chain_conversions where kind = 'redeem'`,
    )
    assert.deepEqual(
      rows.map((row) => row.index_sets),
      ['1,2', '1,2'],
    )
    await balancesAgree(database, market.id as string as MarketId, [ann, bob])
    assert.deepEqual((await auditPositions(database)).differences, [])
  })

  it('the indexer records no profit for an account that merges shares inside a token callback', async () => {
    const { ann, chain, conditionalTokens, collateral } = world
    const database = await freshDatabase()
    const follower = follow({ database })
    const market = await world.createMarket()
    const sets = (amount: bigint) =>
      [collateral.address, ZERO_BYTES32, market.id, [1n, 2n], amount] as const
    const merge = encodeFunctionData({
      abi: conditionalTokens.abi,
      functionName: 'mergePositions',
      args: sets(UNIT),
    }).slice(2)
    // Code of Ann's account: at each call it merges one share of each outcome, and then accepts the received tokens.
    const size = (merge.length / 2).toString(16).padStart(4, '0')
    const call = `5f5f61${size}5f5f73${conditionalTokens.address.slice(2)}5af150`
    const code = `61${size}6100355f39${call}63bc197c8160e01b5f5260205ff3`
    const address = `0x${'6'.repeat(40)}` as const
    await chain.setCode(address, `0x${code.padEnd(2 * 0x35, '0')}${merge}`)
    const authorization = await chain.wallet(ann).signAuthorization({ contractAddress: address })
    await chain
      .wallet(world.relayer)
      .sendTransaction({ authorizationList: [authorization], to: address, gas: 300_000n })
    await world.fund(ann, { shares: 300n * UNIT, market: market.id })
    await chain.send(ann, conditionalTokens, 'mergePositions', sets(299n * UNIT))
    await caughtUp(follower)
    const of = { user: toAddress(ann.address), chainId: chain.id }
    const kinds = await sqlConnection(database).execute<{ kind: string; times: number }[]>(
      'select kind, count(*) as times from chain_token_moves group by kind order by kind',
    )
    assert.deepEqual(
      kinds.map(({ kind, times }) => [kind, Number(times)]),
      [
        ['merge', 4],
        ['split', 2],
      ],
    )
    assert.equal(await realisedProfitOf(database, of), 0n)
  })

  it('stablecoin in conditions that belong to no market of the exchange does not count as open interest', async () => {
    const { ann, bob, chain, conditionalTokens, collateral, factory, maker } = world
    const database = await freshDatabase()
    const follower = follow({ database })
    await busyMarket()
    // Neither condition has a market yet. `strange` never gets one, and the market of `early` is created later.
    const strange = await prepared(bob, 2n)
    const words = ['Was it foreseen?', 'By anybody.', 3, (await chain.now()) + 9_000n] as const
    const [address, early] = await world.read(factory, 'predictMarket', [maker.address, ...words])
    const question = await world.read(factory, 'questionIdOf', [maker.address, ...words])
    await chain.send(bob, conditionalTokens, 'prepareCondition', [address, question, 2n])
    await world.fund(bob, { shares: 700n * UNIT, market: strange })
    await world.fund(bob, { shares: 30n * UNIT, market: early })
    await chain.send(bob, conditionalTokens, 'safeTransferFrom', [
      bob.address,
      ann.address,
      await world.positionId(early, 1),
      4n * UNIT,
      '0x',
    ])
    await caughtUp(follower)
    const all = () => openInterestOfChain(database, { chainId: chain.id })
    assert.equal(await all(), 500n * UNIT)
    const back = await chain.snapshot()
    await chain.send(maker, factory, 'createMarket', words)
    await caughtUp(follower)
    assert.equal(await all(), 530n * UNIT)
    await balancesAgree(database, early as string as MarketId, [ann, bob])
    assert.deepEqual((await auditPositions(database)).differences, [])
    // A reorg removes the market. So stablecoin in the market's condition no longer counts as open interest.
    await back()
    await chain.send(bob, collateral, 'approve', [address, 1n])
    await mine(3)
    await caughtUp(follower)
    assert.equal(await all(), 500n * UNIT)
    assert.deepEqual((await auditPositions(database)).differences, [])
    assert.deepEqual(await knowledge(database), await readAfresh())
  })

  withOne(
    'a block with more logs than an Ethereum node returns is read from its receipts, after a pause',
    async () => {
      for (const unknown of [[], ['eth_getBlockReceipts']]) {
        const database = await freshDatabase()
        const market = await busyMarket()
        const blocks = await height()
        // A split is two logs.
        proxy.faults = { resultsMax: 1 }
        proxy.refuse = (method) =>
          unknown.includes(method) ? { code: -32601, message: 'Method not found' } : undefined
        proxy.requests.clear()
        const follower = follow({ database })
        await caughtUp(follower)
        const requests = [...proxy.requests.values()].reduce((sum, count) => sum + count, 0)
        const receipts = proxy.requests.get(
          unknown.length === 0 ? 'eth_getBlockReceipts' : 'eth_getTransactionReceipt',
        )
        assert((receipts ?? 0) > 0)
        assert(requests < 12 * blocks, `${requests} requests for ${blocks} blocks`)
        follower.stop()
        await balancesAgree(database, market.id as string as MarketId, [world.ann, world.bob])
        proxy.faults = {}
        proxy.refuse = undefined
        assert.deepEqual(await knowledge(database), await readAfresh())
      }
    },
  )

  withOne(
    'the indexer queries an Ethereum node less and less often while the node refuses logs and receipts',
    async () => {
      const database = await freshDatabase()
      await world.createMarket()
      const refused = ['eth_getLogs', 'eth_getBlockReceipts', 'eth_getTransactionReceipt']
      const error = { code: -32005, message: 'query returned more than 1 results' }
      proxy.refuse = (method) => (refused.includes(method) ? error : undefined)
      proxy.requests.clear()
      const follower = follow({ database })
      await eventually(() => assert(follower.state.failures >= 3, follower.state.why))
      const requests = [...proxy.requests.values()].reduce((sum, count) => sum + count, 0)
      assert(requests < 150, `${requests} requests`)
      assert.match(follower.state.why, /more than 1 results/)
      proxy.refuse = undefined
      await caughtUp(follower)
      assert.equal((await listed(database)).length, 1)
    },
  )

  withOne(
    'the indexer does not request logs of other contracts that look like those of markets',
    async () => {
      const database = await freshDatabase()
      const follower = follow({ database })
      const market = await world.createMarket()
      const spammer = world.chain.account(15).address
      const [topic = '0x'] = MARKET_TOPICS
      // Code of a contract that emits the same log twenty times, with one topic and no data.
      const log = `7f${topic.slice(2)}5f5fa1`
      const code = `0x${log.repeat(20)}00` as const
      const address = `0x${'5'.repeat(40)}` as const
      await world.chain.setCode(address, code)
      proxy.faults = { resultsMax: 10 }
      await world.chain.wallet(world.carol).sendTransaction({ to: address, gas: 500_000n })
      await world.chain.send(world.owner, world.collateral, 'mint', [spammer, 1n])
      await caughtUp(follower)
      assert.equal(follower.state.receiptsFor, 0)
      assert.deepEqual(await listed(database), [market.id])
    },
  )

  it('the indexer skips a chain event that the database rejects, and indexes the events around it', async () => {
    const database = await freshDatabase()
    const market = await busyMarket()
    const follower = follow({ database })
    await caughtUp(follower)
    follower.stop()
    const { indexed } = follower.state
    assert(indexed !== undefined)
    const upTo = { ...indexed, number: indexed.number + 1, hash: `0x${'ab'.repeat(32)}` }
    const at = { blockNumber: upTo.number, txHash: upTo.hash, atSec: upTo.atSec }
    const marketId = market.id as string as MarketId
    const withdrawn = (logIndex: number, hash: string) =>
      ({
        type: 'OrderWithdrawn',
        ...at,
        logIndex,
        orderHash: hash as OrderHash,
        trader: toAddress(world.ann.address),
        effectiveAtSec: 1,
      }) as const
    const moved = (logIndex: number, amount: bigint, to: `0x${string}`) =>
      ({
        type: 'TokensMoved',
        ...at,
        logIndex,
        part: 0,
        positionId: positionIdOf(toAddress(world.collateral.address), marketId, 0),
        from: ZERO_ADDRESS,
        to: toAddress(to),
        amount,
        kind: 'mint',
      }) as const
    const huge = 2n ** 256n - 1n
    const events = [
      withdrawn(0, `0x${'01'.repeat(32)}`),
      withdrawn(1, `0x${'01'.repeat(32)}`),
      moved(2, huge, world.carol.address),
      withdrawn(3, 'no hash at all'),
      moved(4, huge, world.carol.address),
      withdrawn(5, `0x${'02'.repeat(32)}`),
    ]
    const range = {
      chainId: world.chain.id,
      after: indexed,
      upTo,
      marks: [upTo],
      events,
      setAside: [],
      giveUpOrphansOf: -1,
      atMs: 5,
    }
    const written = await indexRange(database, range)
    assert.deepEqual(
      written.setAside.map(({ logIndex, event }) => [logIndex, event]),
      [
        [1, 'OrderWithdrawn'],
        [3, 'OrderWithdrawn'],
      ],
    )
    assert.deepEqual(
      (await auditSetAside(database)).map(({ logIndex, txHash }) => [logIndex, txHash]),
      [
        [1, upTo.hash],
        [3, upTo.hash],
      ],
    )
    const known = await tokenBalancesOf(database, toAddress(world.carol.address), world.chain.id)
    assert.deepEqual(
      known.map(({ balance }) => balance),
      [String(2n * huge)],
    )
    assert.deepEqual((await auditPositions(database)).differences, [])
    const again = await indexRange(database, range)
    assert.deepEqual(
      [again.written, again.setAside.map(({ logIndex }) => logIndex)],
      ['already', [1, 3]],
    )
    await rewindChain(database, { chainId: world.chain.id, from: upTo, to: indexed, atMs: 6 })
    assert.deepEqual(await auditSetAside(database), [])
    assert.deepEqual(await knowledge(database), await readAfresh())
  })

  /** A condition of a stranger. */
  async function prepared(account: World['ann'], outcomes: bigint): Promise<`0x${string}`> {
    const question = `0x${'77'.repeat(32)}` as const
    const args = [account.address, question, outcomes] as const
    await world.chain.send(account, world.conditionalTokens, 'prepareCondition', args)
    return world.read(world.conditionalTokens, 'getConditionId', args)
  }

  async function resolve(market: Market): Promise<void> {
    const { ann, bob, chain, collateral, owner } = world
    await chain.warpTo(market.expiration)
    await chain.send(owner, collateral, 'mint', [bob.address, 10_000n * UNIT])
    await chain.send(bob, collateral, 'approve', [market.address, 10_000n * UNIT])
    await chain.send(bob, market, 'propose', [true])
    await chain.warp(7_201)
    await chain.send(ann, market, 'settle', [])
  }

  it('an indexer that is repeatedly killed in the middle of block ranges still indexes the whole chain correctly', async () => {
    const database = await freshDatabase()
    for (let round = 0; round < 3; round++) {
      await world.createMarket()
      await mine(4)
    }
    await busyMarket()
    const target = await height()
    // The indexers are killed at different requests, from the first to the sixteenth, so that every step is
    // interrupted.
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
