/** `GET /api/v1/relayer/nonces`: the values needed to sign an operation, for clients without a node. */

import Type from 'typebox'
import { isRejection } from '#domain/rejection.ts'
import { relayerErrorBody } from '#http/errors.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { address, safeInteger, saying } from '#http/schemas.ts'
import { RelayerNonces } from '#protocol/shapes/relayer.ts'
import type { RelayService } from './relay-service.ts'

const FORMAT = 'Invalid address format'

export function relayerNonces(service: RelayService, nowMs: () => number): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/relayer/nonces',
    operationId: 'getRelayerNonces',
    auth: 'public',
    // Each request costs as much as a write, because the nonces are read from the chain.
    cost: 'write',
    tag: 'relayer',
    summary: 'Get the nonces for the next signatures of an owner',
    description: 'The exchange reads the nonces from the contracts on the chain at each request.',
    query: Type.Object(
      {
        chain_id: safeInteger({ description: 'Chain id' }),
        owner: saying(
          FORMAT,
          address({ description: 'Address of the owner who will sign the operation' }),
        ),
        market: Type.Optional(
          saying(
            FORMAT,
            address({
              description:
                'Address of a market’s contract; needed only for proposing or settling its outcome',
            }),
          ),
        ),
      },
      { additionalProperties: false },
    ),
    responses: {
      200: RelayerNonces,
    },
    errors: ['CHAIN_UNAVAILABLE', 'RELAYER_UNAVAILABLE', 'PART_UNAVAILABLE'],
    errorBody: relayerErrorBody,
    examples: {
      responses: {
        200: {
          'nothing signed yet': {
            value: {
              ...{ conditionalTokens: '0', stablecoin: '0', delegates: '0' },
              serverTime: 1_800_000_000,
            },
          },
        },
      },
    },
    async handle({ query, deadlineAtMs }) {
      const { chain_id: chainId, owner, market } = query
      const answer = await service.nonces({ chainId, owner, marketAddress: market }, deadlineAtMs)
      if (isRejection(answer)) return answer
      return { status: 200, body: { ...answer, serverTime: Math.floor(nowMs() / 1_000) } }
    },
  })
}
