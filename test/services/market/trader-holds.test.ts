/**
 * Tests holds. During a hold, a market thread refuses new orders of a trader. It also reports how much the trader's
 * open orders and unsettled trades need.
 */

import assert from 'node:assert/strict'
import { ORDERS_WEIGHED_MAX } from '#domain/limits.ts'
import { ONE } from '#domain/money.ts'
import { NO, type VerifiedOrder, YES } from '#domain/order.ts'
import type { HeldOrders, TraderNeeds } from '#domain/trader-hold.ts'
import { buy, sell, traderNamed } from '../../support/orders.ts'
import { aMarket, START_SEC, signed } from './market-fixture.ts'
import { type Command, inFolder, marketId, open, startHost } from './thread-fixture.ts'

const CHAIN = aMarket().chainId
const PERMIT = { nonce: '0', value: '1', deadline: '1', v: 27, r: '0x', s: '0x' } as never

const place = (order: VerifiedOrder): Command => ({ type: 'PlaceOrder', message: { order } })
const hold = (name: string, orders: readonly HeldOrders[], untilMs: number): Command => ({
  type: 'HoldTrader',
  message: { chainId: CHAIN, trader: traderNamed(name), orders, untilMs },
})
const codeOf = (answer: unknown) => (answer as { rejected?: string }).rejected

inFolder(
  'while the relayer blocks a trader’s new orders, the orders that need the same funds are refused',
  async (dataDir) => {
    const host = startHost(dataDir)
    await host.run(open(1), open(2, { chainId: CHAIN + 1 }))
    let number = 0
    const orders = (by: string, n = 1) => {
      const named = () => `${by}${number++}`
      const low = { ...signed(buy('YES').at(0.1).size(1).by(by).named(named()), marketId(n)) }
      return [
        place(low),
        place({
          ...signed(buy('YES').at(0.1).size(1).by(by).named(named()), marketId(n)),
          permit: PERMIT,
        }),
        place(signed(sell('YES').at(0.9).size(1).by(by).named(named()), marketId(n))),
      ]
    }
    const refused = async (by: string, n = 1) =>
      (await host.run(...orders(by, n))).map((answer) => codeOf(answer) === 'ALLOWANCE_CHANGING')
    const untilMs = host.nowMs + 30_000
    const cases: readonly (readonly [HeldOrders[], boolean[]])[] = [
      [['sells'], [false, false, true]],
      [['buys'], [true, true, false]],
      [['permit-buys'], [false, true, false]],
      [
        ['sells', 'permit-buys'],
        [false, true, true],
      ],
      [[], [false, false, false]],
    ]
    for (const [kinds, expected] of cases) {
      await host.run(hold('ann', kinds, untilMs))
      assert.deepEqual(await refused('ann'), expected, kinds.join())
      assert.deepEqual(await refused('bob'), [false, false, false], 'another trader')
      assert.deepEqual(await refused('ann', 2), [false, false, false], 'another chain')
    }
    // An order that was accepted before gets its first answer again, although the hold would refuse it now.
    const known = signed(sell('YES').at(0.8).size(1).by('ann').named('known'), marketId(1))
    await host.run(place(known), hold('ann', ['sells'], untilMs))
    const [again] = await host.run(place(known))
    assert.equal((again as { duplicate?: true }).duplicate, true)
    host.at(31)
    assert.deepEqual(await refused('ann'), [false, false, false])
    await host.stop()
  },
)

inFolder(
  'when the relayer blocks a trader’s new orders, the answer lists what open orders and unsettled trades need',
  async (dataDir) => {
    let host = startHost(dataDir)
    const needs = async () => {
      const [answer] = await host.run(hold('ann', ['buys'], host.nowMs + 1))
      return answer as TraderNeeds
    }
    await host.run(
      open(1),
      open(2),
      place(signed(buy('YES').at(0.5).size(2).by('ann').named('a'), marketId(1))),
      place(signed(buy('NO').at(0.25).size(4).by('ann').named('b'), marketId(2))),
      place(signed(sell('YES').at(0.7).size(3).by('ann').named('c'), marketId(2))),
      place(signed(sell('YES').at(0.5).size(2).by('eve').named('d'), marketId(1))),
      place(signed(buy('YES').at(0.8).size(1).by('eve').named('e'), marketId(2))),
    )
    const expected = {
      ...{ openBuys: 1, openSells: 1 },
      openCost: BigInt(ONE) + 10_000n,
      unsettledCost: BigInt(ONE),
      buys: { count: 1, tradeIds: [`${marketId(1)}-3-0`] },
      sells: { count: 1, tradeIds: [`${marketId(2)}-4-0`] },
    }
    assert.deepEqual(await needs(), expected)
    for (const id of host.thread.markets.keys()) host.thread.due.add(id)
    await host.keepHouse()
    await host.stop()
    host = startHost(dataDir)
    assert.deepEqual(await needs(), expected, 'also after a restart from a snapshot')
    const sales = async (outcome: 0 | 1) => {
      const message = { marketId: marketId(2), trader: traderNamed('ann'), outcomes: [outcome] }
      return (await host.run({ type: 'UnsettledSales', message }))[0]
    }
    assert.deepEqual(await sales(YES), { ...expected.sells, isOpen: true })
    assert.deepEqual(await sales(NO), { count: 0, tradeIds: [], isOpen: true })
    await host.run({ type: 'CloseMarket', message: { marketId: marketId(2), reason: 'resolved' } })
    assert.deepEqual(await sales(YES), { ...expected.sells, isOpen: false })
    await host.stop()
  },
)

inFolder(
  'if a trader has too many orders to examine, the answer states a need above any allowance',
  async (dataDir) => {
    const host = startHost(dataDir)
    const orders = Array.from({ length: ORDERS_WEIGHED_MAX }, (_, at) =>
      place(signed(buy('YES').at(0.1).size(1).by('ann').named(`many${at}`), marketId(1))),
    )
    await host.run(open(1), ...orders)
    const [answer] = await host.run(hold('ann', ['buys'], host.nowMs + 1))
    const { openCost, openSells } = answer as TraderNeeds
    assert.equal(openCost, 2n ** 128n)
    assert.equal(openSells, 1)
    await host.stop()
  },
)

inFolder(
  'expired orders also count towards the limit of orders that are examined for a trader’s needs',
  async (dataDir) => {
    const host = startHost(dataDir)
    const expiring = Array.from({ length: ORDERS_WEIGHED_MAX }, (_, at) => {
      const order = buy('YES')
        .at(0.1)
        .size(1)
        .by('ann')
        .until(START_SEC + 60)
        .named(`e${at}`)
      return place(signed(order, marketId(1)))
    })
    const last = place(signed(buy('YES').at(0.5).size(1_000).by('ann').named('last'), marketId(1)))
    await host.run(open(1), ...expiring, last)
    host.at(61)
    const [answer] = await host.run(hold('ann', ['buys'], host.nowMs + 1))
    assert.equal((answer as TraderNeeds).openCost, 2n ** 128n)
    await host.stop()
  },
)

inFolder(
  'while a partition is unavailable, a query for the funds that a trader’s orders need is refused',
  async (dataDir) => {
    const host = startHost(dataDir)
    await host.run(open(1))
    host.thread.away.set(0, 'the file is away')
    const asked = { marketId: marketId(1), trader: traderNamed('ann'), outcomes: [YES] as const }
    const answers = await host.run(hold('ann', ['sells'], host.nowMs + 1), {
      type: 'UnsettledSales',
      message: asked,
    })
    assert.deepEqual(answers.map(codeOf), ['OVERLOADED', 'OVERLOADED'])
    await host.stop()
  },
)
