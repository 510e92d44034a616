/**
 * Tests the chain index on both databases: blocks are written once and undone exactly, and readers find the data that
 * they need.
 */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import type { BlockMark, ChainEvent, MoveKind } from '#domain/chain-event.ts'
import {
  type Address,
  type MarketId,
  type OrderHash,
  type Uint64,
  ZERO_ADDRESS,
} from '#domain/ids.ts'
import { claimChain } from '#store/chain-index/cursor.ts'
import { type ChainRange, indexRange } from '#store/chain-index/index-range.ts'
import { rewindChain } from '#store/chain-index/rewind-chain.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { bytesOf } from '#store/engine/hex.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import {
  assertionsOfMarket,
  chainMarketById,
  listChainMarkets,
  marketsToReconcile,
  marketsWithoutPayout,
  tokenBalancesOf,
} from '#store/reads/chain-markets.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { type Random, randomFrom } from '../../support/random.ts'

const CHAIN = 31_337
const NOW = 1_800_000_000

const word = (value: number | string) => `0x${value.toString(16).padStart(64, '0')}`
const person = (value: number) => `0x${value.toString(16).padStart(40, '0')}` as Address
const markOf = (number: number, fork = 0): BlockMark => ({
  number,
  hash: word(number * 1_000 + fork + 1),
  atSec: NOW + number,
})

/** An event without its position in the chain. The test adds the position. */
type Bare = ChainEvent extends infer Each
  ? Each extends ChainEvent
    ? Omit<Each, 'blockNumber' | 'logIndex' | 'txHash' | 'atSec'>
    : never
  : never
function block(mark: BlockMark, ...bare: Bare[]): ChainEvent[] {
  return bare.map(
    (event, logIndex) =>
      ({
        ...event,
        blockNumber: mark.number,
        logIndex,
        txHash: word(mark.number * 100 + logIndex + 7),
        atSec: mark.atSec,
      }) as ChainEvent,
  )
}

function created(id: number, quick = false): Bare {
  const market = {
    id: word(id) as MarketId,
    question: `Will Ümläut ${id} rain?`,
    description: 'By the gauge 🌧.',
    category: 'defi' as const,
    contractAddress: person(id),
    maker: person(9),
    expiration: NOW + 10_000,
    chainId: CHAIN,
    createdAt: NOW + id,
    quick,
  }
  const start = { asset: 'BTC', startSec: NOW, endSec: NOW + 900, startPrice: 65n, source: 'pyth' }
  return {
    type: 'MarketCreated',
    market,
    positions: [word(id * 10), word(id * 10 + 1)],
    ...(quick ? { quick: start } : {}),
  }
}

const moved = (
  token: number,
  from: Address,
  to: Address,
  amount: bigint,
  kind: MoveKind = 'transfer',
): Bare => ({ type: 'TokensMoved', part: 0, positionId: word(token), from, to, amount, kind })

