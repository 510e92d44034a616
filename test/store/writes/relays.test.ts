import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Claim, ClaimRecord, RelayKey } from '#domain/relay.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { type ClaimPlace, claimsByStatus, redemptionOf } from '#store/reads/claims.ts'
import {
  changeRelay,
  confirmedRelaysOf,
  type OpenedRelay,
  openRelay,
  type RelayChange,
  relayByKey,
  relayGasSince,
  unfinishedRelays,
} from '#store/writes/relays.ts'
import { runWrites } from '#store/writes/writes.ts'
import { onBothDatabases } from '../../support/databases.ts'

const NOW_MS = 1_800_000_000_000
let made = 0
const hex = (bytes: number) => `0x${(++made).toString(16).padStart(bytes * 2, '0')}` as const
const user = () => hex(20) as Address

function relayOf(fields: Partial<OpenedRelay> = {}): OpenedRelay {
  const key = hex(32) as RelayKey
  const base = { key, chainId: ++made, kind: 'ctf-redemption', owner: user() } as const
  return { ...base, attempt: 1, gas: 100_000, claims: [], atMs: NOW_MS, ...fields }
}

function claimOf(relay: Pick<OpenedRelay, 'chainId' | 'owner'>, payout = 5_000_000): Claim {
  return {
    chainId: relay.chainId,
    userAddress: relay.owner,
    marketId: hex(32) as MarketId,
    marketAddress: user(),
    payout,
    winningOutcome: 1,
  }
}

function changeOf(relay: OpenedRelay, fields: Partial<RelayChange> = {}): RelayChange {
  const base = { key: relay.key, attempt: 1, status: 'submitted', txHash: '', gas: null } as const
  return { ...base, reason: '', atMs: NOW_MS + 1, ...fields }
}

