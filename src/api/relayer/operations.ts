/** `POST /api/v1/relayer/…`: nine operations that need only a signature; the relayer pays the gas. */

import type { Static, TSchema } from 'typebox'
import { BODY_BYTES_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection, type RejectionCode } from '#domain/rejection.ts'
import type { RelayOperation } from '#domain/relay.ts'
import { relayerErrorBody } from '#http/errors.ts'
import { type AnswerRoute, type Example, route } from '#http/route.ts'
import type { RelayAnswer } from '#protocol/relayer.ts'
import { Relayed, RelayedBatch } from '#protocol/shapes/relayer.ts'
import type { RelayService } from './relay-service.ts'
import {
  APPROVAL_EXAMPLE,
  BATCH_EXAMPLE,
  CANCELLATION_EXAMPLE,
  DELEGATION_EXAMPLE,
  EPOCH_EXAMPLE,
  PERMIT_EXAMPLE,
  PROPOSAL_EXAMPLE,
  PROPOSAL_WITHOUT_BOND_EXAMPLE,
  REDEMPTION_EXAMPLE,
  RELAY_REJECTIONS,
  SETTLEMENT_EXAMPLE,
  TX_HASH,
} from './relayer-examples.ts'
import {
  BatchCtfRedemptionBody,
  batchCtfRedemptionOf,
  CancelAllBeforeBody,
  CancelOrdersBody,
  CtfApprovalBody,
  CtfRedemptionBody,
  cancelAllBeforeOf,
  cancelOrdersOf,
  ctfApprovalOf,
  ctfRedemptionOf,
  ProposeResolutionBody,
  proposeResolutionOf,
  SetDelegateBody,
  SettleMarketBody,
  StablecoinPermitBody,
  setDelegateOf,
  settleMarketOf,
  stablecoinPermitOf,
} from './relayer-shapes.ts'

const ERRORS: readonly RejectionCode[] = [
  'INVALID_SIGNATURE',
  'WOULD_REVERT',
  'INSUFFICIENT_FUNDS',
  'CHAIN_UNAVAILABLE',
  'RELAYER_UNAVAILABLE',
  'PART_UNAVAILABLE',
]

const IDEMPOTENT =
  'The exchange answers as soon as it has sent the transaction to the chain. If the same signed ' +
  'request is sent again, the exchange sends no second transaction, and the answer has the hash ' +
  'of the same transaction. If the chain already has the requested state, no transaction is ' +
  'sent. The answer then has the hash of the transaction that caused this state, or an empty ' +
  'hash if that transaction is unknown.'

const REVOCATION =
  'A request with `approved: false` revokes the approval. It is rejected while unsettled sales ' +
  'of the owner need the approval (409 `TRADES_PENDING`, with the ids of the trades): wait until ' +
  'they have settled. It is also rejected while the owner has open sell orders (409 ' +
  '`ORDERS_OPEN`): cancel these orders first. Until the revocation is confirmed, new sell orders ' +
  'of the owner are rejected (429 `ALLOWANCE_CHANGING`).'

const REDEMPTION =
  'The request is rejected while unsettled sales of the owner need the tokens (409 `TRADES_PENDING`). It is ' +
  'also rejected if the payout is below the minimum of this exchange (422 `NOTIONAL_TOO_SMALL`).'

type Operation<Body extends TSchema> = {
  readonly name: string
  readonly operationId: string
  readonly body: Body
  readonly summary: string
  readonly description: string
  readonly examples: Readonly<Record<string, Example>>
  /**
   * Maximum size of the body in bytes; by default `SMALL_BODY_BYTES_MAX`, the limit of a request for one
   * item.
   */
  readonly bodyBytesMax?: number
  /** Returns the factor by which the operation's cost is multiplied; 1 by default. */
  readonly times?: (body: Static<Body>) => number
  readonly read: (body: Static<Body>) => RelayOperation | Rejection
  readonly errors?: readonly RejectionCode[]
}

function described<Body extends TSchema>(operation: Operation<Body>) {
  const { name, operationId, body, summary, description, examples, errors = [] } = operation
  return {
    method: 'POST',
    path: `/api/v1/relayer/${name}`,
    operationId,
    auth: 'write',
    cost: 'write',
    tag: 'relayer',
    summary,
    description: `${description} ${IDEMPOTENT}`,
    body,
    errors: [...ERRORS, ...errors],
    shownErrors: RELAY_REJECTIONS,
    errorBody: relayerErrorBody,
    shownBody: examples,
  } as const
}