await onBothDatabases('the index of the chain is stored', ({ fresh }) => {
  let database: Database
  before(async () => {
    database = await openDatabase(await fresh())
    await migrate(database)
  })
  after(() => closeDatabase(database))

  const claim = (chainId: number) =>
    claimChain(database, {
      chainId,
      deployment: 'here',
      startBlock: 1,
      anchor: markOf(0),
      atMs: 1,
    })
  const range = (
    chainId: number,
    after: BlockMark,
    marks: BlockMark[],
    events: ChainEvent[],
    giveUpOrphansOf = -1,
  ): ChainRange => {
    const upTo = marks.at(-1)
    assert(upTo !== undefined)
    return { chainId, after, upTo, marks, events, setAside: [], giveUpOrphansOf, atMs: 2 }
  }
  /** Returns the content of the tables of a chain, without balances of zero. */
  async function dump(chainId: number): Promise<string> {
    const tables = [
      ['chain_cursors', 'chain_id'],
      ['chain_blocks', 'block_number'],
      ['chain_markets', 'market_id'],
      ['chain_assertions', 'assertion_id'],
      ['chain_market_events', 'block_number, log_index'],
      ['chain_token_moves', 'block_number, log_index, part'],
      ['chain_token_balances', 'position_id, holder'],
      ['chain_conversions', 'block_number, log_index'],
      ['chain_trades', 'block_number, log_index'],
      ['chain_withdrawn_orders', 'order_hash'],
      ['chain_withdrawn_epochs', 'block_number, log_index'],
      ['event_markets', 'market_id'],
      ['events', 'event_hash'],
    ]
    const all: unknown[] = []
    for (const [table, order] of tables) {
      const rows = await sqlConnection(database).execute<Record<string, unknown>[]>(
        `select * from ${table} where chain_id = ? order by ${order}`,
        [chainId],
        'all',
      )
      for (const row of rows) {
        if (Number(row.balance_e6) === 0 || Number(row.listed) === 0) continue
        delete row.updated_at_ms
        // The block of a balance is not compared. An undo sets it to the last remaining block, even if the balance last
        // changed in another block.
        if (table === 'chain_token_balances') delete row.block_number
        all.push([table, row])
      }
    }
    return JSON.stringify(all, (_key, value) =>
      value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
    )
  }

  it('the chain index stores each block range once, and refuses ranges that do not continue the previous range', async () => {
    const { indexed } = await claim(CHAIN)
    assert.deepEqual(indexed, markOf(0))
    const first = range(CHAIN, indexed, [markOf(5)], block(markOf(5), created(1), created(2, true)))
    assert.deepEqual(await indexRange(database, first), {
      written: 'applied',
      withdrawn: [],
      setAside: [],
    })
    assert.deepEqual(await indexRange(database, first), {
      written: 'already',
      withdrawn: [],
      setAside: [],
    })
    await assert.rejects(indexRange(database, range(CHAIN, markOf(3), [markOf(9)], [])), {
      code: 'STORE_CHAIN_MOVED',
    })
    const again = await claim(CHAIN)
    assert.deepEqual(again, { indexed: markOf(5), marks: [markOf(5), markOf(0)] })
    await assert.rejects(
      claimChain(database, {
        chainId: CHAIN,
        deployment: 'elsewhere',
        startBlock: 1,
        anchor: markOf(0),
        atMs: 1,
      }),
      { code: 'STORE_FOREIGN_CHAIN' },
    )
    const found = await listChainMarkets(database, { limit: 10 })
    assert.deepEqual(
      found.map(({ id, quick }) => [id, quick]),
      [
        [word(1), false],
        [word(2), true],
      ],
    )
  })

  it('the market list of the chain index filters by kind, text, category, state and chain, page by page', async () => {
    const ids = async (filter: object) =>
      (await listChainMarkets(database, { limit: 10, ...filter })).map(({ id }) => Number(id))
    assert.deepEqual(await ids({ quick: false }), [1])
    assert.deepEqual(await ids({ quick: true }), [2])
    assert.deepEqual(await ids({ search: 'WILL' }), [1, 2])
    assert.deepEqual(await ids({ search: 'üMlÄut 1' }), [1])
    assert.deepEqual(await ids({ search: '%' }), [])
    assert.deepEqual(await ids({ category: 'general' }), [])
    assert.deepEqual(await ids({ resolved: true }), [])
    assert.deepEqual(await ids({ chainId: 1 }), [])
    assert.deepEqual(await ids({ limit: 1 }), [1])
    const after = { createdAt: NOW + 1, id: word(1) as MarketId }
    assert.deepEqual(await ids({ limit: 1, after }), [2])
  })

  it('open markets are listed before ended ones, page by page', async () => {
    // The oldest one ends first.
    const expire = (seconds: number) =>
      sqlConnection(database).execute(
        'update chain_markets set expires_at_sec = expires_at_sec + ? where market_id = ?',
        [seconds, bytesOf(word(1))],
        'run',
      )
    await expire(-1)
    const markets = await listChainMarkets(database, { limit: 10 })
    const nowSec = Math.min(...markets.map(({ expiration }) => expiration))
    const isOpen = ({ expiration }: { expiration: number }) => expiration > nowSec
    const [open, ended] = [markets.filter(isOpen), markets.filter((each) => !isOpen(each))]
    assert.ok(open.length > 0 && ended.length > 0)
    const list = (filter: object) => listChainMarkets(database, { limit: 10, nowSec, ...filter })
    assert.deepEqual(await list({}), [...open, ...ended])
    assert.deepEqual(await list({ status: 'open' }), open)
    assert.deepEqual(await list({ status: 'ended' }), ended)
    const paged = []
    for (let after: object | undefined; ; ) {
      const [next] = await list({ limit: 1, ...(after === undefined ? {} : { after }) })
      if (next === undefined) break
      paged.push(next)
      after = { createdAt: next.createdAt, id: next.id, ended: !isOpen(next) }
    }
    assert.deepEqual(paged, [...open, ...ended])
    await expire(1)
  })

  it('a resolution is returned with each of its steps; a reorg removes the steps of removed blocks', async () => {
    const chainId = 2
    await claim(chainId)
    const market = word(1_001) as MarketId
    const own = (event: Bare): Bare =>
      'market' in event ? { ...event, market: { ...event.market, id: market, chainId } } : event
    const proposed: Bare = {
      type: 'ResolutionProposed',
      marketId: market,
      assertionId: word(77),
      proposer: person(1),
      asserter: person(2),
      outcome: 1,
      bond: 2n ** 60n + 1n,
      assertedAtSec: NOW + 5,
      windowEndsAtSec: NOW + 7_205,
    }
    const m5 = markOf(5)
    await indexRange(
      database,
      range(chainId, markOf(0), [m5], block(m5, own(created(1_001)), proposed)),
    )
    const before = await dump(chainId)
    const disputed: Bare = {
      type: 'ResolutionDisputed',
      marketId: market,
      assertionId: word(77),
    }
    const resolved: Bare = {
      type: 'MarketResolved',
      marketId: market,
      assertionId: word(77),
      winningOutcome: 1,
    }
    const paid: Bare = { type: 'ConditionResolved', marketId: market, payouts: [0n, 1n] }
    const m6 = markOf(6)
    const m7 = markOf(7)
    await indexRange(
      database,
      range(chainId, m5, [m6, m7], [...block(m6, disputed), ...block(m7, resolved, paid)]),
    )
    const [assertion] = await assertionsOfMarket(database, market)
    assert.equal(assertion?.bond, String(2n ** 60n + 1n))
    assert.deepEqual(
      [assertion?.disputed, assertion?.endedAs, assertion?.outcome],
      [true, 'settled', 1],
    )
    const known = await chainMarketById(database, market)
    assert.deepEqual(
      [known?.resolved, known?.winningOutcome, known?.resolvedTx],
      [true, 1, word(m7.number * 100 + 7)],
    )
    assert.deepEqual(await marketsWithoutPayout(database, { chainId, limit: 9 }), [])
    const undone = { chainId, from: m7, to: m5, atMs: 3 }
    assert.deepEqual(await rewindChain(database, undone), {
      written: 'applied',
      orphaned: [],
      reverted: [market],
    })
    assert.equal((await rewindChain(database, undone)).written, 'already')
    assert.equal(await dump(chainId), before)
  })

  it('if a reorg removes a market, the chain index hides the market until the chain contains it again', async () => {
    const chainId = 3
    await claim(chainId)
    const id = word(2_001) as MarketId
    const own = created(2_001)
    if ('market' in own) Object.assign(own, { market: { ...own.market, chainId } })
    const [m1, m2] = [markOf(1), markOf(2)]
    await indexRange(database, range(chainId, markOf(0), [m1, m2], block(m2, own)))
    const reconcile = () => marketsToReconcile(database, { chainId, nowSec: NOW, limit: 9 })
    assert.deepEqual(
      (await reconcile()).open.map((market) => market.id),
      [id],
    )
    const gone = await rewindChain(database, { chainId, from: m2, to: m1, atMs: 3 })
    assert.deepEqual(gone.orphaned, [id])
    assert.equal(await chainMarketById(database, id), undefined)
    assert.deepEqual((await reconcile()).open, [])
    const m3 = markOf(3, 1)
    await indexRange(database, range(chainId, m1, [m3], block(m3, own), 0))
    const back = await chainMarketById(database, id)
    assert.deepEqual([back?.id, back?.withdrawn], [id, false])
    await rewindChain(database, { chainId, from: m3, to: m1, atMs: 3 })
    const m9 = markOf(9, 2)
    const late = await indexRange(database, range(chainId, m1, [m9], [], 3))
    assert.deepEqual(late.withdrawn, [id])
    assert.equal(await chainMarketById(database, id), undefined)
  })

  it('balances are the sums of all transfers, and transfers that a reorg removed do not count', async () => {
    const seed = Number(process.env.TEST_SEED ?? Date.now() % 1e9)
    const random = randomFrom(seed)
    const chainId = 4
    await claim(chainId)
    let marks = [markOf(0)]
    const dumps = new Map([[0, await dump(chainId)]])
    const held = [new Map<string, bigint>()]
    let fork = 0
    for (let step = 0; step < 25; step++) {
      const top = marks.at(-1)
      assert(top !== undefined)
      if (random.chance(0.3) && marks.length > 2) {
        const keep = random.int(1, marks.length - 1)
        const to = marks[keep - 1]
        assert(to !== undefined)
        await rewindChain(database, { chainId, from: top, to, atMs: 3 })
        marks = marks.slice(0, keep)
        held.length = keep
        assert.equal(await dump(chainId), dumps.get(to.number), `TEST_SEED=${seed}`)
        continue
      }
      fork++
      const next = markOf(top.number + random.int(1, 3), fork)
      const balances = new Map(held.at(-1))
      const events = block(next, ...randomEvents(random, balances, fork))
      await indexRange(database, range(chainId, top, [next], events))
      marks.push(next)
      held.push(balances)
      dumps.set(next.number, await dump(chainId))
    }
    const rows = await sqlConnection(database).execute<
      { position_id: Uint8Array; holder: Uint8Array; balance: string }[]
    >(
      `select position_id, holder, cast(balance_e6 as char) as balance
        from chain_token_balances where chain_id = ?`,
      [chainId],
      'all',
    )
    const stored = new Map(
      rows
        .filter(({ balance }) => balance !== '0')
        .map((row) => [
          `0x${Buffer.from(row.position_id).toString('hex')}0x${Buffer.from(row.holder).toString('hex')}`,
          BigInt(row.balance),
        ]),
    )
    const expected = [...(held.at(-1) ?? [])].filter(([, balance]) => balance !== 0n)
    assert.deepEqual(new Map([...stored].sort()), new Map(expected.sort()), `TEST_SEED=${seed}`)
  })

  it('the chain index finds a balance by holder, market and outcome, and a trade by its id', async () => {
    const chainId = 5
    await claim(chainId)
    const own = created(3_001)
    if ('market' in own) Object.assign(own, { market: { ...own.market, chainId } })
    const m1 = markOf(1)
    const trade: Bare = {
      type: 'TradeRejected',
      tradeKey: word(99),
      buyHash: word(1) as OrderHash,
      sellHash: word(2) as OrderHash,
      fault: 'buyer',
      reason: 'InsufficientCollateral',
    }
    await indexRange(
      database,
      range(
        chainId,
        markOf(0),
        [m1],
        block(m1, own, moved(30_011, ZERO_ADDRESS, person(5), 7n, 'split'), trade),
      ),
    )
    assert.deepEqual(await tokenBalancesOf(database, person(5), chainId), [
      { marketId: word(3_001), outcome: 1, balance: '7' },
    ])
    const [told] = await sqlConnection(database).execute<
      { settled: number; fault: string; reason: string }[]
    >('select settled, fault, reason from chain_trades where trade_key = ?', [bytesOf(word(99))])
    assert.deepEqual(
      [told?.settled, told?.fault, told?.reason],
      [0, 'buyer', 'InsufficientCollateral'],
    )
  })
})

