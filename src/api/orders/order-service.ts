/**
 * Checks submitted orders (values, market, permit, signature) and passes them to their markets. The same
 * checks apply to one order, to a batch, and to a request that only validates an order.
 */

import type { MarketId } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { echoOf } from '#domain/order-tags.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Asker, UnfundedLimit } from '#http/limits.ts'
import type { RequestContext } from '#http/request-context.ts'
import { endStage } from '#http/write-stages.ts'
import type { Delegates } from '#live/delegates.ts'
import type { FundsGateway } from '#live/funds-gateway.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketGateway, OrderContext } from '#live/market-gateway.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import type { WithdrawnOrders } from '#live/withdrawn-orders.ts'
import type { EnteredOrder, OrderAccepted } from '#protocol/market.ts'
import type { Clock } from '#runtime/clock.ts'
import { inTime } from '#runtime/in-time.ts'
import type { StageMeter } from '#runtime/stage-meter.ts'
import { actingFor, actsOnChain } from './acting-for.ts'
import { makeOrderCheck, type OrderCheck } from './check-order.ts'
import { makeCoveredOrders, OUTCOME_UNKNOWN } from './covered-orders.ts'
import { withOptions } from './order-options.ts'
import { type OrderSubmission, orderOf } from './order-shapes.ts'
import type { OrderSigner, OrderSigners } from './order-signers.ts'
import type { OrderVerifier } from './order-verifier.ts'
import { makeSubmissionReader } from './submission-reader.ts'
import { makeUnfundedGuard } from './unfunded-guard.ts'

export type OrderService = {
  /** Verifies and places an order. */
  place(submission: OrderSubmission, context: OrderContext): Promise<EnteredOrder | Rejection>
  verify(
    submission: OrderSubmission,
    context: Pick<RequestContext, 'stages' | 'deadlineAtMs'> & Asker,
  ): Promise<VerifiedOrder | Rejection>
  /** Passes a verified order to its market. Orders reach their market in the sequence of the calls. */
  enter(order: VerifiedOrder, context: OrderContext): Promise<EnteredOrder | Rejection>
  /** Passes several verified orders to one market, which places them in one step. */
  enterAll(
    marketId: MarketId,
    orders: readonly { readonly order: VerifiedOrder; readonly context: OrderContext }[],
    context: OrderContext,
  ): Promise<(EnteredOrder | Rejection)[]>
  /** Returns every error of a submission, which may be any JSON value. Places nothing. */
  check(submission: unknown, context: RequestContext & Asker): Promise<OrderCheck | Rejection>
}

type OrderServicePorts = {
  readonly board: MarketBoard
  readonly gateway: Pick<MarketGateway, 'place' | 'placeAll' | 'recall' | 'standing'>
  /** Reserves funds for orders; undefined if orders need no reservation. */
  readonly funds?: FundsGateway | undefined
  readonly verifier: OrderVerifier
  /** Checks signatures of delegates and contract accounts; undefined if only the trader's own key may sign. */
  readonly signers?: OrderSigners | undefined
  /** Returns the chains on which a key acts for an account as its delegate. */
  readonly actsOn?: Delegates['actsOn'] | undefined
  /**
   * Rejects orders that were cancelled on the chain; undefined if the exchange does not index these
   * cancellations.
   */
  readonly withdrawn?: Pick<WithdrawnOrders, 'flawOf'> | undefined
  /**
   * Returns a promise that resolves when this front has loaded all markets of the thread that runs this market. Returns
   * undefined if the front has already loaded them.
   */
  readonly known?: (marketId: MarketId) => Promise<void> | undefined
  /** Waits until the front follows these markets. Returns undefined if the front already follows them. */
  readonly followed?: SeqWaiters['untilFollowed']
  readonly clock: Clock
  /**
   * Minimum of price times size, in microdollars. The market rejects orders below it. In this service, only `check`
   * uses it, to report such orders.
   */
  readonly minNotional?: number
  /** Maximum number of days from now to an order's expiration. */
  readonly expirationDaysMax: number
  /** Maximum seconds from the match of a trade to its settlement. A permit must be valid until the settlement. */
  readonly settleSec?: number
  /** Called with the duration of each verification. */
  readonly meter?: StageMeter
  /** Counts orders that were refused because their trader cannot pay, or is paused after a failed trade. */
  readonly unfunded?: UnfundedLimit
}

