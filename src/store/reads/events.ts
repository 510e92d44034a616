/**
 * Reads events and their markets. To read a page, a query starts at the cursor in an index and scans at most
 * `EVENTS_SCANNED_MAX` rows. So its cost depends neither on the number of events nor on the filter. With a filter, a
 * page may be short or empty although more pages follow.
 */

import type { EventInfo } from '#domain/event-info.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { EVENTS_SCANNED_MAX } from '#domain/limits.ts'
import type { Category } from '#domain/market.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { type ChainMarketRecord, chainMarketsByIds } from './chain-markets.ts'

type EventRecord = EventInfo & {
  readonly chainId: number
  readonly hash: string
  /** Operator who signed the event's metadata. */
  readonly signer: Address
  /** Unix seconds. */
  readonly createdAt: number
  /** Volume of all markets of the event, 6 decimals; may be some seconds old. */
  readonly volume: bigint
}

type EventSort = 'volume' | 'newest' | 'ending' | 'category'

/** Position in a sorted list, right after the event with this sort value and key. */
type EventPlace = {
  /** Value of the column by which the list is sorted: digits, or a category. */
  readonly value: string
  readonly chainId: number
  readonly hash: string
}

export type EventFilter = {
  readonly sort: EventSort
  readonly nowSec: number
  readonly limit: number
  readonly after?: EventPlace
  readonly chainId?: number
  readonly category?: Category
  readonly tag?: string
  readonly search?: string
  /** Selects only events that end in the future, or only events that have ended. */
  readonly status?: 'open' | 'ended'
}

type EventPage = {
  readonly events: readonly EventRecord[]
  /** Position after which the next page begins; undefined on the last page. */
  readonly next: EventPlace | undefined
}

type EventKey = { readonly chainId: number; readonly hash: string }

type Values = (string | number | Buffer)[]
type Raw = Record<string, string | number | Uint8Array | null>
/** A range of an index: an SQL condition and its values. */
type Range = { readonly where: string; readonly values: Values }

const SORTS: Readonly<Record<EventSort, { column: string; way: 'asc' | 'desc'; index: string }>> = {
  volume: { column: 'volume_e6', way: 'desc', index: 'events_by_volume' },
  newest: { column: 'created_at_sec', way: 'desc', index: 'events_by_age' },
  ending: { column: 'ends_at_sec', way: 'asc', index: 'events_by_end' },
  category: { column: 'category', way: 'asc', index: 'events_by_category' },
}

const COLUMNS = `chain_id, event_hash, slug, title, description, category, tags, image, signer,
  ends_at_sec, exclusive, created_at_sec, cast(volume_e6 as char) as volume`

/**
 * A page is read in steps until it is full. The first step reads at least this many rows of the index. Each further
 * step reads four times as many rows as the step before.
 */
const FIRST_SCAN = 64

async function select(database: Database, sql: string, values: Values): Promise<Raw[]> {
  return read(database, () => sqlConnection(database).execute<Raw[]>(sql, values, 'all'))
}

export async function listEvents(database: Database, filter: EventFilter): Promise<EventPage> {
  const { limit } = filter
  const found: EventPlace[] = []
  let [scanned, size] = [0, Math.max(FIRST_SCAN, limit + 1)]
  let place = filter.after
  while (scanned < EVENTS_SCANNED_MAX) {
    const count = Math.min(size, EVENTS_SCANNED_MAX - scanned)
    const rows = await scan(database, filter, place, count)
    for (const row of rows) {
      if (!row.fits) continue
      if (found.length === limit) return { events: await load(database, found), next: found.at(-1) }
      found.push(row.place)
    }
    scanned += rows.length
    if (rows.length < count) return { events: await load(database, found), next: undefined }
    place = rows.at(-1)?.place
    size *= 4
  }
  return { events: await load(database, found), next: place }
}

/**
 * Reads the next `count` events of the sorted list. Returns the position of each event, and whether the event matches
 * the filter.
 */
async function scan(
  database: Database,
  filter: EventFilter,
  place: EventPlace | undefined,
  count: number,
): Promise<{ place: EventPlace; fits: boolean }[]> {
  const { column, way, index } = SORTS[filter.sort]
  const fits = condition(filter)
  // Force the index. Otherwise MariaDB sorts the whole table if the page is a large part of it.
  const forced = database.address.dialect === 'mysql' ? `force index (${index})` : ''
  const rows: Raw[] = []
  for (const { where, values } of rangesOf(filter, place)) {
    if (rows.length === count) break
    rows.push(
      ...(await select(
        database,
        `select cast(${column} as char) as value, chain_id, event_hash, ${fits.where} as fits
          from events ${forced} where ${where}
          order by ${column} ${way}, chain_id ${way}, event_hash ${way} limit ${count - rows.length}`,
        [...fits.values, ...values],
      )),
    )
  }
  return rows.map((row) => ({ place: placeOf(row), fits: Number(row.fits) === 1 }))
}

/** Returns index ranges that together contain all rows after a position, in the order of the list. */
function rangesOf({ sort, status, nowSec }: EventFilter, place: EventPlace | undefined): Range[] {
  const { column, way } = SORTS[sort]
  const behind = way === 'asc' ? '>' : '<'
  if (place === undefined) {
    // The list by end time begins with the ended events. A list of open events skips them.
    const isLater = sort === 'ending' && status === 'open'
    return [isLater ? { where: `${column} > ?`, values: [nowSec] } : { where: '1 = 1', values: [] }]
  }
  const { chainId, hash } = place
  const value = sort === 'category' ? place.value : Number(place.value)
  const same = sort === 'volume' ? `${column} = ${BigInt(place.value)}` : `${column} = ?`
  const next =
    sort === 'volume' ? `${column} ${behind} ${BigInt(place.value)}` : `${column} ${behind} ?`
  const given: Values = sort === 'volume' ? [] : [value]
  return [
    {
      where: `${same} and chain_id = ? and event_hash ${behind} ?`,
      values: [...given, chainId, bytesOf(hash)],
    },
    { where: `${same} and chain_id ${behind} ?`, values: [...given, chainId] },
    { where: next, values: given },
  ]
}