function randomEvents(random: Random, balances: Map<string, bigint>, salt: number): Bare[] {
  const events: Bare[] = []
  for (let count = random.int(0, 6); count > 0; count--) {
    const token = random.int(1, 3)
    const people = [ZERO_ADDRESS, person(1), person(2), person(3)]
    const from = random.pick(people)
    const to = random.pick(people)
    const key = (who: Address) => `${word(token)}${who}`
    const has = from === ZERO_ADDRESS ? 10n ** 15n : (balances.get(key(from)) ?? 0n)
    const amount = BigInt(random.int(0, Number(has)))
    if (from !== ZERO_ADDRESS) balances.set(key(from), has - amount)
    if (to !== ZERO_ADDRESS) balances.set(key(to), (balances.get(key(to)) ?? 0n) + amount)
    events.push(moved(token, from, to, amount))
  }
  events.push({
    type: 'TokensConverted',
    kind: 'redeem',
    holder: person(1),
    marketId: word(1) as MarketId,
    amount: 5n,
    indexSets: [1n, 2n],
  })
  events.push({
    type: 'OrderWithdrawn',
    orderHash: word(10_000 + salt) as OrderHash,
    trader: person(1),
    effectiveAtSec: NOW,
  })
  events.push({
    type: 'OrdersWithdrawn',
    trader: person(2),
    beforeNonce: String(2n ** 64n - 1n) as Uint64,
    effectiveAtSec: NOW,
  })
  return events
}
