/** Opens the exchange's database with all entities. */

import { type Database, type DatabaseOptions, openEntities } from './engine/database.ts'
import { ApiKeyEntity } from './entities/api-key.ts'
import { AssetPriceEntity } from './entities/asset-price.ts'
import { CheckpointEntity } from './entities/checkpoint.ts'
import { ClaimEntity } from './entities/claim.ts'
import { MarketEntity } from './entities/market.ts'
import { OrderEntity } from './entities/order.ts'
import { PriceMarkEntity } from './entities/price-mark.ts'
import { QuickMarketEntity } from './entities/quick-market.ts'
import { RelayEntity } from './entities/relay.ts'
import { TradeEntity } from './entities/trade.ts'

const ENTITIES = [
  MarketEntity,
  OrderEntity,
  TradeEntity,
  CheckpointEntity,
  ApiKeyEntity,
  RelayEntity,
  ClaimEntity,
  AssetPriceEntity,
  PriceMarkEntity,
  QuickMarketEntity,
]

export const openDatabase = (url: string, options?: DatabaseOptions): Promise<Database> =>
  openEntities(url, ENTITIES, options)
