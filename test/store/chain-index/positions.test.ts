/** Positions derived from the chain's events, on both databases. */

import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import type { Address, MarketId } from '#domain/ids.ts'
import {
  POSITION_SYNCS_MAX,
  POSITION_SYNCS_PER_HOLDER_MAX,
  POSITION_SYNCS_PER_MARKET_MAX,
} from '#domain/limits.ts'
import type { Outcome } from '#domain/order.ts'
import { auditPositions } from '#store/audit/audit-positions.ts'
import { claimChain } from '#store/chain-index/cursor.ts'
import { indexRange } from '#store/chain-index/index-range.ts'
import { rewindChain } from '#store/chain-index/rewind-chain.ts'
import { syncPosition } from '#store/chain-index/sync-position.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { payoutsOfUser } from '#store/reads/payouts.ts'
import {
  holdersOf,
  openInterestOf,
  openInterestOfChain,
  positionOf,
  positionsOfUser,
  realisedProfitOf,
} from '#store/reads/positions.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { seedsOf } from '../../support/sample.ts'
import {
  type Bare,
  block,
  CHAIN,
  created,
  mark,
  market,
  merge,
  moved,
  NOW,
  person,
  redeem,
  split,
  traded,
  word,
} from './chain-events.ts'

const [ann, bob, eve] = [person(101), person(102), person(103)] as const