function condition(filter: EventFilter): Range {
  const where: string[] = []
  const values: Values = []
  const need = (text: string, value: string | number): void => {
    where.push(text)
    values.push(value)
  }
  if (filter.chainId !== undefined) need('chain_id = ?', filter.chainId)
  if (filter.category !== undefined) need('category = ?', filter.category)
  if (filter.status === 'open') need('ends_at_sec > ?', filter.nowSec)
  if (filter.status === 'ended') need('ends_at_sec <= ?', filter.nowSec)
  if (filter.tag !== undefined) need('instr(tags, ?) > 0', ` ${filter.tag} `)
  if (filter.search !== undefined) need('instr(searched, ?) > 0', filter.search.toLowerCase())
  return { where: where.length === 0 ? '1' : `(${where.join(' and ')})`, values }
}

function placeOf(row: Raw): EventPlace {
  return {
    value: String(row.value),
    chainId: Number(row.chain_id),
    hash: hexOf(row.event_hash as Uint8Array),
  }
}

/** Returns the events with these keys, in the same order. */
async function load(database: Database, keys: readonly EventKey[]): Promise<EventRecord[]> {
  const rows: Raw[] = []
  for (const [chainId, some] of Map.groupBy(keys, (key) => key.chainId)) {
    rows.push(
      ...(await select(
        database,
        `select ${COLUMNS} from events where chain_id = ? and event_hash in (${some.map(() => '?').join(', ')})`,
        [chainId, ...some.map(({ hash }) => bytesOf(hash))],
      )),
    )
  }
  const found = new Map(rows.map(eventRecord).map((event) => [keyOf(event), event]))
  return keys.flatMap((key) => found.get(keyOf(key)) ?? [])
}

function keyOf({ chainId, hash }: EventKey): string {
  return `${chainId}/${hash}`
}

/** Returns the events with a slug, one per chain. */
export async function eventsBySlug(
  database: Database,
  { slug }: { readonly slug: string },
): Promise<EventRecord[]> {
  const rows = await select(
    database,
    `select ${COLUMNS} from events where slug = ? order by chain_id limit 100`,
    [slug],
  )
  return rows.map(eventRecord)
}

type EventMarkets = {
  readonly hash: string
  /** Number of the event's markets, including those that are not in `markets`. */
  readonly count: number
  /** Oldest first. */
  readonly markets: readonly ChainMarketRecord[]
}

/** Returns the oldest markets of each given event of a chain. */
export async function marketsOfEvents(
  database: Database,
  args: { readonly chainId: number; readonly hashes: readonly string[]; readonly perEvent: number },
): Promise<EventMarkets[]> {
  const { chainId, hashes, perEvent } = args
  if (hashes.length === 0) return []
  const rows = await select(
    database,
    `select market_id, event_hash, place, markets from (
        select market_id, event_hash,
          row_number() over (partition by event_hash order by block_number, log_index) as place,
          count(*) over (partition by event_hash) as markets
        from event_markets
        where chain_id = ? and event_hash in (${hashes.map(() => '?').join(', ')})) as members
      where place <= ${Math.floor(perEvent)} order by place`,
    [chainId, ...hashes.map(bytesOf)],
  )
  const ids = rows.map((row) => hexOf(row.market_id as Uint8Array) as MarketId)
  const records = new Map(
    (await chainMarketsByIds(database, ids)).map((market) => [market.id, market]),
  )
  const members = Map.groupBy(rows, (row) => hexOf(row.event_hash as Uint8Array))
  return [...members].map(([hash, some]) => ({
    hash,
    count: Number(some[0]?.markets ?? 0),
    markets: some.flatMap(
      (row) => records.get(hexOf(row.market_id as Uint8Array) as MarketId) ?? [],
    ),
  }))
}

type MarketEventRecord = {
  readonly marketId: MarketId
  readonly slug: string
  readonly title: string
}

/** Returns the events of these markets; markets without an event are left out. */
export async function eventsOfMarkets(
  database: Database,
  { marketIds }: { readonly marketIds: readonly MarketId[] },
): Promise<MarketEventRecord[]> {
  if (marketIds.length === 0) return []
  const rows = await select(
    database,
    `select m.market_id as market_id, e.slug as slug, e.title as title
      from event_markets m
      join events e on e.chain_id = m.chain_id and e.event_hash = m.event_hash
      where m.market_id in (${marketIds.map(() => '?').join(', ')})`,
    marketIds.map(bytesOf),
  )
  return rows.map((row) => ({
    marketId: hexOf(row.market_id as Uint8Array) as MarketId,
    slug: String(row.slug),
    title: String(row.title),
  }))
}

function eventRecord(row: Raw): EventRecord {
  return {
    chainId: Number(row.chain_id),
    hash: hexOf(row.event_hash as Uint8Array),
    signer: hexOf(row.signer as Uint8Array) as Address,
    slug: String(row.slug),
    title: String(row.title),
    category: row.category as Category,
    tags: String(row.tags).split(' ').filter(Boolean),
    image: String(row.image),
    description: String(row.description),
    end: Number(row.ends_at_sec),
    exclusive: Number(row.exclusive) === 1,
    createdAt: Number(row.created_at_sec),
    volume: BigInt(String(row.volume)),
  }
}
