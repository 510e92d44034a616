/** All commands, in the order in which the help lists them. */

import type { Command } from './command.ts'
import { approve, redeem } from './commands/approve.ts'
import { book } from './commands/book.ts'
import { conformance } from './commands/conformance.ts'
import { maker, marketCreate, warp } from './commands/devnet.ts'
import { keysCreate, keysList, keysRevoke } from './commands/keys.ts'
import { markets } from './commands/markets.ts'
import { cancel, orders } from './commands/open-orders.ts'
import { orderBuy, orderSell } from './commands/order.ts'
import { positions } from './commands/positions.ts'
import { watchBook, watchOrders, watchTrades } from './commands/watch.ts'

export const COMMANDS: readonly Command[] = [
  markets,
  book,
  orderBuy,
  orderSell,
  orders,
  cancel,
  positions,
  ...[watchBook, watchTrades, watchOrders],
  ...[keysCreate, keysList, keysRevoke],
  approve,
  redeem,
  warp,
  marketCreate,
  maker,
  conformance,
]
