/** Tests which fills a trader pays for, and when new orders are refused because they could cost too much. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Address } from '#domain/ids.ts'
import { SPENDING_TRADERS_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import { dayOf, nextDayMs, type SpendingLimits } from '#domain/trader-spending.ts'
import { TraderBudgets } from '#services/market/host/trader-budgets.ts'
import { buy, sell, traderNamed } from '../../support/orders.ts'
import { given, START_SEC, signed } from './market-fixture.ts'
import { inFolder, marketId, open, startHost } from './thread-fixture.ts'

const CHAIN = 31_337
const NOW = START_SEC * 1_000
const ann = traderNamed('ann')
const eve = traderNamed('eve')
const limits = (some: Partial<SpendingLimits> = {}): SpendingLimits => ({
  ...{ fillsPerDay: 0, gasPerDay: 0, failedGasPerDay: 0, exempt: new Set<Address>() },
  ...some,
})
const spending = (trader: Address, some: object = {}) => ({
  ...{ trader, fills: 0, gas: 0, failedGas: 0 },
  ...some,
})
const asking = (some: object = {}) => ({ pending: 0, openOrders: () => 0, nowMs: NOW, ...some })

test('the gas of a match is charged to the taker once, and to each maker whose order was filled completely', () => {
  const market = given()
  for (let n = 0; n < 5; n++) market.place(sell('YES').at(0.4).size(1).by('eve').named(`s${n}`))
  market.place(buy('YES').at(0.4).size(5).by('ann').named('b'))
  const { counts } = market.state.pending
  assert.deepEqual([counts.paidBy(eve), counts.paidBy(ann)], [4, 1])
})

test('a maker is charged no gas if takers fill the maker’s order piece by piece', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(5).by('ann').named('s'))
  for (let n = 0; n < 5; n++) market.place(buy('YES').at(0.4).size(1).by('eve').named(`b${n}`))
  const { counts } = market.state.pending
  assert.deepEqual([counts.paidBy(eve), counts.paidBy(ann)], [5, 0])
})

test('an unsettled trade of a trader with themselves counts as one fill of the daily limit', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(1).by('eve').named('s'))
  market.place(buy('YES').at(0.4).size(1).by('eve').named('b'))
  const { counts } = market.state.pending
  assert.equal(counts.paidBy(eve), 1)
  market.report('b', { status: 'confirmed' })
  assert.equal(counts.paidBy(eve), 0)
})

test('a refusal by a daily budget names the used amount, the limit, and the time when orders are accepted again', () => {
  const budgets = new TraderBudgets(limits({ fillsPerDay: 10 }), 1)
  budgets.merge(CHAIN, dayOf(NOW), [spending(eve, { fills: 10, gas: 700_000 })])
  const flaw = budgets.flaw(CHAIN, eve, asking())
  const untilMs = nextDayMs(NOW)
  assert.deepEqual(flaw, {
    rejected: 'GAS_BUDGET_SPENT',
    field: 'order.trader',
    detail: `the trader has used 10 of 10 settled fills today: their new orders are accepted from ${new Date(untilMs).toISOString()}`,
    retryAfterSec: (untilMs - NOW) / 1_000,
  })
  assert.equal(budgets.flaw(CHAIN, ann, asking()), undefined)
  assert.equal(budgets.flaw(1, eve, asking()), undefined, 'another chain')
  assert.equal(budgets.flaw(CHAIN, eve, asking({ nowMs: untilMs })), undefined, 'another day')
})

test('each daily budget (fills, gas, failed gas) refuses orders independently, and 0 means no limit', () => {
  const over = spending(eve, { fills: 10, gas: 1_000, failedGas: 500 })
  for (const some of [{ fillsPerDay: 10 }, { gasPerDay: 1_000 }, { failedGasPerDay: 500 }]) {
    const budgets = new TraderBudgets(limits(some), 1)
    budgets.merge(CHAIN, dayOf(NOW), [over])
    assert(isRejection(budgets.flaw(CHAIN, eve, asking())), JSON.stringify(some))
  }
  const free = new TraderBudgets(limits(), 1)
  free.merge(CHAIN, dayOf(NOW), [over])
  assert.equal(free.flaw(CHAIN, eve, asking({ pending: 1_000_000 })), undefined)
})

test('a trader in the list of exempt traders has no daily budgets', () => {
  const budgets = new TraderBudgets(limits({ fillsPerDay: 1, exempt: new Set([eve]) }), 1)
  assert.deepEqual(
    budgets.merge(CHAIN, dayOf(NOW), [spending(eve, { fills: 9, failedGas: 9 })]),
    [],
  )
  assert.equal(budgets.flaw(CHAIN, eve, asking({ pending: 9 })), undefined)
})

test('for the daily limit, a market thread multiplies open orders and unsettled fills by the thread count', () => {
  const budgets = new TraderBudgets(limits({ fillsPerDay: 10 }), 4)
  budgets.merge(CHAIN, dayOf(NOW), [spending(eve, { fills: 1 })])
  assert.equal(budgets.flaw(CHAIN, eve, asking({ pending: 1, openOrders: () => 1 })), undefined)
  const flaw = budgets.flaw(CHAIN, eve, asking({ pending: 1, openOrders: () => 2 }))
  assert.equal(flaw?.rejected, 'GAS_BUDGET_SPENT')
  assert.equal(flaw?.retryAfterSec, 5)
  assert.match(
    flaw?.detail ?? '',
    /^the trader has used 1 of 10 settled fills today, and their 2 open orders and 1 trades in progress/,
  )
})

test('a trader who reaches the daily gas budget for failed fills is reported only once', () => {
  const budgets = new TraderBudgets(limits({ failedGasPerDay: 500 }), 1)
  const day = dayOf(NOW)
  assert.deepEqual(budgets.merge(CHAIN, day, [spending(eve, { failedGas: 499 })]), [])
  const barred = [{ chainId: CHAIN, trader: eve }]
  assert.deepEqual(budgets.merge(CHAIN, day, [spending(eve, { failedGas: 500 })]), barred)
  assert.deepEqual(budgets.merge(CHAIN, day, [spending(eve, { failedGas: 900 })]), [])
  assert.deepEqual(budgets.merge(CHAIN, day - 1, [spending(eve, { failedGas: 0 })]), [])
  assert(isRejection(budgets.flaw(CHAIN, eve, asking())))
})

test('a market thread remembers daily budget use only for the traders that were charged most recently', () => {
  const budgets = new TraderBudgets(limits({ fillsPerDay: 1 }), 1)
  const many = Array.from({ length: SPENDING_TRADERS_MAX + 1 }, (_, n) =>
    spending(`0x${n.toString(16).padStart(40, '0')}` as Address, { fills: 1 }),
  )
  budgets.merge(CHAIN, dayOf(NOW), many)
  assert.equal(budgets.flaw(CHAIN, many[0]!.trader, asking()), undefined)
  assert(isRejection(budgets.flaw(CHAIN, many[1]!.trader, asking())))
})

inFolder(
  'open orders in all markets of a thread count against the budgets, also after a restart with unsettled fills',
  async (dataDir) => {
    const risk = () => ({
      minNotional: 0,
      pendingTradesMax: 1_000,
      budgets: new TraderBudgets(limits({ fillsPerDay: 5 }), 1),
    })
    const place = async (
      host: ReturnType<typeof startHost>,
      order: ReturnType<typeof buy>,
      market: number,
    ) => {
      const made = signed(order, marketId(market))
      const [answer] = await host.run({ type: 'PlaceOrder', message: { order: made } })
      return isRejection(answer) ? answer.rejected : 'accepted'
    }
    const ask = (name: string) => sell('YES').at(0.4).size(1).by('eve').named(name)
    const host = startHost(dataDir, { risk: risk() })
    await host.run(open(1), open(2))
    for (const [at, market] of [1, 2, 1, 2].entries()) {
      assert.equal(await place(host, ask(`s${at}`), market), 'accepted')
    }
    assert.equal(await place(host, buy('YES').at(0.4).size(1).by('eve').named('b'), 1), 'accepted')
    assert.equal(await place(host, ask('s5'), 2), 'accepted', '3 open orders, 1 unsettled fill')
    assert.equal(await place(host, ask('s6'), 1), 'GAS_BUDGET_SPENT')
    await host.stop()
    const again = startHost(dataDir, { risk: risk() })
    assert.equal(await place(again, ask('s6'), 1), 'GAS_BUDGET_SPENT')
    await again.stop()
  },
)

test('a settled fill counts against the daily budget even before its gas is charged', () => {
  const budgets = new TraderBudgets(limits({ fillsPerDay: 3 }), 1)
  const day = dayOf(NOW)
  budgets.merge(CHAIN, day, [spending(eve, { fills: 1 })])
  for (let fill = 0; fill < 2; fill++) budgets.settled(CHAIN, eve, NOW)
  assert.match(
    (budgets.flaw(CHAIN, eve, asking()) as { detail: string }).detail,
    /used 1 of 3 settled fills today, and their 0 open orders and 2 trades in progress/,
  )
  // The trader has three settled fills. Before this merge, the gas of one fill was charged. Now the gas of two is
  // charged. All three still count, so the limit of three is reached.
  budgets.merge(CHAIN, day, [spending(eve, { fills: 2 })])
  assert(isRejection(budgets.flaw(CHAIN, eve, asking())))
  budgets.merge(CHAIN, day + 1, [])
  assert.equal(budgets.flaw(CHAIN, eve, asking({ nowMs: nextDayMs(NOW) })), undefined)
})

test('a confirmed trade counts as a daily fill only for the trader who pays its gas', () => {
  const budgets = new TraderBudgets(limits({ fillsPerDay: 1 }), 1)
  const market = given({ risk: { minNotional: 0, pendingTradesMax: 10, budgets } })
  market.place(sell('YES').at(0.4).size(1).by('ann').named('s'))
  market.place(buy('YES').at(0.4).size(1).by('eve').named('b'))
  market.report('b', { status: 'confirmed' })
  assert.equal(market.state.pending.counts.paidBy(eve), 0)
  const { chainId } = market.state.market
  assert(isRejection(budgets.flaw(chainId, eve, asking())))
  assert.equal(budgets.flaw(chainId, ann, asking()), undefined)
})
