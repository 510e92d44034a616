/** `GET /api/v1/resolution/{marketId}`: status of a market's resolution on the chain. */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { MarketId } from '#domain/ids.ts'
import { type Outcome, YES } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import { type AnswerRoute, ok, route } from '#http/route.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { AnswerTo } from '#protocol/queries.ts'
import { ResolutionStatus } from '#protocol/shapes/markets.ts'
import { MARKET_ID, TRADER } from '../orders/order-examples.ts'
import { marketIdParam } from '../orders/order-shapes.ts'

/** State of a market on the chain, as stored in the database. */
type ResolvingMarket = {
  readonly expiration: number
  readonly resolved: boolean
  readonly winningOutcome: Outcome | null
}

const example = {
  id: `0x${'7c'.repeat(32)}`,
  proposer: TRADER,
  proposedOutcome: true,
  bondAmount: '500000000',
  assertionTime: 1_800_000_000,
  expirationTime: 1_800_007_200,
  settled: false,
  settlementResolution: false,
  disputed: false,
}

export function resolution(ports: {
  readonly board: MarketBoard
  readonly chainMarket: (marketId: MarketId) => Promise<ResolvingMarket | undefined>
  /** Assertions about the market, the newest first. */
  readonly assertions: (marketId: MarketId) => Promise<AnswerTo<'assertionsOfMarket'>>
  readonly nowMs: () => number
}): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/resolution/{marketId}',
    operationId: 'getResolution',
    auth: 'public',
    cost: 'read',
    weight: 5,
    tag: 'resolution',
    summary: 'Get the status of a market’s resolution',
    description:
      'A market is open, expired, asserted, disputed or resolved. The status comes from the ' +
      'chain, after the configured number of confirmations. An assertion is an outcome that was ' +
      'proposed at the oracle. The answer has an `assertion` while the assertion is open, and ' +
      'also after it has resolved the market. If the oracle has rejected the assertion, or if ' +
      'the assertion was abandoned, the answer has none, and an outcome can be proposed again. A ' +
      'quick market is resolved by prices and has no assertion, unless it is contested.',
    params: Type.Object({ marketId: marketIdParam() }, { additionalProperties: false }),
    responses: {
      200: ResolutionStatus,
    },
    errors: ['MARKET_NOT_FOUND'],
    examples: {
      responses: {
        200: {
          open: { value: { marketId: MARKET_ID, expired: false, resolved: false } },
          proposed: {
            value: { marketId: MARKET_ID, expired: true, resolved: false, assertion: example },
          },
          resolved: {
            value: {
              marketId: MARKET_ID,
              expired: true,
              resolved: true,
              winningOutcome: 0,
              assertion: { ...example, settled: true, settlementResolution: true },
            },
          },
        },
      },
    },
    async handle({ path: { marketId } }) {
      const [onChain, assertions] = await Promise.all([
        ports.chainMarket(marketId),
        ports.assertions(marketId),
      ])
      // If the chain's index lacks the market, use this front's board. It also has markets that are not mined yet and
      // markets without a chain.
      const market = onChain ?? ports.board.markets.get(marketId)?.market
      if (market === undefined) return reject('MARKET_NOT_FOUND', 'marketId')
      const resolved = onChain?.resolved === true
      const winner = resolved ? onChain.winningOutcome : null
      const standing = assertions.find(({ endedAs }) => endedAs === null || endedAs === 'settled')
      return ok({
        marketId,
        // A resolved market always counts as expired: a quick market can be resolved in the second of its
        // end, before this server's clock reaches that second.
        expired: resolved || market.expiration * 1_000 <= ports.nowMs(),
        resolved,
        ...(winner === null ? {} : { winningOutcome: winner }),
        ...(standing === undefined ? {} : { assertion: shown(standing) }),
      })
    },
  })
}

function shown(assertion: AnswerTo<'assertionsOfMarket'>[number]): typeof example {
  const settled = assertion.endedAs === 'settled'
  return {
    id: assertion.id,
    proposer: checksumAddress(assertion.proposer),
    proposedOutcome: assertion.outcome === YES,
    bondAmount: assertion.bond,
    assertionTime: assertion.assertedAtSec,
    expirationTime: assertion.windowEndsAtSec,
    settled,
    // An assertion that the oracle finds false never becomes `settled`. So a settled assertion was found true.
    settlementResolution: settled,
    disputed: assertion.disputed,
  }
}
