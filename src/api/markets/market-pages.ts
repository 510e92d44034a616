/**
 * The markets that a list shows, oldest first behind a place: from the chain's index where there is a chain, else
 * from the board and the database together.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { MARKETS_LISTED_MAX } from '#domain/limits.ts'
import type { Category, CloseReason, Market } from '#domain/market.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { byCreation, type MarketBoard } from '#live/market-board.ts'
import type { FoundMarket, StoredMarket } from '#live/market-finder.ts'

/** A place in the list: behind the market that was created then and has this id. */
type MarketPlace = { readonly createdAt: number; readonly id: MarketId | undefined }

export type MarketSources = {
  readonly board: MarketBoard
  readonly nowMs: () => number
  /** Markets that the database holds, oldest first, behind a place. */
  readonly storedMarkets: (filter: {
    chainId?: number
    quick?: boolean
    limit: number
    after: MarketPlace
  }) => Promise<readonly StoredMarket[]>
  /**
   * With a chain: its markets, oldest first. Then it alone says which there are, so that none is
   * listed that a reorg took away, and none is missing that is over.
   */
  readonly chainMarkets?: (filter: ChainListFilter) => Promise<readonly ChainListedMarket[]>
}

type ChainListFilter = MarketFilter & {
  readonly after?: { readonly createdAt: number; readonly id: MarketId }
  readonly limit: number
}

type ChainListedMarket = Market & { readonly resolved: boolean; readonly withdrawn: boolean }

type MarketFilter = {
  readonly chainId?: number
  readonly category?: Category
  readonly resolved?: boolean
  /** Left out: quick markets and all others. */
  readonly quick?: boolean
  readonly search?: string
}

function fits({ market, closed }: FoundMarket, filter: MarketFilter): boolean {
  const { chainId, category, resolved, quick, search } = filter
  if (chainId !== undefined && market.chainId !== chainId) return false
  if (category !== undefined && market.category !== category) return false
  if (resolved !== undefined && (closed === 'resolved') !== resolved) return false
  if (quick !== undefined && market.quick !== quick) return false
  if (search === undefined) return true
  return `${market.question}\n${market.description}`.toLowerCase().includes(search.toLowerCase())
}

const BEGINNING: MarketPlace = { createdAt: 0, id: undefined }
const PLACE = /^(0|[1-9][0-9]{0,15})-(0x[0-9a-fA-F]{64})$/

/** The place that a cursor names. */
export function placeOf(cursor: string | undefined): MarketPlace | Rejection {
  if (cursor === undefined) return BEGINNING
  const parts = PLACE.exec(cursor)
  if (parts === null) return reject('INVALID_FIELD', 'cursor', 'cursor must be a nextCursor')
  return { createdAt: Number(parts[1]), id: (parts[2] ?? '').toLowerCase() as MarketId }
}

function isBehind({ createdAt, id }: Market, place: MarketPlace): boolean {
  if (createdAt !== place.createdAt || place.id === undefined) return createdAt >= place.createdAt
  return id > place.id
}

/** The markets behind the place that fit; more than `limit` where the board and the database both have some. */
export function marketsFrom(
  sources: MarketSources,
  filter: MarketFilter & { readonly limit: number },
  after: MarketPlace,
): Promise<FoundMarket[]> {
  const { chainMarkets } = sources
  return chainMarkets === undefined
    ? ofBoard(sources, filter, after)
    : ofChain(sources, chainMarkets, filter, after)
}

async function ofChain(
  { board, nowMs }: MarketSources,
  chainMarkets: NonNullable<MarketSources['chainMarkets']>,
  filter: MarketFilter & { readonly limit: number },
  { createdAt, id }: MarketPlace,
): Promise<FoundMarket[]> {
  const after = id === undefined ? {} : { after: { createdAt, id } }
  const listed = await chainMarkets({ ...filter, ...after })
  const nowSec = nowMs() / 1_000
  return listed.map((market) => {
    const shown = board.markets.get(market.id)
    if (market.resolved) return { market, closed: 'resolved', shown }
    return { market, closed: shown === undefined ? gone(market, nowSec) : shown.closed, shown }
  })
}

/** Why a market that no thread holds any more takes no orders. */
function gone(market: ChainListedMarket, nowSec: number): CloseReason | undefined {
  if (market.withdrawn) return 'withdrawn'
  return market.expiration <= nowSec ? 'expired' : undefined
}

async function ofBoard(
  sources: MarketSources,
  filter: MarketFilter & { readonly limit: number },
  after: MarketPlace,
): Promise<FoundMarket[]> {
  const { board } = sources
  const { chainId, quick, limit } = filter
  // The database knows two of the filters; for the others more has to be read than is asked for.
  const narrowed = filter.category ?? filter.resolved ?? filter.search
  const stored = await storedOrNone(
    sources,
    {
      ...(chainId === undefined ? {} : { chain_id: chainId }),
      ...(quick === undefined ? { quick: true } : {}),
    },
    narrowed === undefined ? limit : MARKETS_LISTED_MAX,
    after,
  )
  const found: FoundMarket[] = []
  for (const market of stored) {
    // What is on the board is newer than what the database says of it.
    if (board.markets.has(market.id)) continue
    const entry = { market, closed: market.closeReason ?? undefined, shown: undefined }
    if (fits(entry, filter)) found.push(entry)
  }
  let listed = 0
  for (const shown of board.inOrder()) {
    const { market, closed } = shown
    if (!isBehind(market, after) || !fits({ market, closed, shown }, filter)) continue
    found.push({ market, closed, shown })
    listed++
    if (listed === limit) break
  }
  return found.sort((a, b) => byCreation(a.market, b.market))
}

/** A database that is away hides old markets; those that trade are listed nevertheless. */
async function storedOrNone(
  { storedMarkets }: MarketSources,
  query: { chain_id?: number; quick?: boolean },
  limit: number,
  after: MarketPlace,
): Promise<readonly StoredMarket[]> {
  try {
    return await storedMarkets({
      ...(query.chain_id === undefined ? {} : { chainId: query.chain_id }),
      ...(query.quick === true ? {} : { quick: false }),
      limit,
      after,
    })
  } catch (error) {
    if (error instanceof Fault && error.retryable) return []
    throw error
  }
}
