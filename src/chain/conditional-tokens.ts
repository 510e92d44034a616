/** The outcome tokens: balances, approvals, splitting, merging, redeeming, and their events. */

import { type Hex, zeroHash } from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import { OUTCOMES, type Outcome } from '#domain/order.ts'
import { type Call, callOf, hexAddress } from './call.ts'
import { type ChainLog, decoded, type Place, placeOf } from './chain-log.ts'
import { asked, type ChainClient } from './clients.ts'
import { positionIdOf } from './position-id.ts'

/** A signature in the parts that the contracts expect. */
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
      /** Zero if the tokens were minted. */
      readonly from: Address
      /** Zero if they were burnt. */
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
      readonly type: 'ConditionPrepared'
      readonly conditionId: MarketId
      readonly oracle: Address
      readonly questionId: string
    })
  | (Place & {
      readonly type: 'ConditionResolved'
      readonly conditionId: MarketId
      readonly oracle: Address
      readonly questionId: string
      readonly payouts: readonly bigint[]
    })
  | (Place & {
      readonly type: 'OperatorApproved'
      readonly owner: Address
      readonly operator: Address
      readonly approved: boolean
    })

export type ConditionalTokens = {
  readonly address: Address
  /** Returns the token id of an outcome as 32 bytes of hex; computed locally. */
  positionId(marketId: MarketId, outcome: Outcome): string
  /** Returns the balances `[YES, NO]` of each pair at one block, and that block. */
  balances(
    pairs: readonly { holder: Address; marketId: MarketId }[],
    blockNumber?: number,
  ): Promise<{ blockNumber: number; shares: (readonly [yes: bigint, no: bigint])[] }>
  isApprovedForAll(owner: Address, operator: Address): Promise<boolean>
  nonce(owner: Address): Promise<bigint>
  /** Payout of each outcome; the denominator is zero until the condition is resolved. */
  payouts(marketId: MarketId): Promise<{ numerators: readonly bigint[]; denominator: bigint }>
  isPrepared(marketId: MarketId): Promise<boolean>
  approveCall(operator: Address, approved: boolean): Call
  approveWithPermitCall(
    permit: { owner: Address; operator: Address; approved: boolean; deadline: bigint },
    signature: SignatureParts,
  ): Call
  splitCall(marketId: MarketId, amount: bigint): Call
  mergeCall(marketId: MarketId, amount: bigint): Call
  redeemCall(marketId: MarketId, indexSets?: readonly bigint[]): Call
  redeemWithPermitCall(redemption: Redemption, signature: SignatureParts): Call
  transferCall(
    from: Address,
    to: Address,
    token: { marketId: MarketId; outcome: Outcome; amount: bigint },
  ): Call
}

const BOTH: readonly bigint[] = [1n, 2n]

export function conditionalTokens(
  client: ChainClient,
  address: Address,
  stablecoin: Address,
): ConditionalTokens {
  const contract = { address: hexAddress(address), abi: conditionalTokensAbi } as const
  const collateral = hexAddress(stablecoin)
  const { viem } = client
  const positionId = (marketId: MarketId, outcome: Outcome) =>
    positionIdOf(stablecoin, marketId, outcome)
  const idOf = (marketId: MarketId) => marketId as string as Hex
  return {
    address,
    positionId,
    async balances(pairs, blockNumber) {
      const at = BigInt(blockNumber ?? (await asked(viem.getBlockNumber())))
      const flat =
        pairs.length === 0
          ? []
          : await asked(
              viem.readContract({
                ...contract,
                functionName: 'balanceOfBatch',
                args: [
                  pairs.flatMap(({ holder }) => OUTCOMES.map(() => hexAddress(holder))),
                  pairs.flatMap(({ marketId }) =>
                    OUTCOMES.map((outcome) => BigInt(positionId(marketId, outcome))),
                  ),
                ],
                blockNumber: at,
              }),
            )
      const shares = pairs.map(
        (_, index) => [flat[2 * index] ?? 0n, flat[2 * index + 1] ?? 0n] as const,
      )
      return { blockNumber: Number(at), shares }
    },
    isApprovedForAll: (owner, operator) =>
      asked(
        viem.readContract({
          ...contract,
          functionName: 'isApprovedForAll',
          args: [hexAddress(owner), hexAddress(operator)],
        }),
      ),
    nonce: (owner) =>
      asked(viem.readContract({ ...contract, functionName: 'nonces', args: [hexAddress(owner)] })),
    async payouts(marketId) {
      const [denominator, ...numerators] = await Promise.all([
        asked(
          viem.readContract({
            ...contract,
            functionName: 'payoutDenominator',
            args: [idOf(marketId)],
          }),
        ),
        ...OUTCOMES.map((outcome) =>
          asked(
            viem.readContract({
              ...contract,
              functionName: 'payoutNumerators',
              args: [idOf(marketId), BigInt(outcome)],
            }),
          ),
        ),
      ])
      return { numerators, denominator: denominator ?? 0n }
    },
    async isPrepared(marketId) {
      const slots = await asked(
        viem.readContract({
          ...contract,
          functionName: 'getOutcomeSlotCount',
          args: [idOf(marketId)],
        }),
      )
      return slots > 0n
    },
    approveCall: (operator, approved) =>
      callOf(address, conditionalTokensAbi, 'setApprovalForAll', [hexAddress(operator), approved]),
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
    splitCall: (marketId, amount) =>
      callOf(address, conditionalTokensAbi, 'splitPosition', [
        collateral,
        zeroHash,
        idOf(marketId),
        BOTH,
        amount,
      ]),
    mergeCall: (marketId, amount) =>
      callOf(address, conditionalTokensAbi, 'mergePositions', [
        collateral,
        zeroHash,
        idOf(marketId),
        BOTH,
        amount,
      ]),
    redeemCall: (marketId, indexSets = BOTH) =>
      callOf(address, conditionalTokensAbi, 'redeemPositions', [
        collateral,
        zeroHash,
        idOf(marketId),
        indexSets,
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
    transferCall: (from, to, { marketId, outcome, amount }) =>
      callOf(address, conditionalTokensAbi, 'safeTransferFrom', [
        hexAddress(from),
        hexAddress(to),
        BigInt(positionId(marketId, outcome)),
        amount,
        '0x',
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
    case 'ConditionPreparation': {
      const { conditionId, oracle, questionId } = event.args
      return {
        type: 'ConditionPrepared',
        ...place,
        conditionId: conditionId as string as MarketId,
        oracle: toAddress(oracle),
        questionId,
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
    case 'ApprovalForAll': {
      const { account: owner, operator, approved } = event.args
      return {
        type: 'OperatorApproved',
        ...place,
        owner: toAddress(owner),
        operator: toAddress(operator),
        approved,
      }
    }
    default:
      return undefined
  }
}

function word(value: bigint): string {
  return `0x${value.toString(16).padStart(64, '0')}`
}
