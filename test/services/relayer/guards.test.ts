/**
 * Tests which operations the relayer refuses because of their owner's orders and trades, and how long market threads
 * refuse the owner's new orders.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import { type Address, tradeId } from '#domain/ids.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import { NO_NEEDS, type TraderNeeds } from '#domain/trader-hold.ts'
import type { RelayGuard } from '#services/relayer/chain/relay-examination.ts'
import type { RelayerPorts } from '#services/relayer/ports.ts'
import { buy, sell, traderNamed } from '../../support/orders.ts'
import { aMarket, signed } from '../market/market-fixture.ts'
import { type Command, inFolder, marketId, open, startHost } from '../market/thread-fixture.ts'
import { AWAY, approval, code, hashOf, keyOf, type LANES, start, World } from './relayer-fixture.ts'

const REVOCATION: RelayGuard = { holds: 'sells', field: 'approved', buysMax: 0n }
const LOWERING: RelayGuard = { holds: 'buys', field: 'value', buysMax: 100n }
const TRADES = { count: 2, tradeIds: [tradeId(marketId(1), 3, 0), tradeId(marketId(1), 4, 0)] }

const NEEDED: readonly (readonly [RelayGuard, Partial<TraderNeeds>, string])[] = [
  [REVOCATION, {}, 'pending'],
  [REVOCATION, { openBuys: 1, openCost: 50n, buys: TRADES, unsettledCost: 50n }, 'pending'],
  [REVOCATION, { openSells: 1 }, 'ORDERS_OPEN'],
  [REVOCATION, { openSells: 1, sells: TRADES }, 'TRADES_PENDING'],
  [LOWERING, { openSells: 1, sells: TRADES }, 'pending'],
  [LOWERING, { openBuys: 1, openCost: 60n, buys: TRADES, unsettledCost: 40n }, 'pending'],
  [LOWERING, { openBuys: 1, openCost: 60n, buys: TRADES, unsettledCost: 41n }, 'ORDERS_OPEN'],
  [LOWERING, { buys: TRADES, unsettledCost: 101n }, 'TRADES_PENDING'],
]

test('the relayer refuses to remove funds or an approval that open orders or unsettled trades still need', async () => {
  for (const [guard, needs, expected] of NEEDED) {
    const world = new World()
    world.guard = guard
    world.needs = { ...NO_NEEDS, ...needs }
    const { relay } = await start(world)
    const answer = await relay(approval('a'))
    assert.equal(code(answer), expected)
    if (!isRejection(answer)) continue
    assert.equal(answer.field, guard.field)
    assert.equal(world.sent.length, 0)
    assert.equal(world.held.size, 0, 'the owner may order again')
    if (expected !== 'TRADES_PENDING') continue
    assert.deepEqual(answer.tradeIds, TRADES.tradeIds)
    const what = guard === REVOCATION ? 'approval' : 'allowance'
    const words = `2 unsettled trades of the owner still need this ${what}: retry when they have settled`
    assert.equal(answer.detail, words)
  }
})

test('an owner’s new orders are blocked while the relayer revokes the owner’s approval', async () => {
  const world = new World()
  world.guard = REVOCATION
  const { relay, advance } = await start(world)
  const operation = approval('a')
  assert.equal(code(await relay(operation)), 'pending')
  const held = { owner: operation.owner, orders: 'sells' as const }
  assert.deepEqual([...world.held], [[keyOf(operation), held]])
  world.tell(0, 'mined')
  await advance(100)
  assert.equal(world.held.size, 1, 'it may still be undone by a reorg')
  world.tell(0, 'finished')
  await advance(100)
  assert.equal(world.held.size, 0)
})

test('if a revocation fails before the relayer sends it, the owner may place new orders again', async () => {
  const broken = new Fault('CHAIN_AWAY', 'the node is away', { retryable: true })
  for (const port of ['hold', 'attempt', 'open', 'send'] as const) {
    const world = new World()
    world.guard = REVOCATION
    world.fault = { [port]: port === 'open' ? AWAY : broken }
    const { relay } = await start(world)
    assert.equal(isRejection(await relay(approval('a'))), true, port)
    assert.equal(world.held.size, 0, port)
  }
  const silent = new World()
  silent.guard = REVOCATION
  silent.needs = reject('PART_UNAVAILABLE')
  const { relay } = await start(silent)
  assert.equal(code(await relay(approval('a'))), 'PART_UNAVAILABLE')
  assert.equal(silent.held.size, 0)
  const poor = new World()
  poor.guard = REVOCATION
  poor.gas = 1_000_001
  const limited = await (await start(poor)).relay(approval('a'))
  assert.equal(code(limited), 'RATE_LIMITED')
  assert.equal(poor.held.size, 0)
})

test('after a restart, an owner’s new orders stay blocked while the owner’s revocation is pending on chain', async () => {
  const world = new World()
  world.guard = REVOCATION
  const operation = approval('a')
  const before = await start(world)
  assert.equal(code(await before.relay(operation)), 'pending')
  world.held.clear()
  const [sent] = world.sent
  assert.ok(sent)
  world.open = [{ ...sent, txHash: hashOf(0) }]
  // After a restart, the relayer follows the transaction even if it cannot reach the market threads to block the
  // owner's new orders.
  world.fault = { hold: AWAY }
  const away = await start(world)
  assert.equal(away.state.underway.size, 1)
  world.fault = {}
  const { advance } = await start(world)
  assert.deepEqual([...world.held.values()], [{ owner: operation.owner, orders: 'sells' }])
  world.tell(0, 'finished')
  await advance(100)
  assert.equal(world.held.size, 0)
})

const STEPS = ['find', 'examine', 'hold', 'attempt', 'open', 'send'] as const
const CHAIN = aMarket().chainId

/**
 * Two ways to match the owner's sell. Either the sell arrives and matches a resting bid, or the sell rests and an
 * arriving buy of another trader matches it.
 */
