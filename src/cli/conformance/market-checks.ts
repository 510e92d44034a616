/** Checks of read requests: markets, books, trades, totals, and data of a user. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Check } from './check.ts'
import { demand, demandEqual, Skipped } from './mismatch.ts'
import { NOBODY, NOTHING, readEndpoint } from './read-endpoint.ts'
import { demandRefusal } from './service-checks.ts'
import { BYTES32, demandShape, NATURAL } from './shape.ts'
import type { Answer, World } from './world.ts'

const PAGES_MAX = 200
const LATER_TRIES = 20
const LATER_MS = 250

/**
 * Reads a path. Repeats the read while the server answers 503, up to `LATER_TRIES` times, because the public
 * log lags behind the market.
 */
async function askLater({ ask }: World, path: string): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    const answer = await ask(path)
    if (answer.status !== 503 || tries === LATER_TRIES) return answer
    await pause(LATER_MS)
  }
}

const readBook = (world: World, query: string) =>
  readEndpoint<Book>(world, '/orderbook/{marketId}', query)

function demandOrder(what: string, values: readonly number[], descending: boolean): void {
  const sorted = [...values].sort((a, b) => (descending ? b - a : a - b))
  demandEqual(what, values, sorted)
}

export const MARKET_CHECKS: readonly Check[] = [
  {
    id: 'markets.list',
    says: 'GET /markets lists markets with all their fields, and their count',
    async run(world) {
      await readEndpoint(world, '/markets')
    },
  },
  {
    id: 'markets.chain',
    says: 'GET /markets?chain_id lists only the markets of that chain',
    async run(world) {
      const { chains } = await world.config()
      for (const chainId of [...chains.map((chain) => chain.chainId), 4_294_967_295]) {
        const query = `chain_id=${chainId}`
        type Listed = { markets: { chainId: number }[] }
        const { markets } = await readEndpoint<Listed>(world, '/markets', query)
        const others = markets.filter((market) => market.chainId !== chainId)
        demandEqual(`number of markets of chains other than ${chainId} to be`, others.length, 0)
      }
    },
  },
  {
    id: 'markets.pages',
    says: 'the pages of GET /markets contain each market of the whole list once, in the same order',
    async run(world) {
      const pageOf = async (query: string) => (await world.ask(`/markets${query}`)).body as Page
      const { markets: whole, nextCursor } = await pageOf('')
      const ids: string[] = []
      let cursor: string | null | undefined
      for (let page = 0; page < PAGES_MAX && cursor !== null; page++) {
        const more: string = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
        const answer = await pageOf(`?limit=2${more}`)
        demand(answer.markets.length <= 2, 'at most 2 markets on a page', answer.markets.length)
        ids.push(...answer.markets.map(({ id }) => id))
        cursor = answer.nextCursor ?? null
      }
      demandEqual('number of repeated ids to be', ids.length - new Set(ids).size, 0)
      if (nextCursor !== null || cursor !== null) return
      // A market may have been created after the whole list was read. The pages then contain it, so the comparison
      // ignores markets that are not in the list.
      const listed = whole.map(({ id }) => id)
      const paged = ids.filter((id) => listed.includes(id))
      demandEqual(
        'markets left out',
        listed.filter((id) => !paged.includes(id)),
        [],
      )
      demandEqual('the sequence of the market ids in the pages to be', paged, listed)
    },
  },
  {
    id: 'markets.unknown',
    says: 'a request for an unknown market gets 404 MARKET_NOT_FOUND',
    async run({ ask }) {
      const wanted = { status: 404, code: 'MARKET_NOT_FOUND' }
      demandRefusal(await ask(`/markets/${NOTHING}`), wanted)
      demandRefusal(await ask(`/stats/${NOTHING}`), wanted)
      demandRefusal(await ask(`/resolution/${NOTHING}`), wanted)
    },
  },
  {
    id: 'reads.validation',
    says: 'a wrong or missing parameter gets 400 with the name of the parameter',
    async run({ ask, openMarket }) {
      const { id } = await openMarket()
      for (const [path, field] of [
        ['/orderbook/0x12', 'marketId'],
        [`/orderbook/${id}?outcome=MAYBE`, 'outcome'],
        ['/orders', 'trader'],
        ['/orders?trader=0x12', 'trader'],
        [`/users/${NOBODY}/orders`, 'chain_id'],
        [`/users/${NOBODY}/positions`, 'chain_id'],
        ['/users/0x12/activity?chain_id=1', 'address'],
        ['/markets?cursor=rubbish', 'cursor'],
        ['/markets?limit=0', 'limit'],
      ] as const) {
        demandRefusal(await ask(path), { status: 400, field })
      }
    },
  },
  {
    id: 'book.shape',
    says: 'a book lists bids from the highest price and asks from the lowest, and they do not cross',
    async run(world) {
      for (const outcome of ['YES', 'NO']) {
        const book = await readBook(world, `outcome=${outcome}`)
        const [bids, asks] = [book.bids, book.asks].map((side) => side.map(({ price }) => price))
        demandOrder('bids', bids ?? [], true)
        demandOrder('asks', asks ?? [], false)
        const [bid = 0, ask = 1_000_000] = [bids?.[0], asks?.[0]]
        demand(bid < ask, `a bid below the ask of ${ask}`, bid)
      }
    },
  },
  {
    id: 'book.outcomes',
    says: 'outcome=0 is YES and outcome=1 is NO; without outcome, the book has the orders of both',
    async run(world) {
      const bookOf = async (query: string) => {
        const { bids, asks } = await readBook(world, query)
        return { bids: bids.length, asks: asks.length }
      }
      const yes = await bookOf('outcome=YES')
      const no = await bookOf('outcome=NO')
      demandEqual('the book of outcome=0 to be', await bookOf('outcome=0'), yes)
      demandEqual('the book of outcome=1 to be', await bookOf('outcome=1'), no)
      const both = await bookOf('')
      demand(
        both.bids >= Math.max(yes.bids, no.bids) && both.bids <= yes.bids + no.bids,
        'a request without outcome to return the levels of both outcomes',
        both,
      )
    },
  },
  {
    id: 'book.unknown',
    says: 'the book of an unknown market is empty',
    async run(world) {
      const { bids, asks } = (await world.ask(`/orderbook/${NOTHING}`)).body as Book
      demandEqual('levels', [bids, asks], [[], []])
    },
  },
  {
    id: 'book.past',
    says: 'GET /orderbook with seq returns the book at that sequence number, with a checksum',
    async run(world) {
      const { id } = await world.openMarket()
      const path = `/orderbook/${id}?outcome=YES`
      const now = await readBook(world, 'outcome=YES')
      if (now.seq === undefined) throw new Skipped('the books of this server have no seq')
      const past = await askLater(world, `${path}&seq=${now.seq}`)
      if (past.status === 404) throw new Skipped('the server keeps no history of books')
      demandShape('the book', past.body, {
        marketId: BYTES32,
        lastUpdate: NATURAL,
        checksum: NATURAL,
      })
      const { bids, asks } = past.body as Book
      demandEqual('levels', [bids, asks], [now.bids, now.asks])
    },
  },
  {
    id: 'archive.file',
    says: 'the archive of a day is a gzip file whose SHA-256 is in the header repr-digest',
    async run(world) {
      const { id } = await world.openMarket()
      const day = new Date(await world.nowMs()).toISOString().slice(0, 10)
      const response = await fetch(`${world.url}/api/v1/archive/${id}/${day}`)
      if (response.status === 404)
        throw new Skipped('the server has no archive file of this market for today')
      demandEqual('status', response.status, 200)
      const file = new Uint8Array(await response.arrayBuffer())
      const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', file))
      const named = `sha-256=:${btoa(String.fromCharCode(...digest))}:`
      demandEqual('repr-digest', response.headers.get('repr-digest'), named)
      const lines = new Blob([file]).stream().pipeThrough(new DecompressionStream('gzip'))
      const [line = ''] = (await new Response(lines).text()).split('\n')
      demandShape('an event', JSON.parse(line), { marketId: BYTES32, seq: NATURAL, atMs: NATURAL })
    },
  },
  {
    id: 'trades.list',
    says: 'GET /trades lists at most 100 trades, the newest first',
    async run(world) {
      type Listed = { trades: { timestamp: number }[] }
      const { trades } = await readEndpoint<Listed>(world, '/trades/{marketId}')
      demand(trades.length <= 100, 'at most 100 trades', trades.length)
      demandOrder(
        'timestamps',
        trades.map(({ timestamp }) => timestamp),
        true,
      )
    },
  },
  {
    id: 'market.reads',
    says: 'statistics, holders, activity and resolution of a market have their fields',
    async run(world) {
      await readEndpoint(world, '/stats/{marketId}')
      await readEndpoint(world, '/resolution/{marketId}')
      type Market = { topHolders: unknown[]; activity: unknown[] }
      const { topHolders } = await readEndpoint<Market>(world, '/holders/{marketId}')
      demand(topHolders.length <= 10, 'at most 10 holders', topHolders.length)
      const { activity } = await readEndpoint<Market>(world, '/activity/{marketId}')
      demand(activity.length <= 50, 'at most 50 trades', activity.length)
    },
  },
  {
    id: 'lists.of-all',
    says: 'the lists of pending and failed trades and claims, and the platform totals, can be read',
    async run(world) {
      for (const name of ['pending-trades', 'failed-trades', 'pending-claims', 'failed-claims']) {
        await readEndpoint(world, `/${name}`)
      }
      const { body } = await world.ask('/platform/stats')
      demandShape('stats of all chains', body, { totalMarkets: NATURAL, totalVolume: NATURAL })
      const { chainId } = await world.openMarket()
      await readEndpoint(world, '/platform/stats', `chain_id=${chainId}`)
    },
  },
  {
    id: 'settlements.unknown',
    says: 'the answer for an unknown settlement is {"found": false}, without other fields',
    async run(world) {
      const answer = await readEndpoint(world, '/settlements/{txHash}')
      demandEqual('the answer', answer, { found: false })
    },
  },
  {
    id: 'users.reads',
    says: 'orders, positions and activity of a user can be read; a user without trades has no shares',
    async run(world) {
      for (const user of [world, { ...world, trader: undefined }]) {
        await readEndpoint(user, '/orders')
        await readEndpoint(user, '/users/{address}/orders')
        await readEndpoint(user, '/users/{address}/positions')
        await readEndpoint(user, '/users/{address}/activity', 'limit=100')
        const position = await readEndpoint<Position>(user, '/positions/{marketAddress}')
        if (user.trader !== undefined) continue
        demandEqual('shares', [position.yesShares, position.noShares], [0, 0])
      }
    },
  },
]

type Position = { readonly yesShares: number; readonly noShares: number }
type Page = { readonly markets: { id: string }[]; readonly nextCursor?: string | null }
type Book = {
  readonly seq?: number
  readonly bids: { price: number; size: number | string }[]
  readonly asks: { price: number; size: number | string }[]
}