export function makeOrderService(ports: OrderServicePorts): OrderService {
  const { board, gateway, funds, verifier, clock, meter, signers } = ports
  const reader = makeSubmissionReader(ports)
  const { flawsOf, signedOf, isOver } = reader
  const unfunded = makeUnfundedGuard(ports.unfunded)

  /**
   * Signers of verified orders that the trader's own key did not sign. If the market refuses such an order, `entered`
   * uses the signer to delete the order's record.
   */
  const foreign = new WeakMap<VerifiedOrder, OrderSigner>()

  /**
   * Converts the market's answer for the client. If the market refused an order that a delegate signed, deletes the
   * record of this order in the store.
   */
  function entered(
    order: VerifiedOrder,
    context: OrderContext,
    answer: OrderAccepted | Rejection,
  ): EnteredOrder | Rejection {
    unfunded.count(answer, context)
    const signer = foreign.get(order)
    const isRefused = isRejection(answer) && !OUTCOME_UNKNOWN.has(answer.rejected)
    if (signer !== undefined && isRefused) signers?.release(signer, order.orderHash)
    if (!isRejection(answer)) {
      return context.tags === undefined ? answer : { ...answer, ...echoOf(context.tags) }
    }
    // A market thread unloads ended markets and then no longer knows them. This front still knows that the market has
    // ended, so the client gets `MARKET_CLOSED`.
    const isGone = answer.rejected === 'MARKET_NOT_FOUND'
    return isGone && isOver(order.marketId) ? reject('MARKET_CLOSED') : answer
  }

  const covered = funds === undefined ? undefined : makeCoveredOrders({ board, gateway, funds })

  const service: OrderService = {
    async place(submission, context) {
      const verified = await service.verify(submission, context)
      if (isRejection(verified)) return verified
      return service.enter(verified, withOptions(context, submission))
    },

    async verify(submission, { stages, deadlineAtMs, ip, principal }) {
      const tooMany = unfunded.flawOf({ ip, principal })
      if (tooMany !== undefined) return tooMany
      const { marketId } = orderOf(submission)
      // A front that has just started may not have loaded the market yet, so `verify` waits until the market is loaded.
      const known = board.markets.has(marketId) ? undefined : ports.known?.(marketId)
      if (known !== undefined) await inTime(known, deadlineAtMs - clock.nowMs())
      // Ignore `EXPIRATION_TOO_SOON` here; the market checks it. If the client repeats an order that the market has
      // already accepted, the market repeats its answer, even if the order expires soon.
      const flaw = flawsOf(submission).find(({ rejected }) => rejected !== 'EXPIRATION_TOO_SOON')
      if (flaw !== undefined) return flaw
      // With a bearer token, an order may replace only orders of the token's owner, or of an account for which the
      // owner acts. It does not matter which key signed the new order.
      const isForeign = principal !== undefined && principal.address !== orderOf(submission).trader
      if (submission.replaces !== undefined && isForeign) {
        const acting = await actingFor(principal, orderOf(submission).trader, ports.actsOn)
        if (isRejection(acting)) return { ...acting, field: 'replaces' }
        const { market } = board.markets.get(marketId) ?? {}
        if (!actsOnChain(acting, market?.chainId)) return reject('NOT_ORDER_OWNER', 'replaces')
      }
      const signed = signedOf(submission)
      if (signed === undefined) return reject('MARKET_NOT_FOUND', 'order.marketId')
      const begunMs = performance.now()
      const inspection = await verifier.inspect(signed)
      endStage('verify', begunMs, stages, meter)
      if (isRejection(inspection)) return inspection
      const isOwn = inspection.flaw === null || signers === undefined
      const signer = isOwn
        ? undefined
        : await signers.signerOf(signed, inspection, { ip, principal })
      if (signer !== undefined && isRejection(signer)) return signer
      const accepted = signer === undefined ? inspection : { ...inspection, flaw: null }
      const order = verifier.verified(signed, accepted)
      if (isRejection(order)) return order
      const voided =
        (await ports.withdrawn?.flawOf(order, signed.chainId)) ??
        (signer === undefined ? undefined : await signers?.limitFlaw(signer, order))
      if (voided === undefined) {
        if (signer !== undefined) foreign.set(order, signer)
        return order
      }
      // The order has a flaw now. If the market accepted it earlier, still pass it to the market, which then repeats
      // its earlier answer.
      const before = await gateway.recall(order, { deadlineAtMs })
      if (before !== undefined && !isRejection(before)) return order
      unfunded.count(voided, { ip, principal })
      return voided
    },

    async enter(order, context) {
      const answer = await (covered ?? gateway).place(order, context)
      return entered(order, context, answer)
    },

    async enterAll(marketId, items, context) {
      const answers = await (covered ?? gateway).placeAll(marketId, items, context)
      return items.map(({ order, context: own }, at) => {
        const answer = isRejection(answers) ? answers : (answers[at] ?? reject('INTERNAL'))
        return entered(order, own, answer)
      })
    },

    check: makeOrderCheck(ports, reader, unfunded),
  }
  return service
}
