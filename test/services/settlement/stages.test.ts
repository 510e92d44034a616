/** Tests the table of the stages that a trade goes through in settlement. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TradeId } from '#domain/ids.ts'
import { moveTo, type PendingSettlement, STEPS, type Stage } from '#services/settlement/state.ts'
import { World } from './settlement-fixture.ts'

const STAGES = Object.keys(STEPS) as Stage[]

function pendingIn(stage: Stage): PendingSettlement {
  return { stage, trade: { tradeId: 'm-1-0' as TradeId } } as unknown as PendingSettlement
}

for (const from of STAGES) {
  for (const to of STAGES) {
    const isLegal = STEPS[from].includes(to)
    test(`settlement: a trade ${isLegal ? 'may' : 'must not'} go from ${from} to ${to}`, () => {
      const pending = pendingIn(from)
      if (isLegal) {
        moveTo(pending, to)
        assert.equal(pending.stage, to)
      } else {
        assert.throws(() => moveTo(pending, to), {
          name: 'AssertionError',
          message: `m-1-0 cannot go from ${from} to ${to}`,
        })
        assert.equal(pending.stage, from)
      }
    })
  }
}

test('settlement: every stage of a trade is reachable from queued, and ended is reachable from every stage', () => {
  const reachable = (start: Stage): ReadonlySet<Stage> => {
    const found = new Set<Stage>([start])
    for (const stage of found) for (const next of STEPS[stage]) found.add(next)
    return found
  }
  assert.deepEqual([...reachable('queued')].toSorted(), STAGES.toSorted())
  for (const stage of STAGES) assert(reachable(stage).has('ended'), stage)
})

test('in settlement, a trade passes the stages queued, submitting, sent and ended in this sequence', async () => {
  const world = new World()
  const id = world.trade()
  world.automine = false
  world.byHand = true
  const seen: Stage[] = []
  await world.until(() => {
    const stage = world.state.trades.get(id)?.stage
    if (stage !== undefined && stage !== seen.at(-1)) seen.push(stage)
    if (stage === 'sent' && world.mined.size === 0) world.mine()
    return stage === 'ended'
  })
  assert.deepEqual(seen, ['queued', 'submitting', 'sent', 'ended'])
})
