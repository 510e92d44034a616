/**
 * Checks of matching rules and implied books. The checks of complementary markets are skipped if the server has no such
 * markets.
 */

import type { Check } from './check.ts'
import { demand, demandEqual, Skipped } from './mismatch.ts'
import { demandShape, NATURAL } from './shape.ts'
import { cancel, place, traderOf, type World } from './world.ts'

const UNIT = 1_000_000
const TTL_SECONDS = 3_600
/** Number of attempts to compare two reads of a book, because the book may change between them. */
const TRIES = 10

type Listed = {
  readonly id: string
  readonly matching?: string
  readonly status: string
  readonly expiration: number
}
type Level = {
  readonly price: number
  readonly size: number | bigint
  readonly implied?: number | bigint
}
type Book = { readonly bids: readonly Level[]; readonly asks: readonly Level[] }

async function openMarkets({ ask, config }: World): Promise<readonly Listed[]> {
  const { body } = await ask('/markets?status=open')
  const { markets = [] } = (body ?? {}) as { markets?: readonly Listed[] }
  if (markets.every(({ matching }) => matching === undefined)) {
    throw new Skipped('no open market of the server has the field matching')
  }
  const { serverTime } = await config()
  return markets.filter(({ expiration }) => expiration > serverTime + 2 * TTL_SECONDS)
}

async function complementary(world: World): Promise<Listed> {
  const found = (await openMarkets(world)).find(({ matching }) => matching === 'complementary')
  if (found === undefined)
    throw new Skipped('no complementary market stays open for another two hours')
  return found
}

async function bookOf({ ask }: World, id: string, query: string): Promise<Book> {
  const { status, body, text } = await ask(`/orderbook/${id}?${query}`)
  demand(status === 200 && body !== undefined, `GET /orderbook?${query} to answer 200`, text)
  return body as Book
}

const sums = (levels: readonly (readonly [number, bigint])[]) => {
  const found = new Map<number, bigint>()
  for (const [price, size] of levels) found.set(price, (found.get(price) ?? 0n) + size)
  return [...found]
    .sort(([a], [b]) => a - b)
    .map(([price, size]) => `${price}:${size}`)
    .join()
}
const own = (levels: readonly Level[]) =>
  levels.map(({ price, size }) => [price, BigInt(size)] as const)
const mirrored = (levels: readonly Level[]) =>
  levels.map(({ price, size }) => [UNIT - price, BigInt(size)] as const)

export const MATCHING_CHECKS: readonly Check[] = [
  {
    id: 'matching.rule',
    says: 'the field matching of every market is same-outcome or complementary',
    async run(world) {
      for (const { id, matching } of await openMarkets(world)) {
        const isKnown = matching === 'same-outcome' || matching === 'complementary'
        demand(isKnown, `matching of ${id} to be same-outcome or complementary`, matching)
      }
    },
  },
  {
    id: 'matching.implied',
    says: 'implied=true adds implied levels to the book of a complementary market only',
    async run(world) {
      const markets = await openMarkets(world)
      for (const rule of ['same-outcome', 'complementary']) {
        const id = markets.find(({ matching }) => matching === rule)?.id
        if (id === undefined) continue
        for (let tries = 1; ; tries++) {
          const yes = await bookOf(world, id, 'outcome=YES')
          const no = await bookOf(world, id, 'outcome=NO')
          const implied = await bookOf(world, id, 'outcome=YES&implied=true')
          const adds = rule === 'complementary'
          const asks = [...own(yes.asks), ...(adds ? mirrored(no.bids) : [])]
          const bids = [...own(yes.bids), ...(adds ? mirrored(no.asks) : [])]
          const wanted = [sums(bids), sums(asks)]
          const seen = [sums(own(implied.bids)), sums(own(implied.asks))]
          if (wanted.join('|') !== seen.join('|') && tries < TRIES) continue
          demandEqual(`the YES book of market ${id} with implied=true to be`, seen, wanted)
          break
        }
      }
    },
  },
  {
    id: 'matching.implied-order',
    says: 'in a complementary market, a bid for YES also appears as an implied ask for NO',
    async run(world) {
      const trader = traderOf(world)
      const { id } = await complementary(world)
      const submission = await trader.sign({ marketId: id })
      const { price, size } = submission.order
      const answer = await place(world, submission)
      const { orderHash = '' } = (answer.body ?? {}) as { orderHash?: string }
      demand(answer.status === 200, 'the order to be accepted', answer.text)
      try {
        const { asks } = await bookOf(world, id, 'outcome=NO&implied=true')
        const level = asks.find((each) => each.price === UNIT - Number(price))
        demandShape('the implied ask', level, { price: NATURAL, size: NATURAL, implied: NATURAL })
        const isThere = BigInt(level?.implied ?? 0) >= BigInt(size)
        demand(
          isThere,
          `an implied size of at least ${size} at price ${UNIT - Number(price)}`,
          level?.implied,
        )
      } finally {
        await cancel(world, orderHash, id)
      }
    },
  },
]
