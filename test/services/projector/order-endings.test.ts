import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { serve } from '#runtime/serve.ts'
import {
  newOrderEndings,
  type OrderEndingsEvent,
  type OrderEndingsPorts,
  type OrderEndingsProtocol,
  type OrderEndingsState,
  orderEndings,
} from '#services/projector/order-endings.ts'
import { simulatedClock } from '../../support/simulated-clock.ts'
import { marketId } from '../market/thread-fixture.ts'

/**
 * Makes the actor that marks the orders of closed markets as ended. `found` has, for each market, the number of `end`
 * steps that the market needs. Each search returns at most two markets.
 */
function ending(
  found: Map<MarketId, number>,
  failures: Fault[] = [],
  /** Markets that always fail. */
  poisoned: ReadonlyMap<MarketId, Fault> = new Map(),
) {
  const clock = simulatedClock(0)
  const steps: string[] = []
  const left = new Map(found)
  let atOnce = 0
  async function once<T>(step: string, value: () => T): Promise<T> {
    assert.equal(++atOnce, 1, 'one step at a time')
    steps.push(step)
    await new Promise(setImmediate)
    atOnce--
    const failure = failures.shift()
    if (failure !== undefined) throw failure
    return value()
  }
  const ports: OrderEndingsPorts = {
    end: (id) =>
      once(`end ${Number(id)}`, () => {
        const fault = poisoned.get(id)
        if (fault !== undefined) throw fault
        left.set(id, (left.get(id) ?? 1) - 1)
        return left.get(id)! > 0
      }),
    find: (after) =>
      once(`find ${Number(after ?? 0)}`, () => {
        const ids = [...left.keys()].sort().filter((id) => after === undefined || id > after)
        const some = ids.slice(0, 2)
        const marketIds = some.filter((id) => left.get(id)! > 0)
        return { marketIds, next: ids.length > 2 ? some.at(-1) : undefined }
      }),
  }
  const served = serve<OrderEndingsState, OrderEndingsProtocol, OrderEndingsEvent>({
    behaviour: orderEndings,
    select: ((state) => () => ({ state }))(newOrderEndings(ports)),
    clock,
    mailboxMax: 100,
    batchMax: 100,
    full: undefined,
  })
  const tell = (type: keyof OrderEndingsProtocol, message = {}) => {
    served.hear(type, message, 0, undefined)
  }
  return { tell, steps, left, clock, drained: () => served.drained() }
}

test('after a start, the projector marks the open orders of closed markets as ended, in small steps', async () => {
  const found = new Map([1, 2, 3, 4, 5].map((n) => [marketId(n), n === 2 ? 0 : n === 3 ? 3 : 1]))
  const { tell, steps, left, drained } = ending(found)
  tell('Start')
  await drained()
  assert.deepEqual([...left.values()], [0, 0, 0, 0, 0])
  assert.deepEqual(steps, [
    'find 0',
    'end 1',
    'find 2',
    'end 3',
    'end 3',
    'end 3',
    'end 4',
    'find 4',
    'end 5',
  ])
})

test('the projector ends the orders of a market that closes, and retries after a failure', async () => {
  const away = new Fault('STORE_UNAVAILABLE', 'away', { retryable: true })
  const { tell, steps, clock, drained } = ending(new Map([[marketId(7), 2]]), [away])
  tell('MarketsClosed', { marketIds: [marketId(7)] })
  await drained()
  assert.deepEqual(steps, ['end 7'])
  clock.advance(500)
  await drained()
  assert.deepEqual(steps, ['end 7', 'end 7', 'end 7'])
})

test('on shutdown, the projector finishes only its current step of marking orders as ended', async () => {
  const { tell, steps, drained } = ending(new Map([[marketId(7), 1_000_000]]))
  tell('MarketsClosed', { marketIds: [marketId(7)] })
  tell('Stop')
  await drained()
  assert.deepEqual(steps, ['end 7'])
})

test('if the database refuses to end one market’s orders, the projector still ends the orders of other markets', async () => {
  const found = new Map([1, 2, 3].map((n) => [marketId(n), 1]))
  const refused = new Fault('STORE_CONSTRAINT', 'refused', { retryable: false })
  const { tell, left, drained } = ending(found, [], new Map([[marketId(1), refused]]))
  tell('Start')
  await drained()
  assert.deepEqual([...left.values()], [1, 0, 0])
  tell('MarketsClosed', { marketIds: [marketId(4), marketId(1)] })
  await drained()
  assert.equal(left.get(marketId(4)), 0)
})

test('if marking one market’s orders as ended keeps failing, the orders of other markets are not delayed', async () => {
  const found = new Map([1, 2].map((n) => [marketId(n), 1]))
  const busy = new Fault('STORE_UNAVAILABLE', 'locked', { retryable: true })
  const { tell, left, clock, drained } = ending(found, [], new Map([[marketId(1), busy]]))
  tell('Start')
  await drained()
  clock.advance(500)
  await drained()
  assert.equal(left.get(marketId(2)), 0)
})
