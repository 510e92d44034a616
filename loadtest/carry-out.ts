/**
 * Starts the operations of a plan at their intended times, whether or not earlier operations have ended (open loop). It
 * turns each operation into a request, and passes each answer to the recorder.
 */

import { mintToken, type TokenKey } from './bearer-tokens.ts'
import type { Histogram } from './histogram.ts'
import { type Answer, type Driver, writeRequest } from './http-driver.ts'
import type { OrderTape } from './order-tape.ts'
import type { Recorder } from './recorder.ts'
import type { Trader } from './signed-orders.ts'
import type { Target } from './target.ts'
import {
  isOrder,
  type Operation,
  type OrderOperation,
  type PlannedOrder,
  type ReadOperation,
} from './workload.ts'

const PACE_MS = 1

type Carrying = {
  readonly plan: Iterator<Operation>
  readonly beganMs: number
  readonly lateness: Histogram
  readonly operate: (operation: Operation, dueMs: number) => void
  /** Runs once a second. */
  readonly tick: () => Promise<void>
  readonly signal: AbortSignal | undefined
  /** Reason why the run should end; '' while it can continue. */
  readonly trouble: () => string
}

/**
 * Starts each operation when it is due, whether or not earlier ones have ended. Resolves with the reason why the run
 * ended.
 */
export function carryOut(carrying: Carrying): Promise<string> {
  const { plan, beganMs, lateness, operate, tick, signal, trouble } = carrying
  let next = plan.next()
  let seconds = 0
  let ticking = false
  return new Promise((resolve, reject) => {
    const pace = (): void => {
      try {
        let nowMs = performance.now() - beganMs
        while (next.done !== true && next.value.atMs <= nowMs) {
          lateness.recordMs(nowMs - next.value.atMs)
          operate(next.value, beganMs + next.value.atMs)
          next = plan.next()
          nowMs = performance.now() - beganMs
        }
        if (nowMs >= (seconds + 1) * 1_000 && !ticking) {
          seconds = Math.floor(nowMs / 1_000)
          ticking = true
          tick().then(() => {
            ticking = false
          }, reject)
        }
        const why = signal?.aborted === true ? 'the user stopped the run' : trouble()
        if (why !== '' || next.done === true) resolve(why)
        else setTimeout(pace, PACE_MS)
      } catch (error) {
        reject(error)
      }
    }
    pace()
  })
}

/** Returns a function that sends the request of a planned operation, and passes the answer to the recorder. */
export function operatorOf(parts: {
  readonly target: Target
  readonly driver: Driver
  readonly recorder: Recorder
  readonly tape: OrderTape
  readonly traders: readonly Trader[]
  readonly keys: readonly TokenKey[] | undefined
}): (operation: Operation, dueMs: number) => void {
  const { target, driver, recorder, tape, traders, keys } = parts
  const { markets } = target

  const to = { host: new URL(target.url).host }
  const headersOf = (trader: number): Record<string, string> =>
    keys === undefined ? to : { ...to, authorization: `Bearer ${mintToken(keys[trader]!)}` }

  function place(order: OrderOperation, dueMs: number): void {
    const { hash, body } = tape.next()
    recorder.ordered(order, `0x${hash.toString('hex')}`)
    const request = writeRequest('POST', '/api/v1/orders', body, headersOf(order.trader))
    driver.send(request, dueMs, (answer) => recorder.placed(order.kind, order, answer))
  }

  function cancel(order: PlannedOrder, dueMs: number): void {
    const side = order.side === 0 ? 'buy' : 'sell'
    const query = `marketId=${markets[order.market]}&side=${side}`
    const path = `/api/v1/orders/${recorder.hashOf(order)}?${query}`
    const request = writeRequest('DELETE', path, '', headersOf(order.trader))
    driver.send(request, dueMs, (answer) => recorder.cancelled(order, answer))
  }

  function read(operation: ReadOperation, dueMs: number) {
    const { kind, market, outcome, trader } = operation
    const marketId = markets[market]!
    const [path, mustHave] = {
      book: [`/api/v1/orderbook/${marketId}?outcome=${outcome}`, `"marketId":"${marketId}"`],
      trades: [`/api/v1/trades/${marketId}`, `"marketId":"${marketId}"`],
      orders: [`/api/v1/orders?trader=${traders[trader]!.address}`, '"orders":['],
      markets: ['/api/v1/markets', '"markets":['],
    }[kind] as [string, string]
    const done = (answer: Answer): void => recorder.read(kind, answer, mustHave)
    driver.send(writeRequest('GET', path, '', to), dueMs, done)
  }

  return (operation, dueMs) => {
    recorder.due(operation.kind)
    if (isOrder(operation)) place(operation, dueMs)
    else if (operation.kind === 'cancel') cancel(operation.order, dueMs)
    else read(operation, dueMs)
  }
}
