/** `GET /api/v1/pending-claims` and `/api/v1/failed-claims`: redemptions through the relayer. */

import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { CLAIMS_LISTED_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { ClaimRecord, RelayKey } from '#domain/relay.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { nextBefore } from '#protocol/shapes/fields.ts'
import { FailedClaim, PendingClaim } from '#protocol/shapes/relayer.ts'
import { CLAIMS_EXAMPLE } from './relayer-examples.ts'

/**
 * Position of the last claim on a page: submission time, number of the claim in its operation, and key of the
 * operation.
 */
type Place = { readonly atMs: number; readonly item: number; readonly key: RelayKey }

type ListClaims = (filter: {
  readonly status: 'pending' | 'failed'
  readonly limit: number
  readonly before?: Place
}) => Promise<{
  readonly claims: readonly ClaimRecord[]
  readonly count: number
  readonly next: Place | undefined
}>

const PLACE = /^([0-9]{1,15})\.([0-9]{1,9})\.(0x[0-9a-f]{64})$/

function readPlace(before: string | undefined): { readonly before?: Place } | Rejection {
  if (before === undefined) return {}
  const [, atMs, item, key] = PLACE.exec(before) ?? []
  if (key === undefined)
    return reject(
      'INVALID_FIELD',
      'before',
      'before must be the value of nextBefore from an earlier page',
    )
  return { before: { atMs: Number(atMs), item: Number(item), key: key as RelayKey } }
}

function writePlace(next: Place | undefined): string | null {
  return next === undefined ? null : `${next.atMs}.${next.item}.${next.key}`
}

const query = Type.Object(
  {
    before: Type.Optional(
      Type.String({ description: 'Value of `nextBefore` from the previous page' }),
    ),
  },
  { additionalProperties: false },
)

const common = {
  method: 'GET',
  auth: 'public',
  cost: 'read',
  weight: 10,
  tag: 'relayer',
  description:
    `A page has at most ${CLAIMS_LISTED_MAX} redemptions, newest first. A request with ` +
    '`before` returns earlier ones. `count` is the total number of redemptions in the list, on ' +
    'all pages.',
  query,
} as const

export function pendingClaims(list: ListClaims): AnswerRoute {
  return route({
    ...common,
    path: '/api/v1/pending-claims',
    operationId: 'listPendingClaims',
    summary: 'List redemptions that the chain has not confirmed yet',
    responses: {
      200: Type.Object({ claims: Type.Array(PendingClaim), count: Type.Integer(), nextBefore }),
    },
    examples: {
      responses: {
        200: { one: { value: { claims: [CLAIMS_EXAMPLE], count: 1, nextBefore: null } } },
      },
    },
    async handle({ query }) {
      const place = readPlace(query.before)
      if (isRejection(place)) return place
      const found = await list({ status: 'pending', limit: CLAIMS_LISTED_MAX, ...place })
      const { claims, count } = found
      return {
        status: 200,
        body: { claims: claims.map(claimBody), count, nextBefore: writePlace(found.next) },
      }
    },
  })
}

export function failedClaims(list: ListClaims): AnswerRoute {
  return route({
    ...common,
    path: '/api/v1/failed-claims',
    operationId: 'listFailedClaims',
    summary: 'List redemptions that failed',
    responses: {
      200: Type.Object({ claims: Type.Array(FailedClaim), count: Type.Integer(), nextBefore }),
    },
    examples: {
      responses: {
        200: {
          one: {
            value: {
              claims: [{ ...CLAIMS_EXAMPLE, reason: 'the transaction reverted' }],
              count: 1,
              nextBefore: null,
            },
          },
        },
      },
    },
    async handle({ query }) {
      const place = readPlace(query.before)
      if (isRejection(place)) return place
      const found = await list({ status: 'failed', limit: CLAIMS_LISTED_MAX, ...place })
      const { claims, count } = found
      const body = claims.map((claim) => ({ ...claimBody(claim), reason: claim.reason }))
      return { status: 200, body: { claims: body, count, nextBefore: writePlace(found.next) } }
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
