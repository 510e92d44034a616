/** Compact forms of the messages that a front and the accounts thread exchange for every order. */

import type { Address, MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import type { Form, Forms } from '#runtime/channel.ts'
import type { AccountsRequests, Granted } from './accounts.ts'

type Reserve = AccountsRequests['Reserve']['takes']

const reserve: Form<Reserve> = {
  cells: 10,
  write({ order, deadlineAtMs }, into) {
    // The form has no place for the value of a permit, so the few orders with such a value are sent as
    // objects.
    if (order.permitValue !== undefined) return false
    into.push(
      order.chainId,
      order.orderHash,
      order.marketId,
      order.trader,
      order.side,
      order.outcome,
      order.price,
      order.size,
      order.permit,
      deadlineAtMs,
    )
    return true
  },
  read(batch, at) {
    return {
      order: {
        chainId: batch[at] as number,
        orderHash: batch[at + 1] as OrderHash,
        marketId: batch[at + 2] as MarketId,
        trader: batch[at + 3] as Address,
        side: batch[at + 4] as Side,
        outcome: batch[at + 5] as Outcome,
        price: batch[at + 6] as Price,
        size: batch[at + 7] as Shares,
        permit: batch[at + 8] as Uint64 | undefined,
      },
      deadlineAtMs: batch[at + 9] as number,
    }
  },
}

const GRANTED: Granted = { granted: true }

/** The answer that the funds are reserved; this answer has no fields. */
const granted: Form<object> = {
  cells: 0,
  write: (answer) => 'granted' in answer,
  read: () => GRANTED,
}

/** Forms of the channel between a front and an accounts thread. New forms must be appended at the end. */
export const ACCOUNTS_FORMS: Forms = {
  requests: [{ type: 'Reserve', ...(reserve as Form<unknown>) }],
  answers: [granted as Form<unknown>],
}
