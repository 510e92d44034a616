import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Delegation } from '#domain/delegate.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { isRejection } from '#domain/rejection.ts'
import { makeDelegates } from '#live/delegates.ts'
import { traderNamed } from '../support/orders.ts'

const CHAIN_ID = 31_337
/** A second chain of the exchange. An address may belong to different people on the two chains. */
const TEST_CHAIN_ID = 31_338
const NOW_SEC = 1_800_000_000
const AT = { blockNumber: 1, logIndex: 1, txHash: '0x1', atSec: NOW_SEC }

/** Makes a front's list of delegations, with a database that the test controls. */
function given({ accountsMax = 100 } = {}) {
  const stored = new Map<Address, Delegation[]>()
  const asked = { loads: 0, reads: 0 }
  const later: (() => void)[] = []
  const its = { away: false }
  const fail = () => {
    if (its.away) throw new Fault('STORE_UNAVAILABLE', 'away', { retryable: true })
  }
  const delegates = makeDelegates({
    chainIds: [CHAIN_ID, TEST_CHAIN_ID],
    accountsMax,
    async delegators(chainId, limit) {
      fail()
      if (chainId !== CHAIN_ID) return []
      asked.loads++
      return [...stored.keys()].slice(0, limit)
    },
    async delegationsOf({ chainId, account }) {
      asked.reads++
      fail()
      return chainId === CHAIN_ID ? (stored.get(account) ?? []) : []
    },
    nowMs: () => NOW_SEC * 1_000,
    after: (_ms, then) => void later.push(then),
  })
  function appoint(name: string, untilSec = NOW_SEC + 100, announced = true) {
    const account = traderNamed(name)
    const delegation = {
      ...{ account, delegate: traderNamed('bot'), untilSec, settlesUntilSec: untilSec },
      ...{ maxOrderSize: 0, maxOpenNotional: 0, markets: [] },
    }
    stored.set(account, [delegation])
    if (announced) delegates.followed(CHAIN_ID, [{ type: 'DelegateSet', ...delegation, ...AT }])
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  async function again() {
    for (const then of later.splice(0)) then()
    await turn()
  }
  const count = async (name: string) => {
    const found = await delegates.of(CHAIN_ID, traderNamed(name))
    return isRejection(found) ? found.rejected : found.length
  }
  return { delegates, asked, its, appoint, turn, again, count }
}

test('for an account without delegates, a front checks signatures without reading the database', async () => {
  const { delegates, asked, turn } = given()
  await turn()
  assert.deepEqual(delegates.of(CHAIN_ID, traderNamed('ann')), [])
  assert.deepEqual(asked, { loads: 1, reads: 0 })
})

test('an account’s delegations are read once, and again after each change on the chain', async () => {
  const { asked, appoint, turn, count } = given()
  await turn()
  appoint('ann')
  assert.deepEqual([await count('ann'), await count('ann')], [1, 1])
  assert.equal(asked.reads, 1)
  appoint('ann', 0)
  await count('ann')
  assert.equal(asked.reads, 2)
})

test('a delegate can act only until its expiration, and only on the chain where it was appointed', async () => {
  const { delegates, appoint, turn } = given()
  await turn()
  appoint('ann')
  const [ann, bot] = [traderNamed('ann'), traderNamed('bot')]
  assert.deepEqual(await delegates.actsOn(ann, bot), [CHAIN_ID])
  assert.deepEqual(await delegates.actsOn(bot, ann), [])
  appoint('ann', NOW_SEC)
  assert.deepEqual(await delegates.actsOn(ann, bot), [])
})

test('a front loads all delegations again after a reorg, because it may have missed changes', async () => {
  const { delegates, asked, appoint, turn, count } = given()
  await turn()
  appoint('ann', NOW_SEC + 100, false)
  assert.equal(await count('ann'), 0)
  delegates.reload(CHAIN_ID)
  assert.equal(await count('ann'), 1)
  assert.equal(asked.loads, 2)
})

test('orders of unknown delegates are refused while the database cannot be read', async () => {
  const { its, appoint, turn, again, count } = given()
  its.away = true
  await turn()
  appoint('ann')
  assert.equal(await count('ann'), 'OVERLOADED')
  its.away = false
  await again()
  assert.equal(await count('ann'), 1)
  assert.equal(await count('bob'), 0)
})

test('if delegating accounts exceed the front’s memory limit, the front reads each account from the database', async () => {
  const { asked, appoint, turn, count } = given({ accountsMax: 1 })
  await turn()
  appoint('ann')
  appoint('bob')
  assert.deepEqual([await count('ann'), await count('bob'), await count('eve')], [1, 1, 0])
  assert.equal(asked.reads, 3)
})
