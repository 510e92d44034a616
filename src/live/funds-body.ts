/** Funds in the form that clients receive. */

import type { Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { type FundsToken, STABLECOIN } from '#domain/funds.ts'
import type { Outcome } from '#domain/order.ts'
import type { FundsView } from '#protocol/accounts.ts'
import type { Funds } from '#protocol/shapes/users.ts'

export function fundsBody(view: FundsView): Static<typeof Funds> {
  const { chainId, trader, blockNumber, tokens } = view
  return {
    chainId,
    trader: checksumAddress(trader),
    blockNumber,
    tokens: tokens.map(({ token, held, allowed, reservedOpen, reservedPending, free }) => ({
      ...tokenBody(token),
      held,
      allowed,
      reservedForOrders: reservedOpen,
      reservedForTrades: reservedPending,
      free,
    })),
  }
}

function tokenBody(token: FundsToken) {
  if (token === STABLECOIN) return { token: 'stablecoin' as const }
  const [marketId = '', outcome] = token.split('/')
  return { token: 'outcome' as const, marketId, outcome: Number(outcome) as Outcome }
}
