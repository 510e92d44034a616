/**
 * Converts the filter of the market list to a part of the page's address, so that the filter can be shared and survives
 * a reload.
 */

import { SEARCH_CHARS_MAX } from '#domain/limits.ts'
import { CATEGORIES } from '#domain/market.ts'
import type { Filter } from './market-rows.ts'

const STATUSES = ['open', 'over', 'all'] as const
const SORTS = ['volume', 'chance', 'ends', 'newest'] as const
const YES = '1'

/** Reads the filter from a URL. Anyone may have written the URL, so unknown values become the default. */
export function readFilter(query: string): Filter {
  const params = new URLSearchParams(query)
  const among = <T extends string>(name: string, values: readonly T[]): T | undefined =>
    values.find((value) => value === params.get(name))
  return {
    words: (params.get('search') ?? '').slice(0, SEARCH_CHARS_MAX),
    category: among('category', CATEGORIES) ?? '',
    status: among('state', STATUSES) ?? 'open',
    sort: among('sort', SORTS) ?? 'volume',
    isReversed: params.get('reversed') === YES,
    isWatched: params.get('watched') === YES,
  }
}

/** Writes the filter as part of a URL, without default values. Returns '' for the default filter. */
export function writeFilter(filter: Filter): string {
  const params = new URLSearchParams()
  if (filter.words !== '') params.set('search', filter.words)
  if (filter.category !== '') params.set('category', filter.category)
  if (filter.status !== 'open') params.set('state', filter.status)
  if (filter.sort !== 'volume') params.set('sort', filter.sort)
  if (filter.isReversed) params.set('reversed', YES)
  if (filter.isWatched) params.set('watched', YES)
  return params.toString()
}