await onBothDatabases('operations of the relayer are stored', ({ fresh }) => {
  let database: Database
  before(async () => {
    database = await openDatabase(await fresh())
    await migrate(database)
  })
  after(() => closeDatabase(database))

  it('a relayer operation is stored once, and storing it again returns the first row', async () => {
    const relay = relayOf()
    const first = await openRelay(database, relay)
    assert.equal(first.opened, true)
    assert.deepEqual(await openRelay(database, { ...relay, gas: 7 }), { ...first, opened: false })
    const txHash = hex(32)
    assert.equal(await changeRelay(database, changeOf(relay, { txHash })), true)
    const again = await openRelay(database, relay)
    assert.equal(again.opened, false)
    assert.deepEqual(again.record, {
      ...first.record,
      status: 'submitted',
      txHash,
      updatedAtMs: NOW_MS + 1,
    })
    assert.deepEqual(await relayByKey(database, { key: relay.key }), again.record)
  })

  it('a failed relayer operation can be opened again, and late reports of its first attempt change nothing', async () => {
    const relay = relayOf()
    const claims = [claimOf(relay), claimOf(relay)]
    await openRelay(database, { ...relay, claims })
    await changeRelay(database, changeOf(relay, { status: 'failed', gas: 40_000, reason: 'no' }))
    assert.equal((await relayByKey(database, { key: relay.key }))?.reason, 'no')
    const next = await openRelay(database, {
      ...relay,
      attempt: 2,
      claims: claims.slice(0, 1),
      atMs: NOW_MS + 9,
    })
    assert.equal(next.opened, true)
    assert.equal(next.record.attempt, 2)
    assert.equal(next.record.gas, 140_000)
    const late = changeOf(relay, { status: 'confirmed', txHash: hex(32) })
    assert.equal(await changeRelay(database, late), false)
    assert.equal((await relayByKey(database, { key: relay.key }))?.status, 'sending')
    assert.equal((await claimsOfUser(database, relay.owner)).length, 1)
  })

  it('a relayer operation is confirmed if an earlier attempt succeeds after the last attempt failed', async () => {
    const relay = relayOf()
    const failed = { status: 'failed', reason: 'the transaction was not sent' } as const
    await openRelay(database, relay)
    await changeRelay(database, changeOf(relay, failed))
    await openRelay(database, { ...relay, attempt: 2, claims: [claimOf(relay)] })
    await changeRelay(database, changeOf(relay, { ...failed, attempt: 2 }))
    const txHash = hex(32)
    const late = changeOf(relay, { status: 'confirmed', txHash, gas: 40_000 })
    assert.equal(await changeRelay(database, late), true)
    const stored = (await relayByKey(database, { key: relay.key }))!
    assert.deepEqual([stored.status, stored.txHash, stored.gas], ['confirmed', txHash, 200_000])
    const [claim] = await claimsOfUser(database, relay.owner)
    assert.deepEqual([claim?.status, claim?.txHash], ['confirmed', txHash])
  })

  it('an attempt of a relayer operation with a wrong number is not opened', async () => {
    const relay = relayOf()
    await openRelay(database, relay)
    await changeRelay(database, changeOf(relay, { status: 'failed' }))
    for (const attempt of [1, 3]) {
      const late = await openRelay(database, { ...relay, attempt })
      assert.deepEqual([late.opened, late.record.attempt], [false, 1])
    }
    assert.equal((await relayByKey(database, { key: relay.key }))?.status, 'failed')
  })

  it('each claim in a redemption shows the status of the relayer operation that contains the claim', async () => {
    const relay = relayOf()
    const claims = [claimOf(relay, 1), claimOf(relay, Number.MAX_SAFE_INTEGER)]
    await openRelay(database, { ...relay, claims })
    const found = async () => (await claimsOfUser(database, relay.owner)).toReversed()
    const common = { txHash: '', reason: '', submittedAtMs: NOW_MS, updatedAtMs: NOW_MS }
    assert.deepEqual(
      await found(),
      claims.map((claim) => ({ ...claim, ...common, status: 'pending' })),
    )
    const txHash = hex(32)
    await changeRelay(database, changeOf(relay, { txHash }))
    const pending = await claimsByStatus(database, { status: 'pending', limit: 1_000 })
    assert.equal(pending.claims.filter((claim) => claim.txHash === txHash).length, 2)
    assert.equal(pending.count, pending.claims.length)
    await changeRelay(database, changeOf(relay, { status: 'confirmed', gas: 90_000 }))
    for (const claim of await found()) {
      assert.equal(claim.status, 'confirmed')
      assert.equal(claim.txHash, txHash)
    }
    assert.equal((await relayByKey(database, { key: relay.key }))?.gas, 90_000)
    const other = relayOf()
    await openRelay(database, { ...other, claims: [claimOf(other)] })
    await changeRelay(database, changeOf(other, { status: 'failed', reason: 'x'.repeat(5_000) }))
    const failed = await claimsByStatus(database, { status: 'failed', limit: 1 })
    assert.equal(failed.claims[0]?.userAddress, other.owner)
    assert.equal(failed.claims[0]?.reason.length, 1_000)
  })

  it('an earlier approval is found by owner and kind, and an earlier redemption by its market', async () => {
    const owner = user()
    const chainId = ++made
    const mine = { owner, chainId }
    const [first, second] = [
      relayOf({ ...mine, kind: 'ctf-approval' }),
      relayOf({ ...mine, kind: 'ctf-approval', atMs: NOW_MS + 5 }),
    ]
    const redeemed = relayOf(mine)
    const claim = claimOf(redeemed)
    for (const relay of [first, second]) await openRelay(database, relay)
    await openRelay(database, { ...redeemed, claims: [claim] })
    const asked = { ...mine, kind: 'ctf-approval', limit: 5 } as const
    assert.deepEqual(await confirmedRelaysOf(database, asked), [])
    const { marketId } = claim
    const market = { chainId, userAddress: owner, marketId }
    assert.equal(await redemptionOf(database, market), undefined)
    const hashes = [hex(32), hex(32), hex(32)]
    for (const [at, relay] of [first, second, redeemed].entries()) {
      const change = changeOf(relay, { status: 'confirmed', txHash: hashes[at]! })
      await changeRelay(database, change)
    }
    assert.deepEqual(await confirmedRelaysOf(database, asked), [hashes[1], hashes[0]])
    assert.equal(await redemptionOf(database, market), hashes[2])
    const other = { ...market, marketId: hex(32) as MarketId }
    assert.equal(await redemptionOf(database, other), undefined)
    // Redemptions are counted apart.
    const spent = async (purpose?: 'redemption' | 'other') =>
      relayGasSince(database, { ...mine, sinceMs: 0, ...(purpose && { purpose }) })
    assert.deepEqual(
      [await spent(), await spent('redemption'), await spent('other')],
      [300_000, 100_000, 200_000],
    )
  })

  it('claims are listed page by page, each once', async () => {
    // Several operations have the same time, and each has several markets.
    for (const at of [0, 0, 1, 5, 5, 5]) {
      const relay = relayOf({ atMs: NOW_MS + at })
      await openRelay(database, { ...relay, claims: [claimOf(relay), claimOf(relay)] })
    }
    const whole = await claimsByStatus(database, { status: 'pending', limit: 1_000 })
    assert.equal(whole.next, undefined)
    const paged: typeof whole.claims = []
    let before: ClaimPlace | undefined
    do {
      const page = await claimsByStatus(database, {
        status: 'pending',
        limit: 3,
        ...(before === undefined ? {} : { before }),
      })
      assert.equal(page.count, whole.count)
      paged.push(...page.claims)
      before = page.next
    } while (before !== undefined)
    assert.deepEqual(paged, whole.claims)
  })

  it('relayer operations that the chain has not decided are returned after a restart, oldest first', async () => {
    const chainId = ++made
    const opened = [3, 1, 2].map((at) => relayOf({ chainId, atMs: NOW_MS + at }))
    for (const relay of opened) await openRelay(database, relay)
    const done = opened[1]
    assert.ok(done)
    await changeRelay(database, changeOf(done, { status: 'confirmed' }))
    const found = await unfinishedRelays(database, { chainId, limit: 10 })
    assert.deepEqual(
      found.map(({ openedAtMs }) => openedAtMs - NOW_MS),
      [2, 3],
    )
    assert.equal((await unfinishedRelays(database, { chainId, limit: 1 })).length, 1)
  })

  it('the relayer’s gas since a given time is summed per owner and in total', async () => {
    const chainId = ++made
    const owner = user()
    await openRelay(database, relayOf({ chainId, owner, gas: 1, atMs: NOW_MS - 1 }))
    await openRelay(database, relayOf({ chainId, owner, gas: 10 }))
    await openRelay(database, relayOf({ chainId, owner, gas: 100, atMs: NOW_MS + 5 }))
    await openRelay(database, relayOf({ chainId, gas: 1_000 }))
    await openRelay(database, relayOf({ owner, gas: 10_000 }))
    const since = (filter: object) =>
      relayGasSince(database, { chainId, sinceMs: NOW_MS, ...filter })
    assert.equal(await since({ owner }), 110)
    assert.equal(await since({}), 1_110)
    assert.equal(await since({ owner: user() }), 0)
  })

  it('writes that share a commit succeed or fail independently', async () => {
    const relays = [relayOf(), relayOf(), relayOf()]
    const [first, , last] = relays
    assert.ok(first && last)
    const bad = { ...relays[1]!, kind: null as never }
    const replies = await runWrites(database, [
      { write: 'openRelay', args: first },
      { write: 'openRelay', args: bad },
      { write: 'openRelay', args: last },
      { write: 'changeRelay', args: changeOf(last, { status: 'confirmed' }) },
    ])
    assert.deepEqual(
      replies.map(({ ok }) => ok),
      [true, false, true, true],
    )
    assert.equal((await relayByKey(database, first))?.status, 'sending')
    assert.equal(await relayByKey(database, bad), undefined)
    assert.equal((await relayByKey(database, last))?.status, 'confirmed')
  })
})

/** Returns the user's claims in every state. */
async function claimsOfUser(database: Database, user: Address): Promise<ClaimRecord[]> {
  const found: ClaimRecord[] = []
  for (const status of ['pending', 'confirmed', 'failed'] as const) {
    const { claims } = await claimsByStatus(database, { status, limit: 1_000 })
    found.push(...claims.filter(({ userAddress }) => userAddress === user))
  }
  return found
}
