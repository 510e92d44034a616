/** Answers of the relayer. */

import Type from 'typebox'
import { type Answer, outcome } from './fields.ts'

/** A transaction that the relayer sent now, or that it sent earlier for the same signature. */
export const Relayed = Type.Object(
  {
    success: Type.Literal(true),
    tx_hash: Type.String({
      description:
        'Hash of the transaction that the relayer sent. If the chain already had the requested ' +
        'state, hash of the transaction that caused this state; empty if that transaction is ' +
        'unknown',
    }),
  },
  { title: 'Relayed' },
)
export type Relayed = Answer<typeof Relayed>

export const RelayedBatch = Type.Object(
  {
    success: Type.Literal(true),
    txHash: Type.String({ description: 'Hash of the transaction' }),
    status: Type.Enum(['pending', 'confirmed']),
  },
  { title: 'RelayedBatch' },
)
export type RelayedBatch = Answer<typeof RelayedBatch>

export const RelayerNonces = Type.Object({
  conditionalTokens: Type.String({
    description: 'The owner’s next nonce for an approval or a redemption',
  }),
  stablecoin: Type.String({ description: 'The owner’s next nonce for a stablecoin permit' }),
  delegates: Type.String({ description: 'The owner’s next nonce for a change of delegates' }),
  market: Type.Optional(
    Type.String({
      description:
        'The owner’s next nonce for a proposal or settlement in the market; absent if the request names no market',
    }),
  ),
  bond: Type.Optional(
    Type.String({
      description:
        'Bond for a proposal in the market, in millionths of the stablecoin; absent if the request names no market',
    }),
  ),
  serverTime: Type.Integer({
    description: 'Current time of the exchange, in Unix seconds; useful for choosing a deadline',
  }),
})
export type RelayerNonces = Answer<typeof RelayerNonces>

const claim = {
  txHash: Type.String({
    description: 'Hash of the redemption’s transaction; empty until it is sent',
  }),
  userAddress: Type.String(),
  marketAddress: Type.String(),
  marketId: Type.String(),
  payout: Type.Integer({ description: 'Expected payout, in millionths of the stablecoin' }),
  winningOutcome: outcome(),
  submittedAt: Type.Integer({
    description: 'Time at which the redemption was requested, in Unix seconds',
  }),
}

/** A redemption through the relayer. */
export const PendingClaim = Type.Object(claim, { title: 'PendingClaim' })
export type PendingClaim = Answer<typeof PendingClaim>

export const FailedClaim = Type.Object(
  { ...claim, reason: Type.String({ description: 'Reason why the redemption failed' }) },
  { title: 'FailedClaim' },
)
export type FailedClaim = Answer<typeof FailedClaim>
