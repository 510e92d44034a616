/** Checks of reads: markets, books, trades, sums, and data of a user. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Check } from './check.ts'
import { demand, demandEqual, Skipped } from './mismatch.ts'
import { demandRefusal } from './service-checks.ts'
import {
  ADDRESS,
  BIT,
  BOOL,
  BYTES32,
  CATEGORY,
  demandShape,
  INTEGER,
  LIST,
  NATURAL,
  PRICE,
  SUM,
  TEXT,
  TX_HASH,
} from './shape.ts'
import type { Answer, World } from './world.ts'

/** An id that no market, transaction or asset has. */
const NOTHING = `0x${'1'.repeat(64)}`
const NOBODY = `0x${'1'.repeat(40)}`
const PAGES_MAX = 200
const LATER_TRIES = 20
const LATER_MS = 250

const MARKET = {
  id: BYTES32,
  question: TEXT,
  description: TEXT,
  category: CATEGORY,
  contractAddress: ADDRESS,
  maker: ADDRESS,
  expiration: NATURAL,
  chainId: NATURAL,
  resolved: BOOL,
  bestAskPrice: NATURAL,
  createdAt: NATURAL,
}
const LEVELS = [{ price: PRICE, size: SUM }] as const
const BOOK = { marketId: BYTES32, bids: LEVELS, asks: LEVELS, lastUpdate: NATURAL }
const TRADE = {
  price: PRICE,
  size: NATURAL,
  buyer: ADDRESS,
  seller: ADDRESS,
  outcome: BIT,
  timestamp: NATURAL,
  txHash: TX_HASH,
}

/** Returns the body of a read that must succeed. */
async function read<T>({ ask }: World, path: string): Promise<T> {
  const { status, body, text } = await ask(path)
  demand(status === 200 && body !== undefined, `GET ${path} to answer 200 with JSON`, text)
  return body as T
}

/** Repeats a read while the server asks for a retry: the public log lags behind. */
async function askLater({ ask }: World, path: string): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    const answer = await ask(path)
    if (answer.status !== 503 || tries === LATER_TRIES) return answer
    await pause(LATER_MS)
  }
}

function demandOrder(what: string, values: readonly number[], descending: boolean): void {
  const sorted = [...values].sort((a, b) => (descending ? b - a : a - b))
  demandEqual(what, values, sorted)
}

/** Checks that the answer has the list under its name, with its count. */
async function demandList(world: World, path: string, name: string): Promise<void> {
  const body = await read<Record<string, unknown[]>>(world, path)
  demandShape(path, body, { [name]: LIST, count: NATURAL })
  demandEqual(`count of ${path}`, body.count, body[name]?.length)
}

