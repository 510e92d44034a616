/**
 * `GET /api/v1/orders/{orderHash}/proof` and `/api/v1/trades/{tradeId}/proof`: offline proofs that an order or a trade
 * is in the public log.
 */

import Type from 'typebox'
import { type MarketId, type OrderHash, parseTradeId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { type AnswerRoute, type RawReply, route } from '#http/route.ts'
import { bytes32 } from '#http/schemas.ts'
import { TRADE_ID } from '#protocol/shapes/fields.ts'
import { findsMatch, findsOrder } from '#transparency/find-event.ts'
import { type PublicLogSource, proveEntry } from './public-log-source.ts'

const TEXT = 'text/plain; charset=utf-8'
/** Cost of a proof in reads: each proof needs some tiles and entries of the log. */
const PROOF_WEIGHT = 20

type EventPlace = { readonly partition: number; readonly atMs: number }

type ProofSources = {
  readonly source: PublicLogSource
  orderPlace(orderHash: OrderHash): Promise<EventPlace | undefined>
  tradePlace(marketId: MarketId, seq: number, fill: number): Promise<EventPlace | undefined>
}

const DESCRIPTION =
  'The answer is a C2SP tlog-proof in text form. It has the entry of the log (in `extra`), the ' +
  'entry’s index, its inclusion proof, and a signed checkpoint. Clients can save it and check it ' +
  'offline with `sibyl log proof`. The proof of a new order or trade can be missing for about a ' +
  'second; until then the answer is `NOT_FOUND`.'

export function proofs(sources: ProofSources): AnswerRoute[] {
  const { source } = sources
  return [
    route({
      method: 'GET',
      path: '/api/v1/orders/{orderHash}/proof',
      operationId: 'getOrderProof',
      ...{ auth: 'public', cost: 'read', weight: PROOF_WEIGHT, tag: 'transparency' },
      summary: 'Get a proof that the public log contains an order',
      description: DESCRIPTION,
      produces: TEXT,
      params: Type.Object(
        { orderHash: bytes32<OrderHash>({ description: 'Hash of the order' }) },
        { additionalProperties: false },
      ),
      responses: { 200: Type.String() },
      errors: ['NOT_FOUND'],
      async handle({ path: { orderHash } }) {
        const place = await sources.orderPlace(orderHash)
        return answer(place && (await proveEntry(source, place, findsOrder(orderHash))))
      },
    }),
    route({
      method: 'GET',
      path: '/api/v1/trades/{tradeId}/proof',
      operationId: 'getTradeProof',
      ...{ auth: 'public', cost: 'read', weight: PROOF_WEIGHT, tag: 'transparency' },
      summary: 'Get a proof that the public log contains the record of the match of a trade',
      description: DESCRIPTION,
      produces: TEXT,
      params: Type.Object(
        { tradeId: Type.String({ description: TRADE_ID, maxLength: 128 }) },
        { additionalProperties: false },
      ),
      responses: { 200: Type.String() },
      errors: ['NOT_FOUND', 'INVALID_FIELD'],
      async handle({ path: { tradeId } }) {
        const trade = parseTradeId(tradeId)
        if (trade === undefined)
          return reject(
            'INVALID_FIELD',
            'tradeId',
            'tradeId must consist of the market id, the sequence number and the number of the fill, joined by hyphens',
          )
        const { marketId, sequence, fillIndex } = trade
        const place = await sources.tradePlace(marketId, sequence, fillIndex)
        const holds = findsMatch(marketId, sequence, fillIndex)
        return answer(place && (await proveEntry(source, place, holds)))
      },
    }),
  ]
}

function answer(raw: string | undefined): RawReply | Rejection {
  if (raw === undefined) return reject('NOT_FOUND')
  return { status: 200, raw, contentType: TEXT }
}
