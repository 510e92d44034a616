/** `GET /api/v1/pending-claims` and `/api/v1/failed-claims`: redemptions through the relayer. */

import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { CLAIMS_LISTED_MAX } from '#domain/limits.ts'
import type { ClaimRecord } from '#domain/relay.ts'
import { CLAIMS_EXAMPLE } from '../../relayer-examples.ts'
import { type AnswerRoute, route } from '../../route.ts'

export type ListClaims = (filter: {
  readonly status: 'pending' | 'failed'
  readonly limit: number
}) => Promise<{ readonly claims: readonly ClaimRecord[]; readonly count: number }>

const fields = {
  txHash: Type.String({ description: 'The redemption; empty until there is one' }),
  userAddress: Type.String(),
  marketAddress: Type.String(),
  marketId: Type.String(),
  payout: Type.Integer({ description: 'Expected, 6 decimals' }),
  winningOutcome: Type.Integer({ description: '0 = YES, 1 = NO' }),
  submittedAt: Type.Integer({ description: 'Unix seconds' }),
}
const PendingClaim = Type.Object(fields, { title: 'PendingClaim' })
const FailedClaim = Type.Object(
  { ...fields, reason: Type.String({ description: 'Why it failed' }) },
  { title: 'FailedClaim' },
)

const common = {
  method: 'GET',
  auth: 'public',
  cost: 'read',
  tag: 'relayer',
  description: `The newest ${CLAIMS_LISTED_MAX}; \`count\` is the number of all.`,
} as const

export function pendingClaims(list: ListClaims): AnswerRoute {
  return route({
    ...common,
    path: '/api/v1/pending-claims',
    summary: 'Redemptions that the chain has not confirmed yet',
    responses: { 200: Type.Object({ claims: Type.Array(PendingClaim), count: Type.Integer() }) },
    examples: {
      responses: { 200: { one: { value: { claims: [CLAIMS_EXAMPLE], count: 1 } } } },
    },
    async handle() {
      const { claims, count } = await list({ status: 'pending', limit: CLAIMS_LISTED_MAX })
      return { status: 200, body: { claims: claims.map(claimBody), count } }
    },
  })
}

export function failedClaims(list: ListClaims): AnswerRoute {
  return route({
    ...common,
    path: '/api/v1/failed-claims',
    summary: 'Redemptions that failed',
    responses: { 200: Type.Object({ claims: Type.Array(FailedClaim), count: Type.Integer() }) },
    examples: {
      responses: {
        200: {
          one: {
            value: {
              claims: [{ ...CLAIMS_EXAMPLE, reason: 'the transaction reverted' }],
              count: 1,
            },
          },
        },
      },
    },
    async handle() {
      const { claims, count } = await list({ status: 'failed', limit: CLAIMS_LISTED_MAX })
      const body = claims.map((claim) => ({ ...claimBody(claim), reason: claim.reason }))
      return { status: 200, body: { claims: body, count } }
    },
  })
}

function claimBody(claim: ClaimRecord): Static<typeof PendingClaim> {
  return {
    txHash: claim.txHash,
    userAddress: checksumAddress(claim.userAddress),
    marketAddress: checksumAddress(claim.marketAddress),
    marketId: claim.marketId,
    payout: claim.payout,
    winningOutcome: claim.winningOutcome,
    submittedAt: Math.floor(claim.submittedAtMs / 1_000),
  }
}