export const MARKET_CHECKS: readonly Check[] = [
  {
    id: 'markets.list',
    says: 'GET /markets lists markets with all their fields, and their count',
    async run(world) {
      const body = await read<{ markets: unknown[]; count: number }>(world, '/markets')
      demandShape('the list', body, { markets: [MARKET], count: NATURAL })
      demandEqual('count', body.count, body.markets.length)
    },
  },
  {
    id: 'markets.chain',
    says: 'GET /markets?chain_id lists those of one chain',
    async run(world) {
      const { chains } = await world.config()
      for (const chainId of [...chains.map((chain) => chain.chainId), 4_294_967_295]) {
        const { markets } = await read<{ markets: { chainId: number }[] }>(
          world,
          `/markets?chain_id=${chainId}`,
        )
        const others = markets.filter((market) => market.chainId !== chainId)
        demandEqual(`markets of other chains than ${chainId}`, others.length, 0)
      }
    },
  },
  {
    id: 'markets.pages',
    says: 'page by page the list is the same, and nothing comes twice',
    async run(world) {
      const { markets: whole, nextCursor } = await read<Page>(world, '/markets')
      const ids: string[] = []
      let cursor: string | null | undefined
      for (let page = 0; page < PAGES_MAX && cursor !== null; page++) {
        const more: string = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
        const answer = await read<Page>(world, `/markets?limit=2${more}`)
        demand(answer.markets.length <= 2, 'at most 2 on a page', answer.markets.length)
        ids.push(...answer.markets.map(({ id }) => id))
        cursor = answer.nextCursor ?? null
      }
      demandEqual('ids that come twice', ids.length - new Set(ids).size, 0)
      const missing = whole.map(({ id }) => id).filter((id) => !ids.includes(id))
      if (nextCursor === null && cursor === null) demandEqual('markets left out', missing, [])
    },
  },
  {
    id: 'markets.unknown',
    says: 'an unknown market is 404 MARKET_NOT_FOUND',
    async run({ ask }) {
      const wanted = { status: 404, code: 'MARKET_NOT_FOUND' }
      demandRefusal(await ask(`/markets/${NOTHING}`), wanted)
      demandRefusal(await ask(`/stats/${NOTHING}`), wanted)
      demandRefusal(await ask(`/resolution/${NOTHING}`), wanted)
    },
  },
  {
    id: 'reads.validation',
    says: 'a parameter that is wrong or missing is 400 with its name',
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
    says: 'a book has bids from the highest and asks from the lowest, and they do not cross',
    async run(world) {
      const { id } = await world.openMarket()
      for (const outcome of ['YES', 'NO']) {
        const book = await read<Book>(world, `/orderbook/${id}?outcome=${outcome}`)
        demandShape(`the book of ${outcome}`, book, BOOK)
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
    says: 'YES is 0 and NO is 1; without an outcome the book has the orders of both',
    async run(world) {
      const { id } = await world.openMarket()
      const bookOf = async (query: string) => {
        const { bids, asks } = await read<Book>(world, `/orderbook/${id}${query}`)
        return { bids: bids.length, asks: asks.length }
      }
      const yes = await bookOf('?outcome=YES')
      const no = await bookOf('?outcome=NO')
      demandEqual('the book of 0', await bookOf('?outcome=0'), yes)
      demandEqual('the book of 1', await bookOf('?outcome=1'), no)
      const both = await bookOf('')
      demand(
        both.bids >= Math.max(yes.bids, no.bids) && both.bids <= yes.bids + no.bids,
        'the levels of both',
        both,
      )
    },
  },
  {
    id: 'book.unknown',
    says: 'the book of a market that has none is empty',
    async run(world) {
      const { bids, asks } = await read<Book>(world, `/orderbook/${NOTHING}`)
      demandEqual('levels', [bids, asks], [[], []])
    },
  },
  {
    id: 'book.past',
    says: 'with `seq` a book is answered as it was, with the checksum of the stream',
    async run(world) {
      const { id } = await world.openMarket()
      const path = `/orderbook/${id}?outcome=YES`
      const now = await read<Book & { seq?: number }>(world, path)
      if (now.seq === undefined) throw new Skipped('books have no seq here')
      const past = await askLater(world, `${path}&seq=${now.seq}`)
      if (past.status === 404) throw new Skipped('the server keeps no history of books')
      demandShape('the book', past.body, { ...BOOK, checksum: NATURAL })
      const { bids, asks } = past.body as Book
      demandEqual('levels', [bids, asks], [now.bids, now.asks])
    },
  },
  {
    id: 'archive.file',
    says: 'the events of a day are a gzip file with its SHA-256 in repr-digest',
    async run(world) {
      const { id } = await world.openMarket()
      const day = new Date(await world.nowMs()).toISOString().slice(0, 10)
      const response = await fetch(`${world.url}/api/v1/archive/${id}/${day}`)
      if (response.status === 404) throw new Skipped('there is no such file')
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
    says: 'GET /trades lists at most 100, the newest first',
    async run(world) {
      const { id } = await world.openMarket()
      const body = await read<{ trades: { timestamp: number }[]; count: number }>(
        world,
        `/trades/${id}`,
      )
      demandShape('the list', body, { marketId: BYTES32, trades: [TRADE], count: NATURAL })
      demand(body.trades.length <= 100, 'at most 100', body.trades.length)
      const times = body.trades.map(({ timestamp }) => timestamp)
      demandOrder('timestamps', times, true)
    },
  },
  {
    id: 'market.reads',
    says: 'statistics, holders, activity and resolution of a market have their fields',
    async run(world) {
      const { id } = await world.openMarket()
      demandShape('stats', await read(world, `/stats/${id}`), {
        ...{ marketId: BYTES32, contractAddress: ADDRESS },
        ...{ volume24h: NATURAL, totalVolume: NATURAL, lastPrice: NATURAL },
      })
      const holders = await read<{ topHolders: unknown[] }>(world, `/holders/${id}`)
      demandShape('holders', holders, { topHolders: LIST, totalHolders: NATURAL })
      demand(holders.topHolders.length <= 10, 'at most 10 holders', holders.topHolders.length)
      const { activity } = await read<{ activity: unknown[] }>(world, `/activity/${id}`)
      demandShape('activity', activity, LIST)
      demand(activity.length <= 50, 'at most 50 trades', activity.length)
      const resolution = { marketId: BYTES32, expired: BOOL, resolved: BOOL }
      demandShape('resolution', await read(world, `/resolution/${id}`), resolution)
    },
  },
  {
    id: 'lists.of-all',
    says: 'pending and failed trades and claims, and the sums of the platform, can be read',
    async run(world) {
      for (const name of ['pending-trades', 'failed-trades']) {
        await demandList(world, `/${name}`, 'trades')
      }
      for (const name of ['pending-claims', 'failed-claims']) {
        await demandList(world, `/${name}`, 'claims')
      }
      demandShape('platform stats', await read(world, '/platform/stats'), {
        totalMarkets: NATURAL,
        totalVolume: NATURAL,
      })
    },
  },
  {
    id: 'settlements.unknown',
    says: 'an unknown settlement is found: false, and nothing else',
    async run(world) {
      demandEqual('the answer', await read(world, `/settlements/${NOTHING}`), { found: false })
    },
  },
  {
    id: 'users.reads',
    says: 'orders, positions and activity of a user who has none are empty',
    async run(world) {
      const { id, contractAddress, chainId } = await world.openMarket()
      const position = await read(world, `/positions/${contractAddress}?user=${NOBODY}`)
      demandShape('the position', position, { yesShares: INTEGER, noShares: INTEGER })
      const { yesShares, noShares } = position as { yesShares: number; noShares: number }
      demandEqual('shares', [yesShares, noShares], [0, 0])
      await demandList(world, `/orders?trader=${NOBODY}&market=${id}`, 'orders')
      const path = `/users/${NOBODY}`
      await demandList(world, `${path}/orders?chain_id=${chainId}`, 'orders')
      await demandList(world, `${path}/positions?chain_id=${chainId}`, 'positions')
      const activity = await read(world, `${path}/activity?chain_id=${chainId}&limit=100`)
      demandShape('activity', activity, { activity: LIST, settlements: LIST })
    },
  },
]

type Page = { readonly markets: { id: string }[]; readonly nextCursor?: string | null }
type Book = {
  readonly bids: { price: number; size: number | string }[]
  readonly asks: { price: number; size: number | string }[]
}
