/**
 * `npm run bench -- orders --cores`: measures the rate of accepted orders with one and with two threads of each kind.
 * Also measures the CPU time per order in each kind of thread. From this it computes the rate with more cores, and
 * whether the store or the cores limit this rate. Only the store always has one thread; all other kinds may have as
 * many threads as needed.
 */

import { openExchange } from '../test/support/exchange.ts'
import { median, progress } from './bench.ts'
import { openOrderFlow, requestOf } from './order-flow.ts'

/** CPU time per order in µs, for each kind of thread. */
export type OrderCosts = Readonly<Record<'verify' | 'front' | 'market' | 'store' | 'other', number>>

type Measured = { readonly perSecond: number; readonly costs: OrderCosts }

const KINDS = ['verify', 'front', 'market', 'store'] as const

/**
 * Returns the CPU time per order in each kind of thread. `other` is mainly threads without a name: V8's helpers, which
 * compile and collect garbage, and the threads that copy write-ahead files. Compilation takes much CPU time right after
 * a process has started, and none later.
 */
export function costsOf(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  orders: number,
): OrderCosts {
  const costs = { verify: 0, front: 0, market: 0, store: 0, other: 0 }
  for (const [thread, seconds] of after) {
    const us = ((seconds - (before.get(thread) ?? 0)) * 1e6) / orders
    const kind = KINDS.find((each) => thread === each || thread.startsWith(`${each}-`))
    if (thread === '') costs.other += us
    if (kind === undefined) continue
    costs[kind] += us
    costs.other -= us
  }
  return costs
}

/**
 * Computes the maximum rate with this many cores. The store has one thread, and every other kind has as many threads as
 * it needs. `full` is what limits the rate: the store or the cores.
 */
export function calculate(
  costs: OrderCosts,
  cores: number,
): { readonly perSecond: number; readonly full: 'store' | 'cores' } {
  const { verify, front, market, store, other } = costs
  const byStore = 1e6 / store
  const byCores = (cores * 1e6) / (verify + front + market + store + other)
  return byStore < byCores
    ? { perSecond: byStore, full: 'store' }
    : { perSecond: byCores, full: 'cores' }
}

async function measure(threads: number, ordersPerRound: number, rounds: number): Promise<Measured> {
  const exchange = await openExchange({
    environment: {
      SIBYL_LOG_LEVEL: 'error',
      SIBYL_FRONT_THREADS: String(threads),
      SIBYL_MARKET_THREADS: String(threads),
      // Per front.
      SIBYL_VERIFY_THREADS: '1',
    },
  })
  try {
    const { sign, connect, cpuSeconds } = await openOrderFlow(exchange.url)
    const signed = Array.from({ length: rounds + 1 }, () => sign(ordersPerRound).map(requestOf))
    const driver = await connect()
    const measured: Measured[] = []
    for (const [round, requests] of signed.entries()) {
      progress(`orders with ${threads} of each kind: round ${round} of ${rounds}`)
      const before = await cpuSeconds()
      const elapsedMs = await driver.closedLoop(requests, ({ status, body }) => {
        if (status !== 200) throw new Error(`${status}: ${body}`)
      })
      const costs = costsOf(before, await cpuSeconds(), ordersPerRound)
      if (round > 0) measured.push({ perSecond: (ordersPerRound * 1_000) / elapsedMs, costs })
    }
    driver.close()
    const middle = (of: (each: Measured) => number) => median(measured.map(of))
    return {
      perSecond: middle(({ perSecond }) => perSecond),
      costs: {
        verify: middle(({ costs }) => costs.verify),
        front: middle(({ costs }) => costs.front),
        market: middle(({ costs }) => costs.market),
        store: middle(({ costs }) => costs.store),
        other: middle(({ costs }) => costs.other),
      },
    }
  } finally {
    await exchange.dispose()
  }
}

/** Prints the measurements with one and two threads of each kind, and the computed rates for more cores. */
export async function showCores(ordersPerRound: number, rounds: number): Promise<void> {
  const say = (line: string) => process.stdout.write(`${line}\n`)
  const one = await measure(1, ordersPerRound, rounds)
  const two = await measure(2, ordersPerRound, rounds)
  progress('')
  for (const [threads, { perSecond, costs }] of [
    [1, one],
    [2, two],
  ] as const) {
    const each = Object.entries(costs).map(([kind, us]) => `${kind} ${us.toFixed(1)}`)
    say(
      `${threads} of each kind: ${Math.round(perSecond)} orders/s; µs per order: ${each.join(', ')}`,
    )
  }
  const rates = KINDS.map((kind) => `${kind} ${Math.round(1e6 / one.costs[kind])}`)
  say(`a thread is full at so many orders/s: ${rates.join(', ')}`)
  for (const cores of [4, 8, 16]) {
    const { perSecond, full } = calculate(one.costs, cores)
    const threads = KINDS.map((kind) => `${kind} ${Math.ceil((perSecond * one.costs[kind]) / 1e6)}`)
    say(
      `calculated for ${cores} cores: ${Math.round(perSecond)} orders/s, of which the ${full} ` +
        `${full === 'store' ? 'is' : 'are'} the limit; threads: ${threads.join(', ')}`,
    )
  }
}
