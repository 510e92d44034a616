/** Calls, reads and events of the settlement contract, which settles matched trades. */

import {
  decodeFunctionResult,
  encodeAbiParameters,
  encodeFunctionData,
  type Hex,
  hexToBytes,
  keccak256,
  parseSignature,
} from 'viem'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import type { SettlementChainEvent } from '#domain/chain-event.ts'
import {
  type Address,
  type MarketId,
  type OrderHash,
  parseTradeId,
  toAddress,
  type Uint64,
} from '#domain/ids.ts'
import type { Order, Outcome, PermitSignature } from '#domain/order.ts'
import type { FaultySide, Trade } from '#domain/trade.ts'
import { type Call, callOf, hexAddress, readerOf } from './call.ts'
import { type ChainLog, decoded, type Place, placeOf, safeNumber } from './chain-log.ts'
import { asked, type ChainClient } from './clients.ts'
import type { SignatureParts } from './conditional-tokens.ts'

/** Faults, in the order of the contract's enum `Fault`. */
export const SETTLEMENT_FAULTS = [
  'none',
  'buyer',
  'seller',
  'both',
] as const satisfies readonly FaultySide[]

/** Reasons, in the order of the contract's enum `Reason`. */
export const SETTLEMENT_REASONS = [
  'None',
  'AlreadySettled',
  'WrongSide',
  'MarketMismatch',
  'OutcomeMismatch',
  'SizeZero',
  'PriceOutOfRange',
  'PriceAboveBuyLimit',
  'PriceBelowSellLimit',
  'InvalidSignature',
  'FeeRecipientNotZero',
  'OrderExpired',
  'OrderCancelled',
  'OrderOverfilled',
  'MarketUnknown',
  'InsufficientCollateral',
  'InsufficientAllowance',
  'InsufficientShares',
  'SharesNotApproved',
  'BothUnfunded',
  'CollateralRefused',
  'SharesRefused',
] as const
type SettlementReason = (typeof SETTLEMENT_REASONS)[number] | 'Unknown'

/** The reason why a fill does not settle, and the side at fault. */
type Refusal = { readonly fault: FaultySide; readonly reason: SettlementReason }

/** Layout of the result byte of `settle`: 2 bits fault, 6 bits reason. */
const FAULT_SHIFT = 6
const REASON_MASK = 0x3f

/** An order with its 65-byte signature, as the exchange stores it. */
export type SettlementOrder = { readonly order: Order; readonly signature: string }

/** A fill of a batch; `buy` and `sell` are indices into the batch's orders. */
export type SettlementFill = {
  readonly buy: number
  readonly sell: number
  readonly seq: number
  readonly fillIndex: number
  readonly price: number
  readonly size: number
}

/** A permit with its owner. The contract applies the permit before the fill with the index `fill`. */
export type SettlementPermit = {
  readonly fill: number
  readonly owner: Address
  readonly permit: PermitSignature
}

type SettlementContractEvent = Place & SettlementChainEvent

export type SettlementContract = {
  readonly address: Address
  /** Returns the call that settles the fills in order and skips fills that cannot settle. */
  settleCall(
    orders: readonly SettlementOrder[],
    fills: readonly SettlementFill[],
    permits: readonly SettlementPermit[],
  ): Call
  isSettled(tradeKey: string, buyHash: OrderHash, sellHash: OrderHash): Promise<boolean>
  /** Returns the call that checks whether a trade has settled, for use in a multicall. */
  isSettledCall(tradeKey: string, buyHash: OrderHash, sellHash: OrderHash): Call
  /** Returns for each trade whether it has settled at the given block, or at the newest block. */
  areSettled(
    trades: readonly { tradeKey: string; buyHash: OrderHash; sellHash: OrderHash }[],
    blockNumber?: number,
  ): Promise<boolean[]>
  /**
   * Returns the filled size of an order on the chain. Also returns the Unix time from which its cancellation applies,
   * or 0 if it is not cancelled.
   */
  orderState(orderHash: OrderHash): Promise<{ filled: bigint; cancelledFromSec: number }>
  /**
   * Returns the nonce below which a trader's orders are void. If a higher nonce is pending, also returns that nonce and
   * the time at which it applies.
   */
  epochOf(trader: Address): Promise<{ nonce: bigint; next: bigint; nextFromSec: number }>
  /** Returns the call that cancels a trader's orders by signature; any account may send it. */
  cancelOrdersWithPermitCall(
    cancellation: { trader: Address; orders: readonly Order[]; deadline: bigint },
    signature: SignatureParts,
  ): Call
  /** Returns the call that cancels, by signature, all of a trader's orders with a nonce below the given one. */
  cancelAllBeforeWithPermitCall(
    cancellation: { trader: Address; nonce: bigint; deadline: bigint },
    signature: SignatureParts,
  ): Call
  isOperator(account: Address): Promise<boolean>
  /**
   * Returns for how many seconds an order's trades may still settle: `graceSec` after the order expires, and
   * `cancelDelaySec` after it is cancelled.
   */
  delays(): Promise<{ graceSec: number; cancelDelaySec: number }>
  /** Returns the trade's id on the chain. */
  tradeKeyOf(
    trade: Pick<Trade, 'tradeId' | 'buyOrderHash' | 'sellOrderHash' | 'price' | 'size'>,
  ): string
}

