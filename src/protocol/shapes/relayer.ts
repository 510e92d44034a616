/** Answers of the relayer. */

import Type from 'typebox'
import { type Answer, outcome } from './fields.ts'

/** A transaction that the relayer sent, or had sent before for the same signature. */
export const Relayed = Type.Object(
  {
    success: Type.Literal(true),
    tx_hash: Type.String({
      description:
        'Hash of the transaction. If none was needed, the hash of the earlier transaction; empty if that is unknown',
    }),
  },
  { title: 'Relayed' },
)
export type Relayed = Answer<typeof Relayed>

export const RelayedBatch = Type.Object(
  {
    success: Type.Literal(true),
    txHash: Type.String({ description: 'The transaction' }),
    status: Type.Enum(['pending', 'confirmed']),
  },
  { title: 'RelayedBatch' },
)
export type RelayedBatch = Answer<typeof RelayedBatch>

export const RelayerNonces = Type.Object({
  conditionalTokens: Type.String({ description: 'Next nonce for an approval or a redemption' }),
  stablecoin: Type.String({ description: 'Next nonce for a permit' }),
  delegates: Type.String({ description: 'Next nonce for a delegation' }),
  market: Type.Optional(
    Type.String({ description: 'Next nonce for a proposal or a settlement in the market' }),
  ),
  bond: Type.Optional(Type.String({ description: 'Bond of a proposal in the market, 6 decimals' })),
  serverTime: Type.Integer({
    description: 'Current time of the exchange in Unix seconds; add to it for a deadline',
  }),
})
export type RelayerNonces = Answer<typeof RelayerNonces>

const claim = {
  txHash: Type.String({ description: 'Transaction of the redemption; empty until it is sent' }),
  userAddress: Type.String(),
  marketAddress: Type.String(),
  marketId: Type.String(),
  payout: Type.Integer({ description: 'Payout that is expected, 6 decimals' }),
  winningOutcome: outcome(),
  submittedAt: Type.Integer({ description: 'Unix seconds' }),
}

/** A redemption through the relayer. */
export const PendingClaim = Type.Object(claim, { title: 'PendingClaim' })
export type PendingClaim = Answer<typeof PendingClaim>

export const FailedClaim = Type.Object(
  { ...claim, reason: Type.String({ description: 'Why the redemption failed' }) },
  { title: 'FailedClaim' },
)
export type FailedClaim = Answer<typeof FailedClaim>
