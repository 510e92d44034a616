/**
 * Tests that traders have no free option. If a trader acts more than two blocks after settlement first checks a matched
 * trade, the action does not change whether the trade settles.
 *
 * Each random history runs twice against the real settlement and a model of the chain. The second run adds a late
 * action, which gives one trader plenty of all funds or takes all funds away.
 *
 * Some trades are decided more than two blocks after the check. This happens if their transaction waits, the chain is
 * unavailable, or a reorg removes their block. It also happens if their trader spends funds while the trade waits for
 * older trades. For such a trade, the late action comes after the decision. Before the decision, a trader can change
 * the result only if the trader's funds do not cover all of the trader's unsettled trades.
 */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import type { Address, TradeId } from '#domain/ids.ts'
import type { FillKind } from '#domain/trade.ts'
import { sampleOf } from '../../support/sample.ts'
import { ModelChain } from './model-chain.ts'
import { AWAY, keyOf, type Port, traderNumbered, World } from './settlement-fixture.ts'

const TRADERS = 4
const BLOCKS = 25
const RUNS = Number(process.env.TEST_HISTORIES ?? sampleOf(1_000, 4))
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
  /** True if traders pay with tokens that an earlier trade brings. */
  isResold: fc.boolean(),
  kind: fc.constantFrom<FillKind | undefined>(undefined, undefined, 'mint', 'merge'),
})
const anyAct = fc.record({
  trader: anyTrader,
  /** Funds of the trader after the action. */
  dollars: fc.integer({ min: 0, max: 20 }),
  shares: fc.integer({ min: 0, max: 16 }),
  others: fc.integer({ min: 0, max: 16 }),
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
  /** Number of newest blocks that are removed. */
  reorg: usually(0, 1, 3),
})
const anyHistory = fc.record({
  start: fc.array(anyAct, { minLength: TRADERS, maxLength: TRADERS }),
  blocks: fc.array(anyBlock, { minLength: 4, maxLength: BLOCKS }),
  confirmations: fc.nat({ max: 2 }),
  batchMax: fc.integer({ min: 1, max: 4 }),
})
type History = typeof anyHistory extends fc.Arbitrary<infer Value> ? Value : never

/** A late action, after which one trader has everything or nothing. */
type Later = {
  readonly block: number
  readonly trader: Address
  readonly what: 'giveAll' | 'takeAll'
}

async function run(history: History, later?: Later) {
  const world = new World({ batchMax: history.batchMax, tradeDeadlineMs: 3_600_000 })
  world.automine = false
  world.confirmations = history.confirmations
  const model = new ModelChain(world)
  const act = (): void => {
    if (later?.block === model.block) model[later.what](later.trader)
    model.noteShort()
  }
  for (const [number, each] of history.start.entries()) model.set(trader(number), each)
  const trades: TradeId[] = []
  /** By token: the trader who was the last to receive dollars, YES shares or NO shares. */
  const last = { dollars: 0, yes: 0, no: 0 }
  for (const [at, block] of history.blocks.entries()) {
    model.block = at
    for (const { size, isResold, kind, ...sides } of block.trades) {
      const resells = kind === 'mint' ? { seller: last.dollars } : { seller: last.yes }
      const merges = isResold && kind === 'merge' ? { buyer: last.no } : {}
      const { buyer, seller } = { ...sides, ...(isResold ? resells : {}), ...merges }
      trades.push(world.trade({ buyer: trader(buyer), seller: trader(seller), size, kind }))
      if (kind !== 'merge') last.yes = buyer
      if (kind === 'mint') last.no = seller
      else last.dollars = seller
    }
    for (const each of block.acts) model.set(trader(each.trader), each)
    world.away.clear()
    for (const port of block.away) world.away.set(port, AWAY)
    if (block.reorg > 0) model.reorg(block.reorg)
    act()
    await world.step()
    if (!block.isEmpty) world.mine()
    model.note()
  }
  world.away.clear()
  world.automine = true
  // `world.state.trades` does not contain every undecided trade. If a taker already has enough trades in settlement,
  // the taker's other trades wait in the database.
  const isOpen = (id: TradeId) => !/confirmed|failed/.test(world.status(id))
  const isBusy = () =>
    world.state.trades.size > 0 || trades.some(isOpen) || model.block < (later?.block ?? 0) + 3
  for (let steps = 0; steps < 60 && (steps < 3 || isBusy()); steps++) {
    model.block++
    act()
    await world.step(5_000)
    model.note()
  }
  for (const id of trades) checkEnd(world, model, id)
  assert.deepEqual(world.saidOf('Contradiction'), [])
  return { world, model, trades }
}

