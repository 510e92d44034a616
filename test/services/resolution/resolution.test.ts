/**
 * Tests that each due resolution is settled exactly once, across restarts too. If the chain refuses a resolution, it is
 * retried after a pause.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Address, MarketId } from '#domain/ids.ts'
import { RESOLUTIONS_UNDERWAY_MAX } from '#domain/limits.ts'
import { reject } from '#domain/rejection.ts'
import { type Served, serve } from '#runtime/serve.ts'
import {
  newResolution,
  type ResolutionDue,
  type ResolutionEvent,
  type ResolutionProtocol,
  type ResolutionState,
  type ResolutionTrial,
  resolution,
  type SettledStep,
} from '#services/resolution/resolution.ts'

/** The actor with a minimal chain and journal. */
class World {
  nowMs = 1_000_000
  due: ResolutionDue[] = []
  trial: ResolutionTrial = { gas: 100_000 }
  away = ''
  readonly tried: string[] = []
  readonly sent: string[] = []
  readonly acknowledged: number[] = []
  readonly said: ResolutionEvent[] = []
  /** Open transactions of the journal, by reference. */
  readonly open = new Map<string, number>()
  /** By reference: outcome of each transaction that is final on the chain. */
  readonly decided = new Map<string, SettledStep['outcome']>()
  state!: ResolutionState
  served!: Served

  constructor() {
    this.restart()
  }

  restart(): void {
    const fail = (what: string) => {
      if (this.away === what) throw new Error(`${what} is away`)
    }
    this.state = newResolution({
      recover: async () => {
        fail('journal')
        return [...this.open.keys()]
      },
      due: async () => {
        fail('database')
        return this.due
      },
      attempt: async ({ reference }) => {
        this.tried.push(reference)
        fail('chain')
        return this.trial
      },
      send: async ({ reference }) => {
        fail('send')
        this.sent.push(reference)
        this.open.set(reference, this.sent.length)
        return { nonce: this.sent.length, txHash: `0x${this.sent.length}` }
      },
      poll: async () =>
        [...this.open].map(([reference, nonce]) => ({
          type: this.decided.has(reference) ? ('finished' as const) : ('waiting' as const),
          reference,
          nonce,
          txHash: `0x${nonce}`,
          outcome: this.decided.get(reference),
        })),
      acknowledge: async (nonce) => {
        fail('acknowledge')
        this.acknowledged.push(nonce)
        for (const [reference, open] of this.open) if (open === nonce) this.open.delete(reference)
      },
    })
    this.served = serve<ResolutionState, ResolutionProtocol, ResolutionEvent>({
      behaviour: resolution,
      select: () => ({ state: this.state }),
      clock: { nowMs: () => this.nowMs, after: () => () => {} },
      mailboxMax: 1_000,
      batchMax: 100,
      full: reject('OVERLOADED'),
      say: (said) => this.said.push(...said),
    })
  }

  async look(): Promise<void> {
    this.served.hear('Tick', {}, 0, undefined)
    // All ports answer with resolved promises, so a few turns of the event loop finish all work.
    for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
}

function settle(number: number): ResolutionDue {
  const marketId = `0x${String(number).padStart(64, '0')}` as MarketId
  return { reference: `settle ${number}`, step: 'settle', marketId, market: '0x00' as Address }
}

test('the resolution service sends each due resolution once, and acknowledges the transaction when it has succeeded', async () => {
  const world = new World()
  world.due = [settle(1), settle(2)]
  await world.look()
  assert.deepEqual(world.sent, ['settle 1', 'settle 2'])
  await world.look()
  await world.look()
  assert.deepEqual(world.sent, ['settle 1', 'settle 2'], 'not again while it is under way')

  world.decided.set('settle 1', 'succeeded')
  world.due = [settle(2)]
  await world.look()
  assert.deepEqual(world.acknowledged, [1])
  assert.deepEqual(
    world.said.filter(({ type }) => type === 'ended'),
    [{ type: 'ended', reference: 'settle 1', txHash: '0x1', outcome: 'succeeded' }],
  )
})

test('a resolution that has succeeded on chain is not sent again, even while the indexer lags behind', async () => {
  const world = new World()
  world.due = [settle(1)]
  await world.look()
  world.decided.set('settle 1', 'succeeded')
  await world.look()
  await world.look()
  assert.equal(world.tried.length, 1)
})

test('a resolution that fails in simulation is retried after growing pauses, and sent once it succeeds', async () => {
  const world = new World()
  world.due = [settle(1)]
  world.trial = { refused: 'the dispute is not decided' }
  await world.look()
  await world.look()
  assert.equal(world.tried.length, 1, 'it pauses')
  world.nowMs += 5_000
  await world.look()
  assert.equal(world.tried.length, 2)
  world.nowMs += 5_000
  await world.look()
  assert.equal(world.tried.length, 2, 'the second pause is longer')
  world.nowMs += 5_000
  world.trial = { gas: 1 }
  await world.look()
  assert.deepEqual(world.sent, ['settle 1'])
})

test('after a restart, the resolution service follows the transactions in its journal and sends none again', async () => {
  const world = new World()
  world.due = [settle(1)]
  await world.look()
  world.restart()
  await world.look()
  await world.look()
  assert.deepEqual(world.sent, ['settle 1'])
  world.decided.set('settle 1', 'succeeded')
  world.due = []
  await world.look()
  assert.deepEqual(world.acknowledged, [1])
})

test('an outage of the journal, the database or the chain only delays a resolution', async () => {
  for (const part of ['journal', 'database', 'chain', 'send', 'acknowledge']) {
    const world = new World()
    world.due = [settle(1)]
    world.away = part
    await world.look()
    world.nowMs += 10_000
    world.decided.set('settle 1', 'succeeded')
    await world.look()
    world.away = ''
    for (let times = 0; times < 3; times++) {
      if (world.acknowledged.length > 0) world.due = []
      world.nowMs += 100_000
      await world.look()
    }
    assert.deepEqual(world.sent, ['settle 1'], part)
    assert.deepEqual(world.acknowledged, [1], part)
    world.due = []
    await world.look()
    assert.equal(world.state.why, '', part)
  }
})

test('at most the configured number of resolutions is in flight', async () => {
  const world = new World()
  world.due = Array.from({ length: RESOLUTIONS_UNDERWAY_MAX + 5 }, (_, each) => settle(each))
  await world.look()
  assert.equal(world.sent.length, RESOLUTIONS_UNDERWAY_MAX)
  for (const { reference } of world.due) world.decided.set(reference, 'succeeded')
  await world.look()
  await world.look()
  assert.equal(world.sent.length, RESOLUTIONS_UNDERWAY_MAX + 5)
})

test('the resolution service gives up a resolution after five reverts on chain, and continues with others', async () => {
  const world = new World()
  world.due = [settle(1)]
  for (let time = 0; time < 50; time++) {
    await world.look()
    world.decided.set('settle 1', 'reverted')
    await world.look()
    world.decided.clear()
    world.nowMs += 3_600_000
  }
  assert.equal(world.sent.length, 5)
  const told = world.said.filter((said) => said.type === 'trouble')
  assert.deepEqual(told, [
    { type: 'trouble', why: 'settle 1 reverted 5 times: it is not sent again before a restart' },
  ])
  world.due = [settle(1), settle(2)]
  await world.look()
  assert.deepEqual(world.sent.slice(5), ['settle 2'])
})
