/** Makes the feed of each price provider, by the provider's name (`domain/price-providers.ts`). */

import type { PriceSource, ProviderSettings } from '#domain/price-providers.ts'
import { makeBinance } from './binance.ts'
import { makeCoinbase } from './coinbase.ts'
import type { Feed, FeedPorts } from './feed.ts'
import { makePyth } from './pyth.ts'

type FeedMaker = (settings: ProviderSettings, ports: FeedPorts) => Feed

export const FEED_MAKERS: Readonly<Record<PriceSource, FeedMaker>> = {
  pyth: makePyth,
  binance: makeBinance,
  coinbase: makeCoinbase,
}
