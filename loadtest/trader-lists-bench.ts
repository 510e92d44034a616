/**
 * `npm run bench -- trader-lists`: measures how much lists of open orders delay orders. A market thread with 10,003
 * markets handles 200 orders a second, at first alone. Then it also answers 100 requests a second for the open orders
 * of a trader who has few. With these requests, the median time of an order may be at most twice as long as alone.
 *
 * Then a trader with 100,000 open orders (`--quick`: 20,000) lists all of them, page by page, while the thread handles
 * 200 orders a second again. The slowest page and the slowest order are printed. `--markets` sets the number of
 * markets.
 */

import { parseArgs } from 'node:util'
import type { Address, OrderHash, Uint64 } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { isUnanswered } from '#runtime/channel.ts'
import { randomFrom } from '../test/support/random.ts'
import { median, quick, report } from './bench.ts'
import { FlowRecorder } from './market-flow.ts'
import { type MarketHost, sendAll, startMarketHost } from './market-host.ts'

const { values } = parseArgs({
  strict: false,
  options: { markets: { type: 'string', default: '10003' } },
})
const MARKETS = Number(values.markets)
const ORDERS_PER_SECOND = 200
const LISTS_PER_SECOND = 100
const SECONDS = quick ? 4 : 10
const MANY_ORDERS = quick ? 20_000 : 100_000
const MANY_MARKETS = MANY_ORDERS / 5_000

const random = randomFrom(7)
const recorder = new FlowRecorder(7, MARKETS)
const { markets } = recorder
const ann = random.hex(20) as Address
const bob = random.hex(20) as Address
const host = await startMarketHost()

/** Returns an order of the trader that rests in the book of one market. */
function orderOf(trader: Address, market: number): VerifiedOrder {
  const [command] = recorder.resting(1)
  if (command?.type !== 'PlaceOrder')
    throw new Error('the first command of the flow of resting orders is not PlaceOrder')
  return {
    ...command.message.order,
    trader,
    marketId: markets[market % markets.length]!.id,
    side: 0,
    price: 1_000 as VerifiedOrder['price'],
    nonce: String(random.int(1, 2 ** 50)) as Uint64,
    orderHash: random.hex(32) as OrderHash,
  }
}

/**
 * Places orders at `ORDERS_PER_SECOND` until `isDone` returns true. Returns the time of each order, from its planned
 * start to its answer.
 */
async function placing(orders: readonly VerifiedOrder[], isDone: () => boolean): Promise<number[]> {
  const times: number[] = []
  await paced(ORDERS_PER_SECOND, isDone, async (index, dueMs) => {
    const order = orders[index]
    if (order === undefined) return
    await host.channel.ask('PlaceOrder', { order })
    times.push(performance.now() - dueMs)
  })
  return times
}

/** Calls a function at this rate until `isDone` returns true, whether or not earlier calls have ended. */
async function paced(
  perSecond: number,
  isDone: () => boolean,
  act: (index: number, dueMs: number) => Promise<void>,
): Promise<void> {
  const startMs = performance.now()
  const begun: Promise<void>[] = []
  while (!isDone()) {
    const due = Math.floor(((performance.now() - startMs) * perSecond) / 1_000)
    while (begun.length < due) {
      begun.push(act(begun.length, startMs + (begun.length * 1_000) / perSecond))
    }
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(begun)
}

function fresh(count: number): VerifiedOrder[] {
  return Array.from({ length: count }, () =>
    orderOf(random.hex(20) as Address, random.int(0, MARKETS - 1)),
  )
}

const after = (seconds: number) => {
  const endMs = performance.now() + seconds * 1_000
  return () => performance.now() >= endMs
}

async function page(
  trader: Address,
  limit: number,
  place?: { placedAtMs: number; orderHash: OrderHash },
) {
  const asked = place === undefined ? { trader, limit } : { trader, limit, after: place }
  const answer = await host.channel.ask('OpenOrdersPage', asked)
  if (isUnanswered(answer)) throw new Error(JSON.stringify(answer))
  return answer
}

async function listAll(trader: Address): Promise<{ pages: number; longestMs: number }> {
  let pages = 0
  let longestMs = 0
  let place: { placedAtMs: number; orderHash: OrderHash } | undefined
  for (;;) {
    const startMs = performance.now()
    const { orders } = await page(trader, 1_000, place)
    longestMs = Math.max(longestMs, performance.now() - startMs)
    pages++
    if (orders.length < 1_000) return { pages, longestMs }
    place = orders.at(-1)
  }
}

async function place(hosted: MarketHost, orders: readonly VerifiedOrder[]): Promise<void> {
  const commands = orders.map((order) => ({ type: 'PlaceOrder' as const, message: { order } }))
  await sendAll(hosted, commands, 4_096)
}

await Promise.all(markets.map((market) => host.channel.ask('OpenMarket', { market })))
await place(host, fresh(5_000))
await place(
  host,
  Array.from({ length: 10 }, (_, n) => orderOf(ann, n)),
)

const times = SECONDS * ORDERS_PER_SECOND + 100
const alone = median(await placing(fresh(times), after(SECONDS)))
const isOver = after(SECONDS)
const lists: number[] = []
const listing = paced(LISTS_PER_SECOND, isOver, async (_, dueMs) => {
  await page(ann, 1_000)
  lists.push(performance.now() - dueMs)
})
const beside = median(await placing(fresh(times), isOver))
await listing
process.stdout.write(
  `${MARKETS} markets: an order takes ${alone.toFixed(1)} ms alone and ${beside.toFixed(1)} ms beside ` +
    `${LISTS_PER_SECOND} lists a second; a list takes ${median(lists).toFixed(1)} ms\n`,
)

await place(
  host,
  Array.from({ length: MANY_ORDERS }, (_, n) => orderOf(bob, n % MANY_MARKETS)),
)
let isListed = false
const orders = placing(fresh(100_000), () => isListed)
const { pages, longestMs } = await listAll(bob)
isListed = true
const slowest = Math.max(...(await orders))
process.stdout.write(
  `${MANY_ORDERS} open orders of one trader: ${pages} pages, the longest ${longestMs.toFixed(1)} ms; ` +
    `the slowest order meanwhile ${slowest.toFixed(1)} ms\n`,
)
await host.stop()
report({
  bench: 'orders beside lists of open orders',
  figure: Math.round(beside * 1_000) / 1_000,
  unit: 'ms',
  peer: 'the same orders alone',
  peerFigure: Math.round(alone * 1_000) / 1_000,
  ratio: Math.round((alone / beside) * 1_000) / 1_000,
  bar: 0.5,
})
