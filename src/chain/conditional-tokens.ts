/** The contract of the outcome tokens: reads of balances and payouts, calls that a holder has signed, and events. */

import type { Hex } from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import { OUTCOMES } from '#domain/order.ts'
import { type Call, callOf, hexAddress, readerOf } from './call.ts'
import { type ChainLog, decoded, type Place, placeOf } from './chain-log.ts'
import { asked, type ChainClient } from './clients.ts'
import { positionIdOf } from './position-id.ts'

/** A signature, split into `v`, `r` and `s` as the contracts expect. */
export type SignatureParts = { readonly v: number; readonly r: string; readonly s: string }

/** Signed content of a redemption. */
type Redemption = {
  readonly owner: Address
  readonly collateralToken: Address
  readonly parentCollectionId: string
  readonly conditionId: MarketId
  readonly indexSets: readonly bigint[]
  readonly deadline: bigint
}

type TokenMove = { readonly positionId: string; readonly amount: bigint }

export type TokenEvent =
  | (Place & {
      readonly type: 'TokensMoved'
      readonly operator: Address
      /** The zero address if the tokens were minted. */
      readonly from: Address
      /** The zero address if the tokens were burnt. */
      readonly to: Address
      readonly batch: boolean
      readonly moves: readonly TokenMove[]
    })
  | (Place & {
      readonly type: 'PositionSplit' | 'PositionsMerged'
      readonly holder: Address
      readonly collateral: Address
      readonly parentCollectionId: string
      readonly conditionId: MarketId
      readonly partition: readonly bigint[]
      readonly amount: bigint
    })
  | (Place & {
      readonly type: 'PayoutRedeemed'
      readonly holder: Address
      readonly collateral: Address
      readonly parentCollectionId: string
      readonly conditionId: MarketId
      readonly indexSets: readonly bigint[]
      readonly payout: bigint
    })
  | (Place & {
      readonly type: 'ConditionResolved'
      readonly conditionId: MarketId
      readonly oracle: Address
      readonly questionId: string
      readonly payouts: readonly bigint[]
    })

export type ConditionalTokens = {
  /** Returns the balances `[YES, NO]` of each pair at one block, and the number of that block. */
  balances(
    pairs: readonly { holder: Address; marketId: MarketId }[],
    blockNumber?: number,
  ): Promise<{ blockNumber: number; shares: (readonly [yes: bigint, no: bigint])[] }>
  /**
   * Returns the payout numerator of each outcome and their common denominator. The denominator is zero until the
   * condition is resolved.
   */
  payouts(marketId: MarketId): Promise<{ numerators: readonly bigint[]; denominator: bigint }>
  isPrepared(marketId: MarketId): Promise<boolean>
  approveWithPermitCall(
    permit: { owner: Address; operator: Address; approved: boolean; deadline: bigint },
    signature: SignatureParts,
  ): Call
  redeemWithPermitCall(redemption: Redemption, signature: SignatureParts): Call
}

export function conditionalTokens(
  client: ChainClient,
  address: Address,
  stablecoin: Address,
): ConditionalTokens {
  const read = readerOf(client, address, conditionalTokensAbi)
  const idOf = (marketId: MarketId) => marketId as string as Hex
  return {
    async balances(pairs, blockNumber) {
      const at = BigInt(blockNumber ?? (await asked(client.viem.getBlockNumber())))
      const holders = pairs.flatMap(({ holder }) => OUTCOMES.map(() => hexAddress(holder)))
      const ids = pairs.flatMap(({ marketId }) =>
        OUTCOMES.map((outcome) => BigInt(positionIdOf(stablecoin, marketId, outcome))),
      )
      const flat = pairs.length === 0 ? [] : await read('balanceOfBatch', [holders, ids], at)
      const shares = pairs.map(
        (_, index) => [flat[2 * index] ?? 0n, flat[2 * index + 1] ?? 0n] as const,
      )
      return { blockNumber: Number(at), shares }
    },
    async payouts(marketId) {
      const id = idOf(marketId)
      const [denominator, ...numerators] = await Promise.all([
        read('payoutDenominator', [id]),
        ...OUTCOMES.map((outcome) => read('payoutNumerators', [id, BigInt(outcome)])),
      ])
      return { numerators, denominator }
    },
    async isPrepared(marketId) {
      return (await read('getOutcomeSlotCount', [idOf(marketId)])) > 0n
    },
    approveWithPermitCall: ({ owner, operator, approved, deadline }, { v, r, s }) =>
      callOf(address, conditionalTokensAbi, 'setApprovalForAllWithPermit', [
        hexAddress(owner),
        hexAddress(operator),
        approved,
        deadline,
        v,
        r as Hex,
        s as Hex,
      ]),
    redeemWithPermitCall: (redemption, { v, r, s }) =>
      callOf(address, conditionalTokensAbi, 'redeemPositionsWithPermit', [
        hexAddress(redemption.owner),
        hexAddress(redemption.collateralToken),
        redemption.parentCollectionId as Hex,
        idOf(redemption.conditionId),
        redemption.indexSets,
        redemption.deadline,
        v,
        r as Hex,
        s as Hex,
      ]),
  }
}

/** Decodes an event of the outcome tokens; undefined for any other log. */
export function tokenEvent(log: ChainLog): TokenEvent | undefined {
  const event = decoded(conditionalTokensAbi, log)
  if (event === undefined) return undefined
  const place = placeOf(log)
  switch (event.eventName) {
    case 'TransferSingle': {
      const { operator, from, to, id, value } = event.args
      return {
        type: 'TokensMoved',
        ...place,
        operator: toAddress(operator),
        from: toAddress(from),
        to: toAddress(to),
        batch: false,
        moves: [{ positionId: word(id), amount: value }],
      }
    }
    case 'TransferBatch': {
      const { operator, from, to, ids, values } = event.args
      if (ids.length !== values.length) return undefined
      return {
        type: 'TokensMoved',
        ...place,
        operator: toAddress(operator),
        from: toAddress(from),
        to: toAddress(to),
        batch: true,
        moves: ids.map((id, index) => ({ positionId: word(id), amount: values[index] ?? 0n })),
      }
    }
    case 'PositionSplit':
    case 'PositionsMerge': {
      const { stakeholder, collateralToken, parentCollectionId, conditionId, partition, amount } =
        event.args
      return {
        type: event.eventName === 'PositionSplit' ? 'PositionSplit' : 'PositionsMerged',
        ...place,
        holder: toAddress(stakeholder),
        collateral: toAddress(collateralToken),
        parentCollectionId,
        conditionId: conditionId as string as MarketId,
        partition,
        amount,
      }
    }
    case 'PayoutRedemption': {
      const { redeemer, collateralToken, parentCollectionId, conditionId, indexSets, payout } =
        event.args
      return {
        type: 'PayoutRedeemed',
        ...place,
        holder: toAddress(redeemer),
        collateral: toAddress(collateralToken),
        parentCollectionId,
        conditionId: conditionId as string as MarketId,
        indexSets,
        payout,
      }
    }
    case 'ConditionResolution': {
      const { conditionId, oracle, questionId, payoutNumerators } = event.args
      return {
        type: 'ConditionResolved',
        ...place,
        conditionId: conditionId as string as MarketId,
        oracle: toAddress(oracle),
        questionId,
        payouts: payoutNumerators,
      }
    }
    default:
      return undefined
  }
}

function word(value: bigint): string {
  return `0x${value.toString(16).padStart(64, '0')}`
}