function single<Body extends TSchema>(
  service: RelayService,
  operation: Operation<Body>,
): AnswerRoute {
  const { shownBody, ...rest } = described(operation)
  return route({
    ...rest,
    ...(operation.times === undefined ? {} : { times: operation.times }),
    ...(operation.bodyBytesMax === undefined ? {} : { bodyBytesMax: operation.bodyBytesMax }),
    responses: { 200: Relayed },
    examples: {
      body: shownBody,
      responses: { 200: { sent: { value: { success: true, tx_hash: TX_HASH } } } },
    },
    async handle({ body, deadlineAtMs }) {
      const answer = await relayed(service, operation.read(body), deadlineAtMs)
      if (isRejection(answer)) return answer
      return { status: 200, body: { success: true as const, tx_hash: answer.txHash } }
    },
  })
}

async function relayed(
  service: RelayService,
  operation: RelayOperation | Rejection,
  deadlineAtMs: number,
): Promise<RelayAnswer | Rejection> {
  return isRejection(operation) ? operation : service.relay(operation, deadlineAtMs)
}

const PERMIT = {
  body: StablecoinPermitBody,
  summary: 'Allow the exchange to spend the owner’s stablecoin',
  description:
    'The request is an ERC-2612 permit. It sets the owner’s allowance for `spender` to `value`. ' +
    'The spender is the settlement contract or the conditional tokens contract. The permit uses ' +
    'up the owner’s next nonce at the stablecoin. If an open order has a permit with the same ' +
    'nonce, the permit of that order becomes invalid, and the order then needs the allowance. ' +
    'Therefore the allowance of the settlement contract after this request must cover all ' +
    'unsettled purchases and open buy orders of the owner, including orders with permits. If it ' +
    'would not cover the unsettled purchases, the request is rejected (409 `TRADES_PENDING`, ' +
    'with the ids of the trades): wait until they have settled. If it would cover them, but not ' +
    'the open buy orders in addition, the request is rejected (409 `ORDERS_OPEN`): cancel orders ' +
    'first. Until the transaction is confirmed, new buy orders with a permit are rejected (429 ' +
    '`ALLOWANCE_CHANGING`). If the request lowers the allowance of the settlement contract, new ' +
    'buy orders without a permit are rejected, too. None of these rules applies if the allowance ' +
    'of the settlement contract after this request is at least 2^128.',
  errors: ['TRADES_PENDING', 'ORDERS_OPEN'] as const,
  examples: { 'without limit': PERMIT_EXAMPLE },
  read: stablecoinPermitOf,
}

function batchRedemption(service: RelayService): AnswerRoute {
  const batch = described({
    name: 'batch-ctf-redemption',
    operationId: 'relayCtfRedemptions',
    body: BatchCtfRedemptionBody,
    summary: 'Redeem several markets in one transaction',
    description:
      'Either all redemptions succeed, or none. Each redemption has its own signature, and the nonces of the ' +
      `signatures are consecutive. ${REDEMPTION}`,
    errors: ['TRADES_PENDING', 'ORDERS_OPEN', 'NOTIONAL_TOO_SMALL'],
    examples: { 'two markets': BATCH_EXAMPLE },
    read: batchCtfRedemptionOf,
  })
  const { shownBody, ...rest } = batch
  return route({
    ...rest,
    responses: { 200: RelayedBatch },
    bodyBytesMax: BODY_BYTES_MAX,
    times: ({ redemptions }) => redemptions.length,
    examples: {
      body: shownBody,
      responses: {
        200: { sent: { value: { success: true, txHash: TX_HASH, status: 'pending' } } },
      },
    },
    async handle({ body, deadlineAtMs }) {
      const answer = await relayed(service, batchCtfRedemptionOf(body), deadlineAtMs)
      if (isRejection(answer)) return answer
      const { txHash, status } = answer
      return { status: 200, body: { success: true as const, txHash, status } }
    },
  })
}

export function relayerOperations(service: RelayService): AnswerRoute[] {
  return [
    single(service, {
      name: 'ctf-approval',
      operationId: 'relayCtfApproval',
      body: CtfApprovalBody,
      summary: 'Allow or forbid the exchange to move the owner’s outcome tokens',
      description: `The relayer calls \`setApprovalForAll\` of the conditional tokens with the owner’s signature. ${REVOCATION}`,
      errors: ['TRADES_PENDING', 'ORDERS_OPEN'],
      examples: { approve: APPROVAL_EXAMPLE },
      read: ctfApprovalOf,
    }),
    single(service, { name: 'usdc-permit', operationId: 'relayUsdcPermit', ...PERMIT }),
    single(service, {
      ...{ name: 'stablecoin-permit', operationId: 'relayStablecoinPermit' },
      ...PERMIT,
    }),
    single(service, {
      name: 'ctf-redemption',
      operationId: 'relayCtfRedemption',
      body: CtfRedemptionBody,
      summary: 'Redeem the tokens of a resolved market',
      description: `The contract burns the owner’s tokens of the given outcomes and pays their value to the owner. ${REDEMPTION}`,
      errors: ['TRADES_PENDING', 'ORDERS_OPEN', 'NOTIONAL_TOO_SMALL'],
      examples: { 'both outcomes': REDEMPTION_EXAMPLE },
      read: ctfRedemptionOf,
    }),
    batchRedemption(service),
    ...resolutions(service),
    ...withdrawals(service),
  ]
}

