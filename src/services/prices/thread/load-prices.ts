/** Loads the initial state of prices: the rules of the settings, and the recorded prices. */

import type { Settings } from '#config/settings-schema.ts'
import { PRICE_SOURCES } from '#domain/price-providers.ts'
import type { Reads } from '#store/reads/reads.ts'
import { makeFailover } from '../feeds/failover.ts'
import { newPrices, type PricesPorts, type PricesState } from '../prices.ts'

const WRITE_MS = 2_000
const AHEAD_MS_MAX = 2_000
/**
 * Time between two prices after which the allowed jump (the maximum without confirmation by another provider) has
 * doubled. After a longer time, the allowed jump stays the same.
 */
const DRIFT_MS = 600_000
const PRICES_READ_MAX = 2_000

export async function loadPrices(
  rules: Settings['feeds'],
  reads: Pick<Reads, 'query'>,
  write: PricesPorts['write'],
): Promise<PricesState> {
  // Load the newest recorded price of each asset, however old. While only one provider delivers, its first price is
  // compared with the recorded price.
  const recorded = await Promise.all(
    rules.assets.map((asset) =>
      reads.query('pricesSince', { asset, sinceSec: 0, limit: PRICES_READ_MAX }),
    ),
  )
  const failover = makeFailover({
    order: PRICE_SOURCES.filter((source) => rules[source].url !== ''),
    ageMsMax: rules.ageMsMax,
    aheadMsMax: AHEAD_MS_MAX,
    recoverMs: rules.recoverMs,
    deviationMax: rules.deviationBps / 10_000,
    jumpMax: rules.jumpBps / 10_000,
    driftMs: DRIFT_MS,
  })
  return newPrices(
    { assets: rules.assets, publishMs: rules.publishMs, writeMs: WRITE_MS },
    {
      failover,
      write,
    },
    recorded.flat(),
  )
}
