/** Positions as they follow from the chain's events, on both databases. */

import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { auditPositions } from '#store/audit/audit-positions.ts'
import { claimChain } from '#store/chain-index/cursor.ts'
import { indexRange } from '#store/chain-index/index-range.ts'
import { rewindChain } from '#store/chain-index/rewind-chain.ts'
import { syncPosition } from '#store/chain-index/sync-position.ts'
import {
  closeDatabase,
  type Database,
  openDatabase,
  sqlConnection,
} from '#store/engine/database.ts'
import { migrate } from '#store/engine/migrate.ts'
import { payoutsOfUser } from '#store/reads/payouts.ts'
import {
  holdersOf,
  openInterestOf,
  openInterestOfChain,
  positionOf,
  positionsOfUser,
} from '#store/reads/positions.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { type Random, randomFrom } from '../../support/random.ts'
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

  /** Writes the next block. */
  async function happen(...bare: Bare[]): Promise<void> {
    const [from, to] = [mark(at), mark(++at)]
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
    at -= blocks
  }
  /** Yes shares and cost, no shares and cost; nothing where there is no position. */
  async function has(user: Address, id: number): Promise<number[]> {
    const found = await positionOf(database, { market: { marketId: market(id) }, user })
    const byAddress = { market: { contractAddress: person(id) }, user }
    assert.deepEqual(await positionOf(database, byAddress), found)
    if (found === undefined) return []
    return [found.yesShares, found.yesCost, found.noShares, found.noCost].map(Number)
  }
  async function assertAudited(): Promise<void> {
    assert.deepEqual((await auditPositions(database)).differences, [])
  }

  it('cost what was paid, and lose their proportion of it with what leaves', async () => {
    await happen(created(1))
    assert.deepEqual(await has(ann, 1), [])
    await happen(...split(1, bob, 1_001n))
    assert.deepEqual(await has(bob, 1), [1_001, 501, 1_001, 500])
    assert.equal(await openInterestOf(database, { marketId: market(1) }), 1_001n)
    // Two purchases at different prices in one transaction, then a sale of a third.
    await happen(...traded(1, 0, bob, ann, 400n, 220n), ...traded(1, 0, bob, ann, 200n, 141n))
    assert.deepEqual(await has(ann, 1), [600, 361, 0, 0])
    // Bob's cost leaves in proportion, rounded down both times: 501 − 200, then 301 − 100.
    assert.deepEqual(await has(bob, 1), [401, 201, 1_001, 500])
    await happen(...traded(1, 0, ann, eve, 200n, 180n))
    assert.deepEqual(await has(ann, 1), [400, 241, 0, 0])
    assert.deepEqual(await has(eve, 1), [200, 180, 0, 0])
    // A present costs nothing, and takes cost away from the giver.
    await happen(moved(1, 0, ann, eve, 100n, 'transfer'))
    assert.deepEqual(await has(ann, 1), [300, 181, 0, 0])
    assert.deepEqual(await has(eve, 1), [300, 180, 0, 0])
    await happen(...merge(1, bob, 401n))
    assert.deepEqual(await has(bob, 1), [0, 0, 600, 300])
    assert.equal(await openInterestOf(database, { marketId: market(1) }), 600n)
    await assertAudited()
  })

  it('are gone when everything is redeemed, and the payout is told', async () => {
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
    assert.deepEqual(await payoutsOfUser(database, { user: ann, chainId: CHAIN, limit: 5 }), [])
    await assertAudited()
  })

  it('go back with the blocks that made them', async () => {
    // Back to right after the split, and another way from there.
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

  it('a trade with oneself is a sale and then a purchase', async () => {
    await happen(...traded(1, 0, bob, bob, 500n, 90n))
    // 501 × 500 / 1001 = 250 leave, 90 come.
    assert.deepEqual(await has(bob, 1), [1_001, 341, 0, 0])
    await assertAudited()
  })

  it('are known of a market whose tokens moved before it was created', async () => {
    await happen(...split(2, ann, 50n))
    assert.deepEqual(await has(ann, 2), [])
    await happen(created(2), ...traded(2, 0, ann, bob, 10n, 4n))
    assert.deepEqual(await has(ann, 2), [40, 20, 50, 25])
    assert.deepEqual(await has(bob, 2), [10, 4, 0, 0])
    await assertAudited()
  })

  it('of a user are listed page by page', async () => {
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

  it('are overwritten by a sync, which scales the cost of what is gone down', async () => {
    const sync = (yes: number, no: number, blockNumber = at) =>
      syncPosition(database, {
        chainId: CHAIN,
        marketId: market(2),
        holder: ann,
        blockNumber,
        yesShares: String(yes),
        noShares: String(no),
      })
    assert.equal(await sync(40, 50), 'synced')
    assert.deepEqual(await has(ann, 2), [40, 20, 50, 25])
    assert.equal(await sync(10, 60), 'synced')
    assert.deepEqual(await has(ann, 2), [10, 5, 60, 25])
    const [difference] = (await auditPositions(database)).differences
    assert.match(difference?.what ?? '', /^position of/)
    // What the chain said of a block before the last movement, or of one still to come, is no use.
    assert.equal(await sync(1, 1, at - 1), 'moved')
    assert.equal(await sync(1, 1, at + 1), 'moved')
    assert.equal(await sync(0, 0), 'synced')
    assert.deepEqual(await has(ann, 2), [])
    assert.equal((await holdersOf(database, { marketId: market(2), limit: 10 })).total, 1)
    await sync(40, 50)
    assert.deepEqual(await has(ann, 2), [40, 0, 50, 0])
    await sqlConnection(database).execute(
      'update positions set yes_cost_e6 = 20, no_cost_e6 = 25 where yes_shares_e6 = 40 and no_shares_e6 = 50',
    )
    await assertAudited()
  })

  it('agree with the movements after any flow and any undoing', async () => {
    for (const seed of [1, 2]) {
      const random = randomFrom(seed)
      for (let step = 0; step < 25; step++) {
        const depth = random.int(1, 3)
        if (step > 5 && random.chance(0.15)) await undo(depth)
        else await happen(...(await randomEvents(random)))
      }
      assert.deepEqual((await auditPositions(database)).differences, [], `seed ${seed}`)
    }
    await sqlConnection(database).execute('update market_holdings set holders = holders + 1')
    assert.match((await auditPositions(database)).differences[0]?.what ?? '', /^holdings of/)
  })

  /** A few things that the balances allow. */
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