const MATCHES = {
  'the owner’s own order': { rests: buy('YES').by('eve').named('rests'), comes: sell('YES') },
  'an order of the other side': { rests: sell('YES').by('ann').named('rests'), comes: buy('YES') },
}

for (const [what, { rests, comes }] of Object.entries(MATCHES)) {
  for (const at of [...STEPS.flatMap((step) => [`before ${step}`, `after ${step}`]), 'mined']) {
    inFolder(
      `an owner never has a sent revocation and a pending trade at once (match by ${what}, ${at})`,
      async (dataDir) => {
        const host = startHost(dataDir)
        const place = (order: ReturnType<typeof signed>): Command => ({
          type: 'PlaceOrder',
          message: { order },
        })
        const taker = what.startsWith('the owner') ? 'ann' : 'eve'
        await host.run(open(1), place(signed(rests.at(0.5).size(2), marketId(1))))
        let placed: unknown
        const match = async () => {
          const order = signed(comes.at(0.5).size(2).by(taker).named('comes'), marketId(1))
          ;[placed] = await host.run(place(order))
        }
        const world = new World()
        world.guard = REVOCATION
        world.ports.hold = async (key, owner, orders) => {
          world.held.set(key, { owner, orders })
          const untilMs = host.nowMs + 30_000
          const message = { chainId: CHAIN, trader: owner, orders: [orders], untilMs }
          const [answer] = await host.run({ type: 'HoldTrader', message })
          return answer as TraderNeeds
        }
        interleave(world.ports, at, match)
        const { relay, advance } = await start(world)
        const revocation = { ...approval('a'), owner: traderNamed('ann') as (typeof LANES)[number] }
        const answer = await relay(revocation)
        if (at === 'mined') await match()
        await advance(1_000)
        const pending = host.thread.counts.get(CHAIN)?.of(traderNamed('ann')) ?? 0
        const isSent = world.sent.length > 0
        assert.ok(!isSent || pending === 0, `${code(answer)}, ${JSON.stringify(placed)}`)
        // If the owner's own order makes the match, exactly one of the two succeeds: the match or the revocation.
        assert.ok(isSent || pending === 1 || what.startsWith('an order'), code(answer))
        await host.stop()
      },
    )
  }
}

