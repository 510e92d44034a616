/** Funds in the form that clients receive. Amounts are decimal strings, because an allowance may be any uint256. */

import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { type FundsToken, STABLECOIN } from '#domain/funds.ts'
import type { FundsView } from '#protocol/accounts.ts'

const amount = (description: string) => Type.String({ description })

export const Funds = Type.Object(
  {
    chainId: Type.Integer(),
    trader: Type.String(),
    blockNumber: Type.Integer({ description: 'The block at which the chain was read' }),
    tokens: Type.Array(
      Type.Object({
        token: Type.Enum(['stablecoin', 'outcome']),
        marketId: Type.Optional(Type.String({ description: 'Of an outcome token' })),
        outcome: Type.Optional(Type.Integer({ description: '0 = YES, 1 = NO' })),
        held: amount('What the trader has on chain'),
        allowed: amount('What the settlement contract may take of it'),
        reservedForOrders: amount('What the open orders need, and those on their way'),
        reservedForTrades: amount('What the trades need that the chain has not settled yet'),
        free: amount('What a further order may need'),
      }),
      { description: 'The stablecoin, and every outcome token that an order or a trade needs' },
    ),
  },
  { title: 'Funds' },
)

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
  return { token: 'outcome' as const, marketId, outcome: Number(outcome) }
}
