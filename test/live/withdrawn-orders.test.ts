import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChainEvent } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, OrderHash, Uint64 } from '#domain/ids.ts'
import { makeWithdrawnOrders } from '#live/withdrawn-orders.ts'
import { hashNamed, traderNamed } from '../support/orders.ts'

const CHAIN_ID = 31_337

/** Makes a front's list of the orders that traders withdrew on chain, with a database that the test fills. */
function given({ accountsMax = 100 } = {}) {
  const epochs = new Map<Address, Uint64>()
  const orders = new Map<Address, OrderHash[]>()
  const asked = { loads: 0, reads: 0 }
  const later: (() => void)[] = []
  let away = false
  const fail = () => {
    if (away) throw new Fault('STORE_UNAVAILABLE', 'away', { retryable: true })
  }
  const known = makeWithdrawnOrders({
    chainIds: [CHAIN_ID],
    accountsMax,
    async withdrawers(_chainId, limit) {
      asked.loads++
      fail()
      return [...new Set([...epochs.keys(), ...orders.keys()])].slice(0, limit)
    },
    async withdrawnBy({ trader, orderHash, ordersMax }) {
      asked.reads++
      fail()
      const all = orders.get(trader) ?? []
      return {
        beforeNonce: epochs.get(trader) ?? ('0' as Uint64),
        orderHashes: all.slice(0, ordersMax),
        isWithdrawn: all.includes(orderHash),
      }
    },
    after: (_ms, then) => void later.push(then),
  })
  const its = {
    asked,
    known,
    setAway(is: boolean) {
      away = is
    },
    /** Runs the planned retries now. */
    async again() {
      for (const then of later.splice(0)) then()
      await its.turn()
    },
    turn: () => new Promise((resolve) => setImmediate(resolve)),
    withdrawBelow(name: string, nonce: number, told = true) {
      const trader = traderNamed(name)
      epochs.set(trader, String(nonce) as Uint64)
      const event = { type: 'OrdersWithdrawn', trader } as ChainEvent
      if (told) known.followed(CHAIN_ID, [event])
    },
    withdraw(name: string, order: string) {
      const trader = traderNamed(name)
      orders.set(trader, [...(orders.get(trader) ?? []), hashNamed(order)])
      const event = { type: 'OrderWithdrawn', trader } as ChainEvent
      known.followed(CHAIN_ID, [event])
    },
    async flaw(name: string, order: string, nonce = 1) {
      const asks = { trader: traderNamed(name), orderHash: hashNamed(order) }
      const flaw = await known.flawOf({ ...asks, nonce: String(nonce) as Uint64 }, CHAIN_ID)
      return flaw === undefined ? 'good' : `${flaw.rejected} ${flaw.field ?? ''}`.trim()
    },
  }
  return { ...its, epochs, orders }
}

test('a front needs no database read to check orders of traders without on-chain cancellations', async () => {
  const its = given()
  await its.turn()
  assert.equal(its.known.flawOf(anOrder('ann'), CHAIN_ID), undefined)
  assert.deepEqual(its.asked, { loads: 1, reads: 0 })
})

const anOrder = (name: string) => ({
  trader: traderNamed(name),
  orderHash: hashNamed('a'),
  nonce: '1' as Uint64,
})

test('a front reads a trader’s nonce limit once, and then refuses orders with lower nonces', async () => {
  const its = given()
  await its.turn()
  its.withdrawBelow('ann', 500)
  assert.equal(await its.flaw('ann', 'a', 499), 'ORDER_NONCE_TOO_LOW order.nonce')
  assert.equal(await its.flaw('ann', 'b', 500), 'good')
  assert.equal(await its.flaw('ann', 'c', 7), 'ORDER_NONCE_TOO_LOW order.nonce')
  assert.equal(await its.flaw('bob', 'd', 7), 'good')
  assert.equal(its.asked.reads, 1)
  its.withdrawBelow('ann', 900)
  assert.equal(await its.flaw('ann', 'e', 899), 'ORDER_NONCE_TOO_LOW order.nonce')
})

test('a front refuses an order that was cancelled on chain, and accepts other orders of the same trader', async () => {
  const its = given()
  await its.turn()
  its.withdraw('ann', 'gone')
  assert.equal(await its.flaw('ann', 'gone'), 'ORDER_CLOSED')
  assert.equal(await its.flaw('ann', 'other'), 'good')
  for (let at = 0; at < 200; at++) its.withdraw('ann', `more ${at}`)
  assert.equal(await its.flaw('ann', 'more 199'), 'ORDER_CLOSED', 'beyond what is remembered')
  assert.equal(await its.flaw('ann', 'other'), 'good')
})

test('cancellations from before the start are loaded, even if the database is unavailable at first', async () => {
  const its = given()
  its.setAway(true)
  its.withdrawBelow('ann', 500, false)
  its.known.reload()
  await its.turn()
  assert.equal(await its.flaw('bob', 'a'), 'OVERLOADED', 'nobody knows what bob has withdrawn')
  its.setAway(false)
  await its.again()
  assert.equal(its.known.flawOf(anOrder('bob'), CHAIN_ID), undefined)
  assert.equal(await its.flaw('ann', 'a'), 'ORDER_NONCE_TOO_LOW order.nonce')
})

test('after a reorg removes a trader’s nonce limit, orders with lower nonces are valid again', async () => {
  const its = given()
  await its.turn()
  its.withdrawBelow('ann', 500)
  assert.equal(await its.flaw('ann', 'a'), 'ORDER_NONCE_TOO_LOW order.nonce')
  its.epochs.clear()
  its.known.reload(CHAIN_ID)
  await its.turn()
  assert.equal(await its.flaw('ann', 'a'), 'good')
})

test('if traders with on-chain cancellations exceed the memory limit, a front reads each trader once', async () => {
  const its = given({ accountsMax: 2 })
  for (const name of ['t1', 't2', 't3']) its.withdrawBelow(name, 500, false)
  its.known.reload()
  await its.turn()
  for (const name of ['t1', 't2', 't3']) {
    assert.equal(await its.flaw(name, 'a'), 'ORDER_NONCE_TOO_LOW order.nonce')
  }
  const { reads } = its.asked
  assert.equal(await its.flaw('bob', 'a'), 'good')
  assert.equal(await its.flaw('bob', 'b'), 'good')
  assert.equal(its.asked.reads, reads + 1)
})