export function settlementContract(client: ChainClient, address: Address): SettlementContract {
  const read = readerOf(client, address, settlementAbi)
  return {
    address,
    settleCall: (orders, fills, permits) =>
      callOf(address, settlementAbi, 'settle', [
        orders.map(signedOrder),
        fills.map((fill) => ({
          buy: fill.buy,
          sell: fill.sell,
          seq: BigInt(fill.seq),
          fillIndex: fill.fillIndex,
          price: BigInt(fill.price),
          size: BigInt(fill.size),
        })),
        permits.map(({ fill, owner, permit }) => ({
          fill,
          owner: hexAddress(owner),
          value: BigInt(permit.value),
          deadline: BigInt(permit.deadline),
          v: permit.v,
          r: permit.r as Hex,
          s: permit.s as Hex,
        })),
      ]),
    isSettled: (tradeKey, buyHash, sellHash) =>
      read('isSettled', [tradeKey as Hex, buyHash as Hex, sellHash as Hex]),
    isSettledCall: (tradeKey, buyHash, sellHash) => ({
      to: address,
      data: encodeFunctionData({
        abi: settlementAbi,
        functionName: 'isSettled',
        args: [tradeKey as Hex, buyHash as Hex, sellHash as Hex],
      }),
    }),
    async areSettled(trades, blockNumber) {
      // The reads are pinned to one block, so that answers of different nodes are consistent.
      const at = BigInt(blockNumber ?? (await asked(client.viem.getBlockNumber())))
      return Promise.all(
        trades.map(({ tradeKey, buyHash, sellHash }) =>
          read('isSettled', [tradeKey as Hex, buyHash as Hex, sellHash as Hex], at),
        ),
      )
    },
    async orderState(orderHash) {
      const [filled, cancelledFrom] = await read('orderState', [orderHash as Hex])
      return { filled, cancelledFromSec: Number(cancelledFrom) }
    },
    async epochOf(trader) {
      const [nonce, next, nextFrom] = await read('epochOf', [hexAddress(trader)])
      return { nonce, next, nextFromSec: Number(nextFrom) }
    },
    cancelOrdersWithPermitCall: ({ trader, orders, deadline }, { v, r, s }) =>
      callOf(address, settlementAbi, 'cancelOrdersWithPermit', [
        hexAddress(trader),
        orders.map(orderTuple),
        deadline,
        v,
        r as Hex,
        s as Hex,
      ]),
    cancelAllBeforeWithPermitCall: ({ trader, nonce, deadline }, { v, r, s }) =>
      callOf(address, settlementAbi, 'cancelAllBeforeWithPermit', [
        hexAddress(trader),
        nonce,
        deadline,
        v,
        r as Hex,
        s as Hex,
      ]),
    isOperator: (account) => read('isOperator', [hexAddress(account)]),
    async delays() {
      const [grace, cancelDelay] = await Promise.all([
        read('settlementGrace', []),
        read('cancelDelay', []),
      ])
      return { graceSec: Number(grace), cancelDelaySec: Number(cancelDelay) }
    },
    tradeKeyOf: (trade) => tradeKeyOf(client.chainId, address, trade),
  }
}

/**
 * Returns the trade's id on the chain: `keccak(chainId, settlement, marketId, seq, fillIndex, buyHash, sellHash, price,
 * size)`.
 */
