/**
 * Pages of the market list: open markets before ended ones, each group oldest first. If there is a chain, pages come
 * from the chain's index. Otherwise they come from the board (this front's copy of the markets) and the database
 * together.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { MARKETS_LISTED_MAX } from '#domain/limits.ts'
import type { Category, CloseReason, Market } from '#domain/market.ts'
import type { Outcome } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { FoundMarket, StoredMarket } from '#live/market-finder.ts'
import { byCreation } from '#live/market-order.ts'

/**
 * Position in a list, directly after the market with this creation time and id. `ended` is true if that market is one
 * of the ended markets, which come after the open ones.
 */
type MarketPlace = {
  readonly createdAt: number
  readonly id: MarketId | undefined
  readonly ended: boolean
}

export const LIST_STATUSES = ['open', 'ended'] as const
type ListStatus = (typeof LIST_STATUSES)[number]

/** A market of a list, with its winning outcome on the chain and whether it has ended. */
export type ListedMarket = FoundMarket & {
  readonly ended: boolean
  readonly winningOutcome?: Outcome | null | undefined
}

export type MarketSources = {
  readonly board: MarketBoard
  /** Returns markets of the database after a position, oldest first. */
  readonly storedMarkets: (filter: {
    chainId?: number
    category?: Category
    quick?: boolean
    closed: boolean
    limit: number
    after: Pick<MarketPlace, 'createdAt' | 'id'>
  }) => Promise<readonly StoredMarket[]>
  /**
   * Returns markets from the chain's index, open ones first; undefined without a chain. With a chain, the list comes
   * only from this index. So the list omits every market that a reorg removed, and contains every ended market.
   */
  readonly chainMarkets?: (filter: ChainListFilter) => Promise<readonly ChainListedMarket[]>
}

type ChainListFilter = MarketFilter & {
  readonly nowSec: number
  readonly after?: { readonly createdAt: number; readonly id: MarketId; readonly ended: boolean }
  readonly limit: number
}

export type ChainListedMarket = Market & {
  readonly resolved: boolean
  readonly winningOutcome: Outcome | null
  readonly withdrawn: boolean
}

type MarketFilter = {
  readonly chainId?: number
  readonly category?: Category
  readonly resolved?: boolean
  /** True for quick markets only, false for all other markets; if undefined, the list contains both. */
  readonly quick?: boolean
  readonly search?: string
  /** If undefined, open markets come first, then ended ones. */
  readonly status?: ListStatus
}

function fits({ market, closed }: FoundMarket, filter: MarketFilter): boolean {
  const { chainId, category, resolved, quick, search, status } = filter
  if (status !== undefined && (closed === undefined) !== (status === 'open')) return false
  if (chainId !== undefined && market.chainId !== chainId) return false
  if (category !== undefined && market.category !== category) return false
  if (resolved !== undefined && (closed === 'resolved') !== resolved) return false
  if (quick !== undefined && market.quick !== quick) return false
  if (search === undefined) return true
  return `${market.question}\n${market.description}`.toLowerCase().includes(search.toLowerCase())
}

const BEGINNING: MarketPlace = { createdAt: 0, id: undefined, ended: false }
const PLACE = /^(ended-)?(0|[1-9][0-9]{0,15})-(0x[0-9a-fA-F]{64})$/

/** Returns the list position that a cursor encodes. */
export function placeOf(cursor: string | undefined): MarketPlace | Rejection {
  if (cursor === undefined) return BEGINNING
  const parts = PLACE.exec(cursor)
  if (parts === null)
    return reject(
      'INVALID_FIELD',
      'cursor',
      'cursor must be the value of nextCursor from an earlier page',
    )
  const id = (parts[3] ?? '').toLowerCase() as MarketId
  return { createdAt: Number(parts[2]), id, ended: parts[1] !== undefined }
}

/** Returns the cursor for the position after a market. */
export function cursorBehind({ market, ended }: ListedMarket): string {
  return `${ended ? 'ended-' : ''}${market.createdAt}-${market.id}`
}

function isBehind({ createdAt, id }: Market, place: MarketPlace): boolean {
  if (createdAt !== place.createdAt || place.id === undefined) return createdAt >= place.createdAt
  return id > place.id
}

/**
 * Returns the matching markets after a position, with their state at the Unix time `nowSec`. The result may be longer
 * than `limit`, because the board and the database may each return `limit` markets.
 */
