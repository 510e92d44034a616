/** The migrations of the SQLite schema, in the order in which they run. Append only. */

import { MarketsOrdersTrades } from './sqlite/001-markets-orders-trades.ts'
import { ApiKeys } from './sqlite/002-api-keys.ts'
import { Chain } from './sqlite/003-chain.ts'
import { Transactions } from './sqlite/004-transactions.ts'
import { RelaysClaims } from './sqlite/005-relays-claims.ts'
import { PricesQuickMarkets } from './sqlite/006-prices-quick-markets.ts'
import { Reads } from './sqlite/007-reads.ts'
import { WithdrawnEpochs } from './sqlite/008-withdrawn-epochs.ts'
import { ChainAmounts } from './sqlite/009-chain-amounts.ts'
import { PositionSyncs } from './sqlite/010-position-syncs.ts'
import { PendingOfChain } from './sqlite/011-pending-of-chain.ts'
import { Profits } from './sqlite/012-profits.ts'
import { Leases } from './sqlite/013-leases.ts'
import { TokenNonces } from './sqlite/014-token-nonces.ts'
import { ContestedQuickMarkets } from './sqlite/015-contested-quick-markets.ts'
import { Withdrawers } from './sqlite/016-withdrawers.ts'
import { PermitsOfOrders } from './sqlite/017-permits-of-orders.ts'

export const sqliteMigrations = [
  { name: '001-markets-orders-trades', class: MarketsOrdersTrades },
  { name: '002-api-keys', class: ApiKeys },
  { name: '003-chain', class: Chain },
  { name: '004-transactions', class: Transactions },
  { name: '005-relays-claims', class: RelaysClaims },
  { name: '006-prices-quick-markets', class: PricesQuickMarkets },
  { name: '007-reads', class: Reads },
  { name: '008-withdrawn-epochs', class: WithdrawnEpochs },
  { name: '009-chain-amounts', class: ChainAmounts },
  { name: '010-position-syncs', class: PositionSyncs },
  { name: '011-pending-of-chain', class: PendingOfChain },
  { name: '012-profits', class: Profits },
  { name: '013-leases', class: Leases },
  { name: '014-token-nonces', class: TokenNonces },
  { name: '015-contested-quick-markets', class: ContestedQuickMarkets },
  { name: '016-withdrawers', class: Withdrawers },
  { name: '017-permits-of-orders', class: PermitsOfOrders },
]
