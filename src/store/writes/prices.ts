/**
 * Stores asset prices and marks. A mark is the first price that a source reports at or after a boundary. A boundary is
 * a time at which quick markets begin and end. Prices and marks are written in batches and kept for a limited time.
 */

import { Fault } from '#domain/fault.ts'
import { partsOf } from '#domain/parts-of.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import type { Mark } from '#domain/quick-market.ts'
import { type Database, read, transact } from '../engine/database.ts'

import { AssetPriceEntity } from '../entities/asset-price.ts'
import { PriceMarkEntity } from '../entities/price-mark.ts'

/** A stored price: the last price that was published in a second. */
export type PriceRecord = {
  readonly asset: string
  readonly price: number
  /** The provider's time. */
  readonly atMs: number
  readonly source: PriceSource
  /** Sequence number of the price; increases with every price of the asset, even across restarts. */
  readonly number: number
}

export type PriceBatch = {
  readonly prices: readonly PriceRecord[]
  /** Stored prices of the batch's assets before this second are deleted. */
  readonly pricesFromSec: number
}

const ROWS_PER_STATEMENT = 200

const tuples = (rows: number, columns: number): string =>
  Array(rows)
    .fill(`(${Array(columns).fill('?').join(', ')})`)
    .join(', ')

/**
 * Writes rows together. If the database refuses a row, writes each row separately, so that one bad row does not block
 * the others. Returns the number of refused rows.
 */
async function recordAll<Row>(
  rows: readonly Row[],
  write: (some: readonly Row[]) => Promise<void>,
): Promise<number> {
  try {
    await write(rows)
    return 0
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== 'STORE_CONSTRAINT') throw error
    if (rows.length <= 1) return rows.length
  }
  let refused = 0
  for (const row of rows) refused += await recordAll([row], write)
  return refused
}

/**
 * Writes prices, replacing stored prices of the same seconds, and deletes old prices. Returns the number of prices that
 * the database refused.
 */
export async function recordPrices(database: Database, batch: PriceBatch): Promise<number> {
  return recordAll(batch.prices, (prices) => writePrices(database, { ...batch, prices }))
}

async function writePrices(database: Database, batch: PriceBatch): Promise<void> {
  await transact(database, async (transaction, connection) => {
    for (const some of partsOf(batch.prices, ROWS_PER_STATEMENT)) {
      await connection.execute(
        `replace into asset_prices (asset, at_sec, observed_at_ms, price_e8, source, price_number)
          values ${tuples(some.length, 6)}`,
        some.flatMap(({ asset, atMs, price, source, number }) => [
          asset,
          Math.floor(atMs / 1_000),
          atMs,
          price,
          source,
          number,
        ]),
        'run',
        transaction,
      )
    }
    for (const asset of new Set(batch.prices.map((price) => price.asset))) {
      await connection.execute(
        'delete from asset_prices where asset = ? and at_sec < ?',
        [asset, batch.pricesFromSec],
        'run',
        transaction,
      )
    }
  })
}

/** Returns the newest `limit` prices of an asset since the second `sinceSec`, sorted from oldest to newest. */
export async function pricesSince(
  database: Database,
  filter: { readonly asset: string; readonly sinceSec: number; readonly limit: number },
): Promise<PriceRecord[]> {
  const { asset, sinceSec, limit } = filter
  const found = await read(database, (em) =>
    em.find(
      AssetPriceEntity,
      { asset, atSec: { $gte: sinceSec } },
      { orderBy: { atSec: 'desc' }, limit, disableIdentityMap: true },
    ),
  )
  return found
    .map(({ price, atMs, source, number }) => ({ asset, price, atMs, source, number }))
    .reverse()
}

type MarkBatch = { readonly marks: readonly Mark[]; readonly fromSec: number }

/**
 * Writes marks (the first price of a source at a boundary). A mark replaces a stored one with the same asset, source
 * and boundary. Returns the number of marks that the database refused.
 */
export async function recordMarks(database: Database, batch: MarkBatch): Promise<number> {
  return recordAll(batch.marks, (marks) => writeMarks(database, { ...batch, marks }))
}

async function writeMarks(database: Database, batch: MarkBatch): Promise<void> {
  await transact(database, async (transaction, connection) => {
    for (const mark of batch.marks) {
      await connection.execute(
        `replace into price_marks (boundary_at_sec, asset, source, price_e8, observed_at_ms,
          received_at_ms, via, exact, raw) values ${tuples(1, 9)}`,
        [
          mark.boundarySec,
          mark.asset,
          mark.source,
          mark.price,
          mark.atMs,
          mark.receivedAtMs,
          mark.via,
          mark.exact ? 1 : 0,
          mark.raw.toWellFormed(),
        ],
        'run',
        transaction,
      )
    }
    await connection.execute(
      'delete from price_marks where boundary_at_sec < ?',
      [batch.fromSec],
      'run',
      transaction,
    )
  })
}

/**
 * Returns at most `limit` marks (first prices of sources at a boundary) from the boundary `sinceSec` on, latest
 * boundary first.
 */
export async function marksSince(
  database: Database,
  filter: { readonly sinceSec: number; readonly limit: number },
): Promise<Mark[]> {
  const found = await read(database, (em) =>
    em.find(
      PriceMarkEntity,
      { boundarySec: { $gte: filter.sinceSec } },
      {
        orderBy: { boundarySec: 'desc', asset: 'desc', source: 'desc' },
        limit: filter.limit,
        disableIdentityMap: true,
      },
    ),
  )
  return found.map((row) => ({
    asset: row.asset,
    source: row.source,
    boundarySec: row.boundarySec,
    price: row.price,
    atMs: row.atMs,
    receivedAtMs: row.receivedAtMs,
    via: row.via,
    exact: Boolean(row.exact),
    raw: row.raw,
  }))
}