export async function marketsFrom(
  sources: MarketSources,
  filter: MarketFilter & { readonly limit: number },
  after: MarketPlace,
  nowSec: number,
): Promise<ListedMarket[]> {
  const { chainMarkets } = sources
  if (chainMarkets !== undefined)
    return ofChain(sources, chainMarkets, { ...filter, nowSec }, after)
  const { status, limit } = filter
  if (status !== undefined) return ofBoard(sources, { ...filter, status }, after)
  if (after.ended) return ofBoard(sources, { ...filter, status: 'ended' }, after)
  const open = await ofBoard(sources, { ...filter, status: 'open' }, after)
  if (open.length >= limit) return open
  return [...open, ...(await ofBoard(sources, { ...filter, status: 'ended' }, BEGINNING))]
}

async function ofChain(
  { board }: MarketSources,
  chainMarkets: NonNullable<MarketSources['chainMarkets']>,
  filter: MarketFilter & { readonly limit: number; readonly nowSec: number },
  { createdAt, id, ended }: MarketPlace,
): Promise<ListedMarket[]> {
  const { nowSec } = filter
  const after = id === undefined ? {} : { after: { createdAt, id, ended } }
  const listed = await chainMarkets({ ...filter, ...after })
  return listed.map((market) => listedOf(board, market, nowSec))
}

/** Returns a market of the chain with its current state on the board. */
export function listedOf(
  board: Pick<MarketBoard, 'markets'>,
  market: ChainListedMarket,
  nowSec: number,
): ListedMarket {
  const shown = board.markets.get(market.id)
  if (market.resolved) {
    const { winningOutcome } = market
    return { market, closed: 'resolved', shown, ended: true, winningOutcome }
  }
  const over = gone(market, nowSec)
  const closed = shown === undefined ? over : shown.closed
  return { market, closed, shown, ended: over !== undefined }
}

/** Returns why an unresolved market has ended: `withdrawn` or `expired`. Returns undefined if it has not ended. */
function gone(market: ChainListedMarket, nowSec: number): CloseReason | undefined {
  if (market.withdrawn) return 'withdrawn'
  return market.expiration <= nowSec ? 'expired' : undefined
}

async function ofBoard(
  sources: MarketSources,
  filter: MarketFilter & { readonly limit: number; readonly status: ListStatus },
  after: MarketPlace,
): Promise<ListedMarket[]> {
  const { board } = sources
  const { chainId, category, quick, limit } = filter
  const ended = filter.status === 'ended'
  // The database can filter only by chain, category, quick and closed. If `resolved` or `search` is set, read up to
  // `MARKETS_LISTED_MAX` rows instead of `limit`, and filter them here.
  const narrowed = filter.resolved ?? filter.search
  const stored = await storedOrNone(
    sources,
    {
      ...(chainId === undefined ? {} : { chainId }),
      ...(category === undefined ? {} : { category }),
      ...(quick === undefined ? {} : { quick: false }),
      closed: ended,
    },
    narrowed === undefined ? limit : MARKETS_LISTED_MAX,
    after,
  )
  const found: ListedMarket[] = []
  for (const market of stored) {
    // Skip a market that is on the board: its data there is newer, and the loop below handles it.
    if (board.markets.has(market.id)) continue
    const entry = { market, closed: market.closeReason ?? undefined, shown: undefined, ended }
    if (fits(entry, filter)) found.push(entry)
  }
  let listed = 0
  for (const shown of board.inOrder()) {
    const { market, closed } = shown
    if (!isBehind(market, after) || !fits({ market, closed, shown }, filter)) continue
    found.push({ market, closed, shown, ended })
    listed++
    if (listed === limit) break
  }
  return found.sort((a, b) => byCreation(a.market, b.market))
}

/**
 * Returns markets of the database. While the database is unavailable, returns an empty list, so the market list
 * contains only markets on the board.
 */
async function storedOrNone(
  { storedMarkets }: MarketSources,
  query: { chainId?: number; category?: Category; quick?: boolean; closed: boolean },
  limit: number,
  { createdAt, id }: MarketPlace,
): Promise<readonly StoredMarket[]> {
  try {
    return await storedMarkets({ ...query, limit, after: { createdAt, id } })
  } catch (error) {
    if (error instanceof Fault && error.retryable) return []
    throw error
  }
}