function tradeKeyOf(
  chainId: number,
  settlement: Address,
  trade: Pick<Trade, 'tradeId' | 'buyOrderHash' | 'sellOrderHash' | 'price' | 'size'>,
): string {
  const name = parseTradeId(trade.tradeId)
  if (name === undefined) throw new TypeError(`the trade id ${trade.tradeId} is not valid`)
  return keccak256(
    encodeAbiParameters(
      [
        { type: 'uint256' },
        { type: 'address' },
        { type: 'bytes32' },
        { type: 'uint64' },
        { type: 'uint32' },
        { type: 'bytes32' },
        { type: 'bytes32' },
        { type: 'uint64' },
        { type: 'uint64' },
      ],
      [
        BigInt(chainId),
        hexAddress(settlement),
        name.marketId as string as Hex,
        BigInt(name.sequence),
        name.fillIndex,
        trade.buyOrderHash as string as Hex,
        trade.sellOrderHash as string as Hex,
        BigInt(trade.price),
        BigInt(trade.size),
      ],
    ),
  )
}

/** Decodes an event of the settlement contract; undefined for any other log. */
export function settlementEvent(log: ChainLog): SettlementContractEvent | undefined {
  const event = decoded(settlementAbi, log)
  if (event === undefined) return undefined
  const place = placeOf(log)
  switch (event.eventName) {
    case 'TradeSettled': {
      const { args } = event
      return {
        type: 'TradeSettled',
        ...place,
        tradeKey: args.tradeId,
        marketId: args.marketId as string as MarketId,
        buyer: toAddress(args.buyer),
        seller: toAddress(args.seller),
        buyHash: args.buyHash as string as OrderHash,
        sellHash: args.sellHash as string as OrderHash,
        outcome: args.outcome as Outcome,
        price: safeNumber(args.price),
        size: args.size,
        cost: args.cost,
      }
    }
    case 'TradeRejected': {
      const { tradeId, buyHash, sellHash, fault, reason } = event.args
      return {
        type: 'TradeRejected',
        ...place,
        tradeKey: tradeId,
        buyHash: buyHash as string as OrderHash,
        sellHash: sellHash as string as OrderHash,
        fault: SETTLEMENT_FAULTS[fault] ?? 'none',
        reason: SETTLEMENT_REASONS[reason] ?? 'Unknown',
      }
    }
    case 'OrderCancelled': {
      const { orderHash, trader, effectiveAt } = event.args
      return {
        type: 'OrderWithdrawn',
        ...place,
        orderHash: orderHash as string as OrderHash,
        trader: toAddress(trader),
        effectiveAtSec: safeNumber(effectiveAt),
      }
    }
    case 'AllOrdersCancelled': {
      const { trader, beforeNonce, effectiveAt } = event.args
      return {
        type: 'OrdersWithdrawn',
        ...place,
        trader: toAddress(trader),
        beforeNonce: String(beforeNonce) as Uint64,
        effectiveAtSec: safeNumber(effectiveAt),
      }
    }
    default:
      return undefined
  }
}

/** Decodes the result of a simulated `settle`. Returns for each fill the refusal, or undefined if the fill settles. */
export function refusalsOf(returned: Hex): (Refusal | undefined)[] {
  // An older contract returns nothing and reports refusals only in events. The list is then empty.
  if (returned === '0x') return []
  const verdicts = decodeFunctionResult({
    abi: settlementAbi,
    functionName: 'settle',
    data: returned,
  })
  return [...hexToBytes(verdicts)].map((verdict) =>
    verdict === 0
      ? undefined
      : {
          fault: SETTLEMENT_FAULTS[verdict >> FAULT_SHIFT] ?? 'none',
          reason: SETTLEMENT_REASONS[verdict & REASON_MASK] ?? 'Unknown',
        },
  )
}

/** Returns an order with its signature in the compact form of ERC-2098: the top bit of `s` is the parity of `v`. */
function signedOrder({ order, signature }: SettlementOrder) {
  const { r, s, yParity } = parseSignature(signature as Hex)
  const vs = BigInt(s) | (BigInt(yParity) << 255n)
  return { order: orderTuple(order), r, vs: `0x${vs.toString(16).padStart(64, '0')}` as Hex }
}

function orderTuple(order: Order) {
  return {
    marketId: order.marketId as string as Hex,
    trader: hexAddress(order.trader),
    side: order.side,
    outcome: order.outcome,
    price: BigInt(order.price),
    size: BigInt(order.size),
    nonce: BigInt(order.nonce),
    expiration: BigInt(order.expiration),
    makerFeeRecipient: hexAddress(order.makerFeeRecipient),
  }
}