await onBothDatabases('positions', ({ fresh }) => {
  let database: Database
  let at = 0
  before(async () => {
    database = await openDatabase(await fresh())
    await migrate(database)
    const anchor = mark(0)
    const claim = { chainId: CHAIN, deployment: 'here', startBlock: 1, anchor, atMs: 1 }
    await claimChain(database, claim)
  })
  after(() => closeDatabase(database))

  /** Collateral that users paid to markets or received from markets, by block. */
  const cash = new Map<number, { user: Address; id: MarketId; came: bigint }[]>()
  function cashOf(events: readonly Bare[]): { user: Address; id: MarketId; came: bigint }[] {
    return events.flatMap((event) => {
      if (event.type === 'TradeSettled') {
        const { buyer, seller, marketId: id, cost } = event
        return [
          { user: buyer, id, came: -cost },
          { user: seller, id, came: cost },
        ]
      }
      if (event.type !== 'TokensConverted') return []
      const { holder: user, marketId: id, kind, amount } = event
      return [{ user, id, came: kind === 'split' ? -amount : amount }]
    })
  }

  /** Writes the next block. */
  async function happen(...bare: Bare[]): Promise<void> {
    const [from, to] = [mark(at), mark(++at)]
    cash.set(at, cashOf(bare))
    await indexRange(database, {
      chainId: CHAIN,
      after: from,
      upTo: to,
      marks: [to],
      events: block(to, ...bare),
      setAside: [],
      giveUpOrphansOf: -1,
      atMs: 2,
    })
  }
  /** Undoes the newest blocks. */
  async function undo(blocks: number): Promise<void> {
    const [from, to] = [mark(at), mark(at - blocks)]
    await rewindChain(database, { chainId: CHAIN, from, to, atMs: 3 })
    for (; at > to.number; at--) cash.delete(at)
  }
  const made = async (user: Address): Promise<number> =>
    Number(await realisedProfitOf(database, { user, chainId: CHAIN }))
  /**
   * Asserts each user's profit: the collateral received from a market, minus the collateral paid to it, plus the cost
   * of the shares still held.
   */
  async function assertProfits(why = ''): Promise<void> {
    for (const user of [ann, bob, eve]) {
      let all = 0n
      const listed = await positionsOfUser(database, { user, chainId: CHAIN, limit: 99 })
      for (const id of [1, 2]) {
        const [, yesCost = 0, , noCost = 0] = await has(user, id)
        const came = [...cash.values()].flat().filter((each) => each.user === user)
        const own = came.filter((each) => each.id === market(id))
        const profit = own.reduce((sum, each) => sum + each.came, BigInt(yesCost + noCost))
        all += profit
        const position = listed.find(({ marketId }) => marketId === market(id))
        if (position !== undefined) assert.equal(position.realisedProfit, profit, why)
      }
      assert.equal(await made(user), Number(all), why)
    }
  }
  /** Returns YES shares, their cost, NO shares and their cost; empty if there is no position. */
  async function has(user: Address, id: number): Promise<number[]> {
    const found = await positionOf(database, { market: { marketId: market(id) }, user })
    const byAddress = { market: { contractAddress: person(id) }, user }
    assert.deepEqual(await positionOf(database, byAddress), found)
    const onChain = (chainId: number) => ({ market: { ...byAddress.market, chainId }, user })
    assert.deepEqual(await positionOf(database, onChain(CHAIN)), found)
    assert.equal(await positionOf(database, onChain(CHAIN + 1)), undefined)
    if (found === undefined) return []
    return [found.yesShares, found.yesCost, found.noShares, found.noCost].map(Number)
  }
  async function assertAudited(): Promise<void> {
    assert.deepEqual((await auditPositions(database)).differences, [])
  }

  it('the cost of a position falls in proportion to the shares that are sold or given away', async () => {
    await happen(created(1))
    assert.deepEqual(await has(ann, 1), [])
    await happen(...split(1, bob, 1_001n))
    assert.deepEqual(await has(bob, 1), [1_001, 501, 1_001, 500])
    assert.equal(await openInterestOf(database, { marketId: market(1) }), 1_001n)
    // Ann buys 400 and 200 shares from Bob at different prices, in one transaction. Later she sells a third of them.
    await happen(...traded(1, 0, bob, ann, 400n, 220n), ...traded(1, 0, bob, ann, 200n, 141n))
    assert.deepEqual(await has(ann, 1), [600, 361, 0, 0])
    // Each sale removes a proportional part of Bob's cost, rounded down. The first removes 200 of 501, and the second
    // 100 of 301.
    assert.deepEqual(await has(bob, 1), [401, 201, 1_001, 500])
    // Bob's profit is price minus cost: 220 − 200 in the first sale, 141 − 100 in the second.
    assert.deepEqual([await made(bob), await made(ann)], [61, 0])
    await happen(...traded(1, 0, ann, eve, 200n, 180n))
    // Ann receives 180. The cost of these shares is 361 × 200 / 600, rounded down to 120.
    assert.equal(await made(ann), 60)
    assert.deepEqual(await has(ann, 1), [400, 241, 0, 0])
    assert.deepEqual(await has(eve, 1), [200, 180, 0, 0])
    // A gift costs the receiver nothing, and reduces the giver's cost.
    await happen(moved(1, 0, ann, eve, 100n, 'transfer'))
    assert.deepEqual(await has(ann, 1), [300, 181, 0, 0])
    assert.deepEqual(await has(eve, 1), [300, 180, 0, 0])
    assert.deepEqual([await made(ann), await made(eve)], [0, 0], 'a present is a loss of its cost')
    await happen(...merge(1, bob, 401n))
    assert.deepEqual(await has(bob, 1), [0, 0, 600, 300])
    // The merge pays 401. The merged YES shares cost 201, and the NO shares 200, so Bob's profit does not change.
    assert.equal(await made(bob), 61)
    await assertProfits()
    assert.equal(await openInterestOf(database, { marketId: market(1) }), 600n)
    await assertAudited()
  })

  it('a position disappears when all its shares are redeemed, and the user’s payout is listed', async () => {
    const holders = await holdersOf(database, { marketId: market(1), limit: 10 })
    assert.deepEqual(
      holders.top.map(({ holder, yesShares, noShares }) => [holder, yesShares, noShares]),
      [
        [bob, 0n, 600n],
        [eve, 300n, 0n],
        [ann, 300n, 0n],
      ],
    )
    assert.equal(holders.total, 3)
    await happen(...redeem(1, ann, 0, 300n, 300n), ...redeem(1, bob, 1, 600n, 0n))
    assert.deepEqual(await has(ann, 1), [])
    assert.deepEqual(await has(bob, 1), [])
    // Ann receives 300 for shares that cost 181. Bob receives 0 for shares that cost 300, so the earlier profit of 61
    // falls by 300. Both profits stay known after the positions are gone.
    assert.deepEqual([await made(ann), await made(bob)], [119, -239])
    const left = await holdersOf(database, { marketId: market(1), limit: 10 })
    assert.deepEqual([left.top.length, left.total], [1, 1])
    assert.equal(await openInterestOfChain(database, { chainId: CHAIN }), 300n)
    assert.equal(await openInterestOfChain(database, {}), 300n)
    const [payout] = await payoutsOfUser(database, { user: ann, chainId: CHAIN, limit: 5 })
    assert.deepEqual(
      [payout?.marketId, payout?.payout, payout?.status, payout?.marketQuestion],
      [market(1), 300n, 'confirmed', 'Will 1 be drawn?'],
    )
    await assertAudited()
    await undo(1)
    assert.deepEqual(await has(ann, 1), [300, 181, 0, 0])
    assert.deepEqual(await has(bob, 1), [0, 0, 600, 300])
    assert.deepEqual([await made(ann), await made(bob)], [0, 61])
    assert.deepEqual(await payoutsOfUser(database, { user: ann, chainId: CHAIN, limit: 5 }), [])
    await assertAudited()
  })

  it('a reorg undoes the position changes of the removed blocks', async () => {
    // Undoes all blocks after Bob's split. The following tests start from that state.
    await undo(4)
    assert.deepEqual(await has(bob, 1), [1_001, 501, 1_001, 500])
    assert.deepEqual([await has(ann, 1), await has(eve, 1)], [[], []])
    assert.equal((await holdersOf(database, { marketId: market(1), limit: 10 })).total, 1)
    assert.equal(await openInterestOf(database, { marketId: market(1) }), 1_001n)
    await happen(...traded(1, 1, bob, eve, 1_001n, 7n))
    assert.deepEqual(await has(bob, 1), [1_001, 501, 0, 0])
    assert.deepEqual(await has(eve, 1), [0, 0, 1_001, 7])
    await assertAudited()
  })

  it('a trade of a trader with themselves counts as a sale and then a purchase', async () => {
    await happen(...traded(1, 0, bob, bob, 500n, 90n))
    // The sale removes 250 from Bob's cost of 501: 501 × 500 / 1,001, rounded down. The purchase adds 90 to the cost.
    assert.deepEqual(await has(bob, 1), [1_001, 341, 0, 0])
    // Bob's earlier sale of the NO shares made 7 − 500. The sale in this trade adds 90 − 250.
    assert.equal(await made(bob), -653)
    await assertAudited()
  })

  it('a position includes tokens that moved before their market was created', async () => {
    await happen(...split(2, ann, 50n))
    assert.deepEqual(await has(ann, 2), [])
    await happen(created(2), ...traded(2, 0, ann, bob, 10n, 4n))
    assert.deepEqual(await has(ann, 2), [40, 20, 50, 25])
    assert.deepEqual(await has(bob, 2), [10, 4, 0, 0])
    await assertProfits()
    await assertAudited()
  })

  it('the positions of a user are listed page by page', async () => {
    const of = async (limit: number, after?: MarketId) =>
      (await positionsOfUser(database, { user: bob, chainId: CHAIN, limit, after })).map(
        ({ marketId, question, contractAddress, expiration, resolved }) => [
          Number(marketId),
          question,
          Number(contractAddress),
          expiration,
          resolved,
        ],
      )
    const [one, two] = [1, 2].map((id) => [id, `Will ${id} be drawn?`, id, NOW + 10_000, false])
    assert.deepEqual(await of(10), [one, two])
    assert.deepEqual(await of(1), [one])
    assert.deepEqual(await of(1, market(1)), [two])
    assert.deepEqual(await of(1, market(2)), [])
    assert.deepEqual(await positionsOfUser(database, { user: bob, chainId: 1, limit: 9 }), [])
  })

  /**
   * Stores balances that were read from the chain at the block `read`. By default these are Ann's balances in the
   * second market.
   */
  const sync = (yes: number, no: number, read = mark(at), holder: Address = ann, id = 2) =>
    syncPosition(database, {
      chainId: CHAIN,
      marketId: market(id),
      holder,
      blockNumber: read.number,
      blockHash: read.hash,
      yesShares: String(yes),
      noShares: String(no),
      atMs: ++syncs,
    })
  let syncs = 0

  it('a second balance sync at one block replaces the first, and a position’s cost falls with its shares', async () => {
    const { number: blockNumber, hash: blockHash } = mark(at)
    const answer = { yesShares: 40n, yesCost: 20n, noShares: 50n, noCost: 25n }
    assert.deepEqual(await sync(40, 50), { ...answer, blockNumber, blockHash })
    assert.deepEqual(await has(ann, 2), [40, 20, 50, 25])
    await sync(10, 60)
    assert.deepEqual(await has(ann, 2), [10, 5, 60, 25])
    const [difference] = (await auditPositions(database)).differences
    assert.match(difference?.what ?? '', /^position of/)
    // The indexer has already passed this earlier block, so balances read there are ignored.
    const known = await sync(1, 1, mark(at - 1))
    assert.deepEqual(
      [known.yesShares, known.noShares, known.blockNumber, known.blockHash],
      [10n, 60n, blockNumber, blockHash],
    )
    assert.deepEqual(await has(ann, 2), [10, 5, 60, 25])
    await sync(0, 0)
    assert.deepEqual(await has(ann, 2), [])
    assert.equal((await holdersOf(database, { marketId: market(2), limit: 10 })).total, 1)
    await sync(40, 50)
    assert.deepEqual(await has(ann, 2), [40, 0, 50, 0])
    await sqlConnection(database).execute(
      'update positions set yes_cost_e6 = 20, no_cost_e6 = 25 where yes_shares_e6 = 40 and no_shares_e6 = 50',
    )
    await assertAudited()
  })

  const listed = async (user: Address, limit = 10, after?: MarketId) =>
    (await positionsOfUser(database, { user, chainId: CHAIN, limit, after })).map(
      ({ marketId, yesShares, noShares, question }) => [
        ...[Number(marketId), Number(yesShares), Number(noShares), question.length > 0],
      ],
    )

  it('a position shows balances read from a newer block until the indexer has passed that block', async () => {
    const before = await holdersOf(database, { marketId: market(2), limit: 10 })
    const ahead = mark(at + 2)
    const synced = await sync(30, 70, ahead)
    assert.deepEqual(
      [synced.yesShares, synced.yesCost, synced.noShares, synced.noCost, synced.blockHash],
      [30n, 15n, 70n, 25n, ahead.hash],
    )
    assert.deepEqual(await has(ann, 2), [30, 15, 70, 25])
    assert.deepEqual(await listed(ann), [[2, 30, 70, true]])
    assert.deepEqual(await holdersOf(database, { marketId: market(2), limit: 10 }), before)
    await assertAudited()
    // The synced balances contain the changes of two blocks. Here the indexer writes the first of these blocks.
    await happen(moved(2, 0, ann, bob, 10n, 'transfer'))
    assert.deepEqual(await has(ann, 2), [30, 15, 70, 25])
    await happen(...split(2, ann, 20n), moved(2, 0, ann, bob, 20n, 'transfer'))
    assert.deepEqual(await has(ann, 2), [30, 15, 70, 35], 'once, with what they cost')
    await assertAudited()
  })

  it('a balance sync hides positions without shares and shows positions with new shares', async () => {
    assert.deepEqual(await listed(bob), [
      [1, 1_001, 0, true],
      [2, 40, 0, true],
    ])
    await sync(0, 0, mark(at + 1), bob, 1)
    await sync(7, 0, mark(at + 1), eve, 2)
    assert.deepEqual(await has(bob, 1), [])
    assert.deepEqual(await has(eve, 2), [7, 0, 0, 0])
    assert.deepEqual(await listed(bob), [[2, 40, 0, true]])
    assert.deepEqual(await listed(bob, 1), [[2, 40, 0, true]], 'a page is full where there is more')
    assert.deepEqual(await listed(eve), [
      [1, 0, 1_001, true],
      [2, 7, 0, true],
    ])
    assert.deepEqual(await listed(eve, 1, market(1)), [[2, 7, 0, true]])
    assert.deepEqual(await listed(eve, 1), [[1, 0, 1_001, true]])
    await happen()
    assert.deepEqual((await listed(bob)).length, 2)
    assert.deepEqual(await has(eve, 2), [])
  })

  it('a reorg discards balances synced in removed blocks, and a later transfer is counted only once', async () => {
    const [from] = [await has(ann, 2)]
    // Simulates a reorg that replaces the newest indexed block by `other`. The balances are read at `other`, which
    // contains a transfer.
    const other = mark(at, 7)
    await sync(25, 70, other)
    assert.deepEqual(
      (await has(ann, 2)).filter((_, index) => index % 2 === 0),
      [25, 70],
    )
    await undo(1)
    assert.deepEqual(await has(ann, 2), from)
    const [after, upTo] = [mark(at), mark(at + 1, 7)]
    const events = block(upTo, moved(2, 0, ann, bob, 5n, 'transfer'))
    const range = {
      chainId: CHAIN,
      after,
      upTo,
      marks: [upTo],
      events,
      setAside: [],
      giveUpOrphansOf: -1,
      atMs: 9,
    }
    await indexRange(database, range)
    assert.deepEqual(
      (await has(ann, 2)).filter((_, index) => index % 2 === 0),
      [25, 70],
    )
    await assertAudited()
    await rewindChain(database, { chainId: CHAIN, from: upTo, to: after, atMs: 10 })
  })

  /**
   * Inserts `count` balance syncs (balances that were read from the chain). By default each sync has its own market and
   * its own holder. If `named` has a market or a holder, all syncs share it.
   */
  async function laySyncs(count: number, named: { id?: number; holder?: Address }): Promise<void> {
    const ahead = mark(at + 1)
    const rows = Array.from({ length: count }, (_, n) => [
      ...[named.id ?? 1_000 + n, Number(named.holder ?? 5_000 + n)],
      ++syncs,
    ])
    const bytes = (value: number | undefined, size: number) =>
      `x'${(value ?? 0).toString(16).padStart(size, '0')}'`
    for (let start = 0; start < count; start += 1_000) {
      const values = rows.slice(start, start + 1_000).map(
        ([id, holder, atMs]) =>
          `(${bytes(id, 64)}, ${bytes(holder, 40)}, ${CHAIN}, ${ahead.number},
              x'${ahead.hash.slice(2)}', '1', '1', ${atMs})`,
      )
      await sqlConnection(database).execute(
        `insert into position_syncs (market_id, holder, chain_id, block_number, block_hash,
          yes_shares, no_shares, at_ms) values ${values.join(', ')}`,
      )
    }
  }
  const isShown = async (id: number, user: Address): Promise<boolean> =>
    (await positionOf(database, { market: { marketId: market(id) }, user })) !== undefined

  for (const [what, count, named] of [
    ['of a user', POSITION_SYNCS_PER_HOLDER_MAX, { holder: person(5_000) }],
    ['of a market', POSITION_SYNCS_PER_MARKET_MAX, { id: 1_000 }],
    ['of a chain', POSITION_SYNCS_MAX, {}],
  ] as const) {
    it(`only a limited number of balance syncs ${what} is kept, and the oldest is dropped`, async () => {
      await laySyncs(count, named)
      const place = (n: number): [number, Address] => [
        'id' in named ? named.id : 1_000 + n,
        'holder' in named ? named.holder : person(5_000 + n),
      ]
      assert.equal(await isShown(...place(0)), true)
      const [id, holder] = place(count)
      await sync(2, 2, mark(at + 1), holder, id)
      assert.deepEqual(
        [await isShown(...place(0)), await isShown(...place(1)), await isShown(id, holder)],
        [false, true, true],
      )
      await happen()
      assert.equal(await isShown(id, holder), false)
    })
  }

  it('the audit finds positions of unknown markets and chains', async () => {
    const left = [
      `market_holdings (market_id, chain_id, holders, locked_e6) values (?, ${CHAIN}, 1, '5')`,
      `position_profits (market_id, holder, chain_id, profit_e6) values (?, ?, ${CHAIN}, '5')`,
      `chain_holdings (chain_id, holders, locked_e6) values (77, 1, '5')`,
      `holder_profits (chain_id, holder, profit_e6) values (77, ?, '5')`,
    ]
    const values = [[word(99)], [word(99), ann], [], [ann]]
    await assertAudited()
    const found: string[] = []
    for (const [at, row] of left.entries()) {
      const bytes = values[at]?.map((hex) => Buffer.from(hex.slice(2), 'hex')) ?? []
      const undone = `delete from ${row.slice(0, row.indexOf(' '))} where `
      await sqlConnection(database).execute(`insert into ${row}`, bytes)
      const { differences } = await auditPositions(database)
      found.push(...differences.map(({ what }) => what))
      await sqlConnection(database).execute(
        at < 2 ? `${undone}market_id = ?` : `${undone}chain_id = 77`,
        bytes.slice(0, at < 2 ? 1 : 0),
      )
    }
    assert.deepEqual(found, [
      'markets that are held',
      'rows of profits',
      'holdings of chain 77',
      `profit of ${ann} on chain 77`,
    ])
    await assertAudited()
  })

  it('after random transfers and reorgs, all positions agree with the remaining transfers', async () => {
    for (const seed of seedsOf(1, 2)) {
      const random = randomFrom(seed)
      for (let step = 0; step < 25; step++) {
        const depth = random.int(1, 3)
        if (step > 5 && random.chance(0.15)) await undo(depth)
        else await happen(...(await randomEvents(random)))
      }
      assert.deepEqual((await auditPositions(database)).differences, [], `seed ${seed}`)
      await assertProfits(`seed ${seed}`)
    }
    for (const table of ['position_profits', 'holder_profits']) {
      const wrong = (by: number) =>
        sqlConnection(database).execute(
          `update ${table} set profit_e6 = cast(cast(profit_e6 as signed) + (${by}) as char)`,
        )
      await wrong(1)
      assert.match((await auditPositions(database)).differences[0]?.what ?? '', /^profit of/)
      await wrong(-1)
    }
    await sqlConnection(database).execute('update market_holdings set holders = holders + 1')
    assert.match((await auditPositions(database)).differences[0]?.what ?? '', /^holdings of/)
  })

  it('a mint adds only the trader’s own payment to a position’s cost; a merge counts as a sale', async () => {
    const settlement = person(999)
    const [dan, fay] = [person(104), person(105)]
    await happen(created(9))
    // A mint of 3 sets. Dan, the maker, buys NO at 0.40 and pays 3 × 0.40, rounded up to 2. Fay buys YES and pays the
    // remaining 1.
    const [, minted] = traded(9, 1, fay, dan, 3n, 2n)
    await happen(
      ...split(9, settlement, 3n),
      moved(9, 1, settlement, dan, 3n, 'trade'),
      moved(9, 0, settlement, fay, 3n, 'trade'),
      minted!,
    )
    assert.deepEqual(
      [await has(dan, 9), await has(fay, 9)],
      [
        [0, 0, 3, 2],
        [3, 1, 0, 0],
      ],
    )
    assert.deepEqual(await has(settlement, 9), [])
    assert.equal((await holdersOf(database, { marketId: market(9), limit: 9 })).total, 2)
    assert.equal(await openInterestOf(database, { marketId: market(9) }), 3n)
    // A merge of 2 sets. Dan, the maker, sells NO at 0.90 and receives 2 × 0.90, rounded up to 2. Fay sells YES and
    // receives the remaining 0.
    const [, merged] = traded(9, 1, dan, fay, 2n, 2n)
    await happen(
      moved(9, 1, dan, settlement, 2n, 'trade'),
      moved(9, 0, fay, settlement, 2n, 'trade'),
      ...merge(9, settlement, 2n),
      merged!,
    )
    assert.deepEqual(
      [await has(dan, 9), await has(fay, 9)],
      [
        [0, 0, 1, 1],
        [1, 1, 0, 0],
      ],
    )
    // Dan sells 2 of 3 shares, which cost 2 × 2 / 3, rounded down to 1, and receives 2. Fay sells 2 shares, which cost
    // 0, and receives 0.
    assert.deepEqual([await made(dan), await made(fay), await made(settlement)], [1, 0, 0])
    await undo(1)
    assert.deepEqual(
      [await has(dan, 9), await has(fay, 9)],
      [
        [0, 0, 3, 2],
        [3, 1, 0, 0],
      ],
    )
    assert.deepEqual([await made(dan), await made(settlement)], [0, 0])
  })

  /** Returns a few random events that the balances allow. */
  async function randomEvents(random: Random): Promise<Bare[]> {
    const people = [ann, bob, eve]
    const events: Bare[] = []
    const touched = new Set<string>()
    for (let count = random.int(1, 3); count > 0; count--) {
      const id = random.pick([1, 2])
      const [from, to] = [random.pick(people), random.pick(people)]
      if (touched.has(`${id}${from}`)) continue
      touched.add(`${id}${from}`)
      const [yes = 0, , no = 0] = await has(from, id)
      const outcome: Outcome = random.pick([0, 1])
      const all = outcome === 0 ? yes : no
      const some = BigInt(random.int(1, Math.max(1, all)))
      if (all === 0 || random.chance(0.3))
        events.push(...split(id, from, BigInt(random.int(1, 999))))
      else if (random.chance(0.6)) {
        const paid = BigInt(random.int(0, 500))
        events.push(...traded(id, outcome, from, to, some, paid))
      } else if (random.chance(0.35) && Math.min(yes, no) > 0) {
        events.push(...merge(id, from, BigInt(random.int(1, Math.min(yes, no)))))
      } else if (random.chance(0.5)) events.push(moved(id, outcome, from, to, some, 'transfer'))
      else events.push(...redeem(id, from, outcome, some, some))
    }
    return events
  }
})
