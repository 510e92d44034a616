/** All commands, in the order in which the help lists them. */

import type { Command } from './command.ts'
import { approve, redeem } from './commands/approve.ts'
import { archive } from './commands/archive.ts'
import { book } from './commands/book.ts'
import { conformance } from './commands/conformance.ts'
import { deadman } from './commands/deadman.ts'
import { delegateCreate, delegateList, delegateRevoke } from './commands/delegate.ts'
import { maker, marketCreate, warp } from './commands/devnet.ts'
import { eventAdd, eventCreate, eventShow, events } from './commands/events.ts'
import { keysCreate, keysList, keysRevoke } from './commands/keys.ts'
import { logProof, logReceipt, logVerify } from './commands/log.ts'
import { logBook } from './commands/log-book.ts'
import { logReplay } from './commands/log-replay.ts'
import { logWitness } from './commands/log-witness.ts'
import { markets } from './commands/markets.ts'
import { mcp } from './commands/mcp.ts'
import { cancel, orders } from './commands/open-orders.ts'
import { orderBuy, orderSell } from './commands/order.ts'
import { positions } from './commands/positions.ts'
import { watchBook, watchOrders, watchTrades } from './commands/watch.ts'

export const COMMANDS: readonly Command[] = [
  markets,
  ...[events, eventShow],
  book,
  archive,
  orderBuy,
  orderSell,
  orders,
  cancel,
  deadman,
  positions,
  ...[watchBook, watchTrades, watchOrders],
  ...[keysCreate, keysList, keysRevoke],
  ...[delegateCreate, delegateList, delegateRevoke],
  approve,
  redeem,
  warp,
  marketCreate,
  ...[eventCreate, eventAdd],
  maker,
  mcp,
  conformance,
  ...[logVerify, logProof, logReceipt, logReplay, logBook, logWitness],
]
