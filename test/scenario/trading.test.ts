/**
 * Tests trading on one exchange that is stopped, killed and restarted with other settings. All data survives. Each test
 * has its own markets and traders.
 */

import { type TestContext, test } from 'node:test'
import type { Market } from '#domain/market.ts'
import { BAD_ORDER_MARKETS, tryBadOrders } from '../api/try-bad-orders.ts'
import { ORDER_CHAINS, ORDER_MARKETS, tryOrders } from '../api/try-orders.ts'
import { startExchange } from '../support/exchange.ts'
import { marketNumbered, seedMarkets } from '../support/seeded-markets.ts'
import { followBook } from './live-book.ts'
import { tryOrderLife } from './order-life.ts'
import { changeFronts, STREAM_LIMITS } from './stream-fronts.ts'
import { twoTraders } from './two-traders.ts'

const [crossed, followed, streamed, grouped] = [1, 2, 3, 4].map((number) =>
  marketNumbered(number),
) as [Market, Market, Market, Market]
const ENVIRONMENT = { SIBYL_CHAINS: ORDER_CHAINS }

test('traders can trade on an exchange with several fronts and market threads', async (t) => {
  const exchange = await startExchange(t, {
    environment: ENVIRONMENT,
    prepare: (dataDir) =>
      seedMarkets(dataDir, [
        ...ORDER_MARKETS,
        ...BAD_ORDER_MARKETS,
        ...[crossed, followed, streamed, grouped].map((market) => ({ market })),
      ]),
  })
  /** Runs a subtest and returns its result. */
  async function part<T>(name: string, work: (nested: TestContext) => Promise<T>): Promise<T> {
    const results: T[] = []
    await t.test(name, async (nested) => void results.push(await work(nested)))
    if (!(0 in results)) throw new Error(`it failed: ${name}`)
    return results[0]
  }

  const sameOrders = await part('orders are placed, listed and cancelled over HTTP', (nested) =>
    tryOrders(nested, exchange),
  )
  await t.test('an invalid order is refused with its error code, HTTP status and field', (nested) =>
    tryBadOrders(nested, exchange),
  )
  const sameBook = await part(
    'two traders fill a book, match its orders in part, cancel the rest, and read all of it',
    () => twoTraders(exchange, crossed.id),
  )

  const stillProtected = await part(
    'orders can have labels, groups and a latest arrival, and can be replaced',
    (nested) => tryOrderLife(nested, exchange, grouped.id),
  )

  await exchange.stop()
  await exchange.start({ ...ENVIRONMENT, ...STREAM_LIMITS, SIBYL_FRONT_THREADS: '2' })
  await t.test('open orders survive a restart', sameOrders)
  await stillProtected(t)
  await t.test('orders and trades of two traders survive a restart', sameBook)
  await t.test(
    'a stream that reconnects to another front continues at its last position',
    (nested) => changeFronts(nested, exchange, streamed.id),
  )
  const following = await part('two traders follow the same book live', () =>
    followBook(t, exchange, followed.id),
  )

  const { port } = new URL(exchange.url)
  await exchange.kill()
  await following.whileGone()
  await exchange.start({ ...ENVIRONMENT, SIBYL_PORT: port })
  await t.test(
    'two traders who follow one book still see the same book after the exchange was killed and restarted',
    following.whenBack,
  )
  await t.test('open orders survive a kill of the exchange', sameOrders)
  await exchange.stop()
  await t.test(
    'a stream receives the announcement that the exchange will stop',
    following.whenStopped,
  )
})
