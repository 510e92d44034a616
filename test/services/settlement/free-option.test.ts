/**
 * No free option: whether a matched trade settles does not depend on what one of its traders does later than two blocks
 * after the first look at it. Each random history is run twice against the real settlement and a model of the
 * chain: once as it is, and once with a later act of a trader, who suddenly has everything that was missing.
 */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import type { Address, TradeId } from '#domain/ids.ts'
import { ModelChain } from './model-chain.ts'
import { AWAY, type Port, traderNumbered, World } from './settlement-fixture.ts'

const TRADERS = 4
const BLOCKS = 25
const RUNS = 150
const CHAIN_PORTS = ['submit', 'poll'] as const satisfies readonly Port[]
const WANTS: ReadonlySet<string> = new Set(['InsufficientAllowance', 'SharesNotApproved'])
const trader = (number: number): Address => traderNumbered(500 + number)

/** Mostly the first of them. */
function usually<Value>(most: Value, ...others: readonly Value[]): fc.Arbitrary<Value> {
  return fc.oneof(
    { weight: 5, arbitrary: fc.constant(most) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  )
}

const anyTrader = fc.nat({ max: TRADERS - 1 })
const anyTrade = fc.record({
  buyer: anyTrader,
  seller: anyTrader,
  size: fc.integer({ min: 1, max: 4 }),
  /** Whether the buyer of the trade before sells on. */
  isResold: fc.boolean(),
})
const anyAct = fc.record({
  trader: anyTrader,
  /** What the trader has from then on. */
  dollars: fc.integer({ min: 0, max: 20 }),
  shares: fc.integer({ min: 0, max: 4 }),
  allowance: usually(100, 0, 2),
  isApproved: usually(true, false),
})
const anyBlock = fc.record({
  trades: fc.array(anyTrade, { maxLength: 3 }),
  acts: fc.oneof(
    { weight: 5, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.tuple(anyAct) },
  ),
  /** Ports of the chain that do not answer during this block. */
  away: usually<readonly Port[]>([], ['submit'], ['poll'], CHAIN_PORTS),
  isEmpty: fc.boolean(),
  reorg: usually(0, 1, 2),
})
const anyHistory = fc.record({
  start: fc.array(anyAct, { minLength: TRADERS, maxLength: TRADERS }),
  blocks: fc.array(anyBlock, { minLength: 4, maxLength: BLOCKS }),
  confirmations: fc.nat({ max: 2 }),
  batchMax: fc.integer({ min: 1, max: 4 }),
})
type History = typeof anyHistory extends fc.Arbitrary<infer Value> ? Value : never

type Later = { readonly block: number; readonly trader: Address }

async function run(history: History, later?: Later) {
  const world = new World({ batchMax: history.batchMax, tradeDeadlineMs: 3_600_000 })
  world.automine = false
  world.confirmations = history.confirmations
  const model = new ModelChain(world)
  for (const [number, act] of history.start.entries()) model.set(trader(number), act)
  const trades: TradeId[] = []
  let lastBuyer = 0
  for (const [at, block] of history.blocks.entries()) {
    model.block = at
    for (const { buyer, seller, size, isResold } of block.trades) {
      const sells = isResold ? lastBuyer : seller
      trades.push(world.trade({ buyer: trader(buyer), seller: trader(sells), size }))
      lastBuyer = buyer
    }
    for (const act of block.acts) model.set(trader(act.trader), act)
    if (later?.block === at) model.giveAll(later.trader)
    world.away.clear()
    for (const port of block.away) world.away.set(port, AWAY)
    const { size: mined } = world.mined
    if (block.reorg > 0 && mined > 0) model.reorg(Math.max(0, mined - block.reorg))
    await world.step()
    if (!block.isEmpty) world.mine()
    model.note()
  }
  world.away.clear()
  world.automine = true
  for (let steps = 0; steps < 60 && (steps < 3 || world.state.trades.size > 0); steps++) {
    model.block++
    if (later?.block === model.block) model.giveAll(later.trader)
    await world.step(5_000)
    model.note()
  }
  for (const id of trades) assert.match(world.status(id), /confirmed|failed/, `${id} is forgotten`)
  assert.deepEqual(world.saidOf('Contradiction'), [])
  return { world, model, trades }
}

it('a trader’s actions two blocks after the first check do not change whether a trade settles', async (t) => {
  const count = { compared: 0, refused: 0, waited: 0, late: 0 }
  const property = fc.asyncProperty(
    anyHistory,
    fc.nat(),
    fc.boolean(),
    fc.nat({ max: 6 }),
    async (history, pick, isBuyer, delay) => {
      const base = await run(history)
      // Mostly one that lacked something at first.
      const short = base.trades.filter(
        (each) => base.model.looks.get(each)?.refusal?.has !== undefined,
      )
      const among = short.length > 0 && pick % 4 > 0 ? short : base.trades
      const id = among[pick % among.length]
      if (id === undefined) return
      const look = base.model.looks.get(id)
      if (look === undefined) return
      const { buyer, seller } = base.world.trades.get(id)!
      const again = await run(history, {
        block: look.block + 3 + delay,
        trader: isBuyer ? buyer : seller,
      })
      const [without, withAct] = [base.world.status(id), again.world.status(id)]
      const { model } = base
      const isWant = look.refusal !== undefined && WANTS.has(look.refusal.reason)
      // No older trade brings an allowance or an approval: what lacks one fails, whatever happens later.
      if (isWant) assert.deepEqual([without, withAct], ['failed', 'failed'])
      const endedAt = model.decidedAt.get(id) ?? Number.POSITIVE_INFINITY
      const lookedAt = look.refusal === undefined ? look.block : look.last
      const isOnTime = (model.minedAt.get(id) ?? 0) <= lookedAt + 2
      const isTaken = model.taken.some(
        (each) =>
          [buyer, seller].includes(each.trader) && each.block > look.block && each.block <= endedAt,
      )
      const isUndone = model.reorgs.some((block) => block >= look.block && block <= endedAt)
      // What could not be sent in time, or was undone by a reorg, is looked at again, and what a trader takes away
      // can be brought back.
      if (!isOnTime || isTaken || isUndone) {
        count.late++
        return
      }
      assert.equal(withAct, without, 'the later act has decided it')
      count.compared++
      if (look.refusal !== undefined) count.refused++
      if (look.refusal !== undefined && without === 'confirmed') count.waited++
    },
  )
  const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.diagnostic(`TEST_SEED=${seed}`)
  await fc.assert(property, { numRuns: RUNS, seed })
  t.diagnostic(JSON.stringify(count))
  assert(count.compared > RUNS / 4 && count.refused > 0)
})
