/** `GET /api/v1/users/{address}/delegates`: keys that may sign orders of an account, and their limits. */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { Delegation } from '#domain/delegate.ts'
import { DELEGATES_PER_ACCOUNT_MAX } from '#domain/limits.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { address, safeInteger } from '#http/schemas.ts'
import type { Delegates } from '#live/delegates.ts'
import { DelegateList } from '#protocol/shapes/users.ts'

export function listDelegates(
  delegates: Pick<Delegates, 'of'>,
  chainIds: ReadonlySet<number>,
  nowMs: () => number,
): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/users/{address}/delegates',
    operationId: 'listDelegates',
    auth: 'public',
    cost: 'read',
    tag: 'users',
    summary: 'List the delegates of an account, and their limits',
    description:
      'A delegate is a key that signs orders and cancels for an account. The account appoints ' +
      `its delegates on the chain. The list has at most ${DELEGATES_PER_ACCOUNT_MAX} delegates, ` +
      'newest first. The exchange rejects an order that exceeds the limits of its delegate. The ' +
      'list keeps a revoked delegate, with `active: false`, until the time `settlesUntil`, ' +
      'because trades of its orders can settle until then.',
    params: Type.Object(
      { address: address({ description: 'Address of the account' }) },
      { additionalProperties: false },
    ),
    query: Type.Object(
      { chain_id: safeInteger({ min: 1, description: 'Chain id' }) },
      { additionalProperties: false },
    ),
    responses: { 200: DelegateList },
    errors: ['NOT_FOUND', 'OVERLOADED'],
    examples: {
      responses: { 200: { 'a bot': { value: { delegates: [EXAMPLE], count: 1 } } } },
    },
    async handle({ path, query }) {
      const { chain_id: chainId } = query
      if (!chainIds.has(chainId)) {
        return reject('NOT_FOUND', 'chain_id', `chain ${chainId} is not a chain of this exchange`)
      }
      const found = await delegates.of(chainId, path.address)
      if (isRejection(found)) return found
      const nowSec = nowMs() / 1_000
      const listed = found.map((one) => delegateBody(one, nowSec))
      return { status: 200, body: { delegates: listed, count: listed.length } }
    },
  })
}

function delegateBody(delegation: Delegation, nowSec: number) {
  const { delegate, untilSec, settlesUntilSec, maxOrderSize, maxOpenNotional, markets } = delegation
  return {
    delegate: checksumAddress(delegate),
    active: untilSec > nowSec,
    until: untilSec,
    settlesUntil: settlesUntilSec,
    maxOrderSize,
    maxOpenNotional,
    markets: [...markets],
  }
}

const EXAMPLE = {
  delegate: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  active: true,
  until: 1_900_000_000,
  settlesUntil: 1_900_003_600,
  maxOrderSize: 100_000_000,
  maxOpenNotional: 500_000_000,
  markets: [],
}