function resolutions(service: RelayService): AnswerRoute[] {
  return [
    single(service, {
      name: 'propose-resolution',
      operationId: 'relayProposal',
      body: ProposeResolutionBody,
      summary: 'Propose the outcome of an expired market',
      description:
        'The request proposes the outcome at the oracle and opens the dispute window. The ' +
        'proposer pays a bond and signs a permit for it (`bondPermitDeadline`, `bondV`, `bondR`, ' +
        '`bondS`). The function `bond()` of the market’s contract returns the amount of the ' +
        'bond. On a test chain the permit can be omitted; then the relayer pays the bond. The ' +
        'proposer’s balance minus the bond must cover their unsettled purchases and open buy ' +
        'orders, and so must their allowance. Otherwise the request is rejected (409 ' +
        '`TRADES_PENDING` or `ORDERS_OPEN`).',
      errors: ['TRADES_PENDING', 'ORDERS_OPEN'],
      examples: {
        'with a bond': PROPOSAL_EXAMPLE,
        "with the relayer's bond": PROPOSAL_WITHOUT_BOND_EXAMPLE,
      },
      read: proposeResolutionOf,
    }),
    single(service, {
      name: 'settle-market',
      operationId: 'relaySettlement',
      body: SettleMarketBody,
      summary: 'Settle a market after its dispute window',
      description:
        'The settlement makes the proposed outcome final; then the tokens of the market can be redeemed. If ' +
        'the market is already settled with that outcome, the answer has the transaction that settled it.',
      examples: { 'YES won': SETTLEMENT_EXAMPLE },
      read: settleMarketOf,
    }),
  ]
}

/** Returns routes that withdraw orders, or appoint or revoke a delegate, on the chain. */
function withdrawals(service: RelayService): AnswerRoute[] {
  return [
    single(service, {
      name: 'cancel-orders',
      operationId: 'relayCancellations',
      body: CancelOrdersBody,
      summary: 'Withdraw orders on the chain',
      description:
        'The owner signs the hashes of the orders. The exchange removes the orders from the book ' +
        'as soon as the transaction is in a block. The settlement contract applies the ' +
        'withdrawal after a delay, which its function `cancelDelay` returns in seconds. Until ' +
        'then, trades that were already matched can still settle. After that, the contract ' +
        'rejects the orders, whatever the exchange does. Only orders that this exchange has ' +
        'accepted can be withdrawn (otherwise 404 `ORDER_NOT_FOUND`).',
      errors: ['ORDER_NOT_FOUND'],
      examples: { 'one order': CANCELLATION_EXAMPLE },
      bodyBytesMax: BODY_BYTES_MAX,
      times: ({ orders }) => orders.length,
      read: cancelOrdersOf,
    }),
    single(service, {
      name: 'cancel-all-before',
      operationId: 'relayCancellationBefore',
      body: CancelAllBeforeBody,
      summary: 'Withdraw all orders with a nonce below the given nonce, on the chain',
      description:
        'The request withdraws all orders of the owner whose nonce is below `nonce`. This ' +
        'includes orders that the exchange has not received, and orders that the owner signs ' +
        'later. Orders with this nonce or a higher one stay valid. The SDK uses nonces that rise ' +
        'with time, so orders that it makes later stay valid. The exchange removes the withdrawn ' +
        'orders from the book as soon as the transaction is in a block. The settlement contract ' +
        'rejects them only after a delay, which its function `cancelDelay` returns in seconds. ' +
        'The withdrawal cannot be undone.',
      examples: { 'all orders signed so far': EPOCH_EXAMPLE },
      read: cancelAllBeforeOf,
    }),
    single(service, {
      name: 'set-delegate',
      operationId: 'relayDelegation',
      body: SetDelegateBody,
      summary: 'Appoint or revoke a key that signs orders of the owner',
      description:
        'Until the time `until`, the delegate can sign orders and cancels for the owner within ' +
        'the limits, and nothing else (docs/smart-accounts.md). The owner signs the typed data ' +
        '`signatures.setDelegate` of `/api/v1/config`. A contract account can use any signature ' +
        'that its code accepts. If the request revokes the delegate (`until` is 0), the exchange ' +
        'rejects the delegate’s orders as soon as the transaction is in a block. The contract ' +
        'can still settle trades of earlier orders for a delay, which the function `cancelDelay` ' +
        'of the settlement contract returns in seconds.',
      examples: { 'a bot': DELEGATION_EXAMPLE },
      read: setDelegateOf,
    }),
  ]
}