/** Checks properties that hold for every trade, despite long waits of its transaction, withdrawals and reorgs. */
function checkEnd(world: World, model: ModelChain, id: TradeId): void {
  const status = world.status(id)
  assert.match(status, /confirmed|failed/, `${id} is forgotten`)
  const isSettled = world.settledBy.has(keyOf({ tradeId: id }))
  assert.equal(isSettled, status === 'confirmed', `${id} is ${status}, unlike on chain`)
  // If a block refuses a trade and names a side at fault, the trade must fail. This also holds if a reorg removes the
  // block.
  if (model.refusedAt.has(id)) assert.equal(status, 'failed', `${id} is refused and settles`)
  // If the traders can pay for all their trades at every block, the trade must settle.
  if (!model.short.has(id)) assert.equal(status, 'confirmed', `${id} is covered and fails`)
  if (status !== 'failed') return
  assert.equal(world.wayOf(id).indexOf('failed'), world.wayOf(id).length - 1)
  assert.equal(world.faults.get(id), model.verdicts.get(id)?.refusal?.fault, `fault of ${id}`)
}

/** Returns whether the trade's transaction was mined more than two blocks after the last check. */
function isMinedLate({ minedAt, looks }: ModelChain, id: TradeId): boolean {
  return (minedAt.get(id) ?? 0) > (looks.get(id)?.last ?? 0) + 2
}

it('traders can change a trade’s result only until two blocks after settlement first checks the trade', async (t) => {
  const count = { compared: 0, refused: 0, waited: 0, late: 0, lateCovered: 0 }
  const property = fc.asyncProperty(
    anyHistory,
    fc.nat(),
    fc.boolean(),
    fc.nat({ max: 6 }),
    fc.boolean(),
    async (history, pick, isBuyer, delay, isGiven) => {
      const base = await run(history)
      const looked = base.trades.filter((each) => base.model.looks.has(each))
      // Picks a trade that lacked a balance at its first check, one that was decided late, or any checked trade.
      const refused = looked.filter((each) => base.model.looks.get(each)?.refusal?.has)
      const late = looked.filter(
        (each) => base.model.decisionOf(each) > base.model.looks.get(each)!.block + 2,
      )
      const wanted = [refused, late, looked][pick % 3] ?? []
      const among = wanted.length > 0 ? wanted : looked
      const id = among[Math.floor(pick / 3) % among.length]
      if (id === undefined) return
      const look = base.model.looks.get(id)!
      const { buyer, seller } = base.world.trades.get(id)!
      const { model } = base
      const without = base.world.status(id)
      const withAct = async (block: number, what: Later['what']) => {
        const later = { block: block + 1 + delay, trader: isBuyer ? buyer : seller, what }
        return (await run(history, later)).world.status(id)
      }
      const decidedAt = model.decisionOf(id)
      const isEarly = decidedAt <= look.block + 2
      const isWant = look.refusal !== undefined && WANTS.has(look.refusal.reason)
      // If the trade lacked an allowance or approval at its first check, it must have failed. Older trades can bring
      // tokens to the trader, but no allowance or approval.
      if (isWant) assert.equal(without, 'failed')
      // True if the trade lacked a balance at its first check, and could still settle after older trades.
      const isAwaiting =
        look.refusal !== undefined && !model.refusedAt.has(id) && !isMinedLate(model, id)
      const endedAt = model.decidedAt.get(id) ?? Number.POSITIVE_INFINITY
      const isTaken = model.taken.some(
        (each) =>
          [buyer, seller].includes(each.trader) && each.block > look.block && each.block <= endedAt,
      )
      const isUndone = model.reorgs.some((block) => block >= look.block && block <= endedAt)
      if (isEarly || isWant) {
        const what = isGiven ? 'giveAll' : 'takeAll'
        assert.equal(await withAct(look.block + 2, what), without, 'the later act has decided it')
      } else if (isAwaiting && !isTaken && !isUndone) {
        // The late action only adds funds, because a waiting trade may fail if funds are removed. The action could
        // change the results of older trades, so it comes after they are decided.
        const older = base.trades
          .slice(0, base.trades.indexOf(id))
          .filter((each) => model.decisionOf(each) >= look.block && model.looks.has(each))
          .map((each) =>
            isMinedLate(model, each) ? model.decisionOf(each) : model.looks.get(each)!.block + 2,
          )
        const after = await withAct(Math.max(look.block + 2, ...older), 'giveAll')
        assert.equal(after, without, 'the later act has decided it')
      } else {
        // This trade is decided late: in a block, or by the last check before it is sent. Until then, a trader whose
        // funds do not cover all trades can change the result. So the late action comes after the decision.
        const what = isGiven ? 'giveAll' : 'takeAll'
        assert.equal(await withAct(decidedAt, what), without, 'an act after the decision')
        count.late++
        if (!model.short.has(id)) count.lateCovered++
        return
      }
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
