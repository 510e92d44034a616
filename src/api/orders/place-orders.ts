/** `POST /api/v1/orders/batch`: places many orders in one request, each with its own answer. */

import Type from 'typebox'
import type { MarketId } from '#domain/ids.ts'
import { BATCH_ORDERS_MAX, BODY_BYTES_MAX, REPLACEMENTS_PER_STEP_MAX } from '#domain/limits.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { partsOf } from '#domain/parts-of.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { errorBody, sentenceOf } from '#http/errors.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { newWriteStages, type WriteStages } from '#http/write-stages.ts'
import type { OrderContext } from '#live/market-gateway.ts'
import type { EnteredOrder } from '#protocol/market.ts'
import { ErrorShape, PlacedOrder } from '#protocol/shapes/orders.ts'
import {
  ACCEPT_RECEIPT,
  type Receipts,
  wantsReceipt,
  withReceipt,
} from '../transparency/receipts.ts'
import { ACCEPTED_EXAMPLE, BATCH_EXAMPLE } from './order-examples.ts'
import { withOptions } from './order-options.ts'
import type { OrderService } from './order-service.ts'
import { OrderBatch, ShownOrderBatch } from './order-shapes.ts'
import { endOrderTrace, orderStages } from './order-trace.ts'
import { submissionOf, submissionShape } from './submission-reader.ts'

export function placeOrders(service: OrderService, receipts?: Receipts): AnswerRoute {
  return route({
    method: 'POST',
    path: '/api/v1/orders/batch',
    operationId: 'placeOrders',
    auth: 'write',
    cost: 'write',
    tag: 'orders',
    summary: `Place up to ${BATCH_ORDERS_MAX} signed orders`,
    description:
      'The exchange places the orders in the sequence of the list, except that orders with ' +
      '`replaces` come last. The results are in the sequence of the list. A rejected order does ' +
      'not affect the others. Orders with `replaces` are placed in groups of up to ' +
      `${REPLACEMENTS_PER_STEP_MAX} orders of one market: the market first cancels all orders ` +
      'that the group replaces, and then places the group. If the request has the header ' +
      '`Accept-Receipt: 1` and the exchange publishes its log, each accepted order has a ' +
      '`receipt`.',
    headers: [ACCEPT_RECEIPT],
    body: OrderBatch,
    bodyBytesMax: BODY_BYTES_MAX,
    shownBody: ShownOrderBatch,
    responses: {
      200: Type.Object({
        results: Type.Array(Type.Union([PlacedOrder, ErrorShape])),
        count: Type.Integer(),
      }),
    },
    examples: {
      body: { 'two orders': BATCH_EXAMPLE },
      responses: {
        200: {
          'one of two': {
            value: {
              results: [
                ACCEPTED_EXAMPLE.value,
                { error: 'market not found', code: 'MARKET_NOT_FOUND', field: 'order.marketId' },
              ],
              count: 2,
            },
          },
        },
      },
    },
    traced: true,
    times: ({ orders }) => orders.length,
    async handle(request) {
      const begunMs = performance.now()
      const traced = request.stages && request.body.orders.map(() => orderStages(request.stages))
      // Verify all orders before placing the first: if each order were placed once it is verified, their sequence could
      // change.
      const verified = await Promise.all(
        request.body.orders.map((item, at) =>
          submissionShape.fits(item)
            ? service.verify(submissionOf(item), ownContext(request, traced?.[at]))
            : submissionShape.flaw(item),
        ),
      )
      const answers = await enterEach(service, verified, request, traced)
      for (const [at, answer] of answers.entries()) endOrderTrace(traced?.[at], begunMs, answer)
      const isWanted = wantsReceipt(request.headers)
      const results = answers.map((answer) =>
        isRejection(answer) ? errorOf(answer) : withReceipt(answer, isWanted, receipts),
      )
      return { status: 200, body: { results, count: results.length } }
    },
  })
}

/** Returns the context for one order of the batch; if the batch is traced, the order has a separate span. */
function ownContext<T extends OrderContext>(request: T, stages: WriteStages | undefined): T {
  return stages === undefined ? request : { ...request, stages }
}

type Entering = {
  readonly at: number
  readonly order: VerifiedOrder
  readonly context: OrderContext
}

/** Places the verified orders of a batch. Replacements in one market are placed together, other orders one by one. */
async function enterEach(
  service: OrderService,
  verified: readonly (VerifiedOrder | Rejection)[],
  request: OrderContext & { readonly body: { readonly orders: readonly unknown[] } },
  traced: readonly (WriteStages | undefined)[] | undefined,
): Promise<(EnteredOrder | Rejection)[]> {
  const answers: (EnteredOrder | Rejection)[] = []
  const steps = new Map<MarketId, Entering[]>()
  const entering: Promise<void>[] = []
  for (const [at, order] of verified.entries()) {
    if (isRejection(order)) {
      answers[at] = order
      continue
    }
    const own = ownContext(request, traced?.[at])
    const context = withOptions(own, submissionOf(request.body.orders[at]))
    if (context.replaces === undefined) {
      entering.push(
        service.enter(order, context).then((answer) => {
          answers[at] = answer
        }),
      )
      continue
    }
    const step = steps.get(order.marketId) ?? []
    step.push({ at, order, context })
    steps.set(order.marketId, step)
  }
  for (const [marketId, step] of steps) {
    for (const some of partsOf(step, REPLACEMENTS_PER_STEP_MAX)) {
      const stages = request.stages && newWriteStages(false, request.stages.span)
      entering.push(
        service.enterAll(marketId, some, ownContext(request, stages)).then((done) => {
          for (const [index, { at, context }] of some.entries()) {
            answers[at] = done[index] ?? INTERNAL
            // All orders of `some` were sent to the market in one message, so each of them gets the stage times of this
            // message.
            const { market, answerSentAtMs } = stages ?? {}
            if (context.stages) Object.assign(context.stages, { market, answerSentAtMs })
          }
        }),
      )
    }
  }
  await Promise.all(entering)
  return answers
}

const INTERNAL = reject('INTERNAL')

function errorOf(rejection: Rejection) {
  return errorBody(rejection, sentenceOf(rejection))
}