/** Makes an action happen right before or right after one of the relayer's steps. */
function interleave(
  ports: { -readonly [Port in keyof RelayerPorts]: RelayerPorts[Port] },
  at: string,
  act: () => Promise<void>,
): void {
  for (const step of STEPS) {
    const work = ports[step] as (...args: unknown[]) => Promise<unknown>
    ports[step] = (async (...args: unknown[]) => {
      if (at === `before ${step}`) await act()
      const answer = await work(...args)
      if (at === `after ${step}`) await act()
      return answer
    }) as never
  }
}

test('wallets without trades can use only part of the relayer’s daily gas, and traders are still served', async () => {
  const world = new World()
  const day = { ownerGas: 10_000_000, allGas: 100_000_000 }
  const { relay, state } = await start(world, {
    gasPerDay: { redemption: day, other: day },
    newcomers: { ownerGas: 500_000, gasPerTrade: 100_000, keptPercent: 50 },
  })
  world.gas = 500_000
  const wallet = (number: number): Address =>
    `0x${number.toString(16).padStart(40, 'f')}` as Address
  const codes: string[] = []
  for (let number = 0; number < 212; number++) {
    codes.push(code(await relay({ ...approval('a'), owner: wallet(number) })))
  }
  // A hundred operations use half of the day's gas. The other half is kept for traders.
  assert.deepEqual(codes, [
    ...Array(100).fill('pending'),
    ...Array(112).fill('RELAYER_UNAVAILABLE'),
  ])
  assert.equal(state.gasToday.other, 50_000_000)
  const trader = approval('b')
  world.trades.set(trader.owner, 1)
  assert.equal(code(await relay(trader)), 'pending')
  const stranger = await relay(approval('c'))
  assert.ok(isRejection(stranger))
  assert.match(stranger.detail ?? '', /for wallets without a settled trade/)
})

test('the daily gas limit of an owner grows with settled trades, up to a maximum', async () => {
  for (const [trades, expected] of [
    [0, 5],
    [1, 6],
    [3, 8],
    [1_000, 10],
  ] as const) {
    const world = new World()
    const day = { ownerGas: 1_000_000, allGas: 100_000_000 }
    const { relay, advance } = await start(world, {
      gasPerDay: { redemption: day, other: day },
      newcomers: { ownerGas: 500_000, gasPerTrade: 100_000, keptPercent: 50 },
    })
    const { owner } = approval('a')
    world.trades.set(owner, trades)
    let sent = 0
    for (let time = 1; time <= 20; time++) {
      const answer = await relay(approval('a', time))
      if (isRejection(answer)) {
        assert.equal(answer.rejected, 'RATE_LIMITED')
        break
      }
      world.tell(sent++, 'mined')
      // Each transaction uses all of its gas limit.
      for (const one of world.news) Object.assign(one, { gasUsed: 100_000 })
      await advance(100)
    }
    assert.equal(sent, expected, `${trades} trades`)
  }
})

test('if the database permanently refuses an operation’s result, the relayer reports this and drops the operation', async () => {
  const world = new World()
  const { relay, advance, state, events } = await start(world)
  assert.equal(code(await relay(approval('a'))), 'pending')
  world.fault = { change: new Fault('STORE_FAILED', 'no such column', { retryable: false }) }
  world.tell(0, 'finished')
  await advance(100)
  await advance(10_000)
  const troubles = events.filter((event) => event.type === 'trouble' && event.where === 'write')
  assert.ok(troubles.length <= 2, `${troubles.length}`)
  assert.equal(state.underway.size, 0)
  assert.deepEqual(world.acknowledged, [], 'the journal keeps it for the next start')
})
