/**
 * Reads the facts for the relayer's decisions: nonces, balances and states of markets, in one or two requests each.
 */

import type { Hex } from 'viem'
import { hexAddress } from '#chain/call.ts'
import { asked, type ChainClient, chainFault } from '#chain/clients.ts'
import { positionIdOf } from '#chain/position-id.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'

export type RelayContracts = {
  readonly settlement: Address
  readonly conditionalTokens: Address
  readonly stablecoin: Address
  readonly marketFactory: Address
  readonly multicall: Address
}

type OwnerFacts = {
  readonly tokensNonce: bigint
  readonly stablecoinNonce: bigint
  readonly stablecoinBalance: bigint
}

/** An owner's approval of a spender for outcome tokens, and the spender's allowance of the owner's stablecoin. */
export type GrantFacts = { readonly isApproved: boolean; readonly allowance: bigint }

/** One condition: the payout of each outcome, and the owner's balances. */
export type ConditionFacts = {
  /** The denominator of the payouts; zero until the condition is resolved. */
  readonly denominator: bigint
  readonly numerators: readonly [yes: bigint, no: bigint]
  readonly balances: readonly [yes: bigint, no: bigint]
}

export type MarketFacts = {
  readonly nonce: bigint
  readonly proposableFromSec: number
  readonly winner: Outcome | undefined
  readonly assertion:
    | {
        /** True for YES. */
        readonly outcome: boolean
        readonly disputed: boolean
        readonly windowEndsAtSec: number
      }
    | undefined
  readonly bond: bigint
  /** The signer's stablecoin balance, and the part of it that the market may take (its allowance). */
  readonly balance: bigint
  readonly allowance: bigint
  readonly stablecoinNonce: bigint
  /** Time of the newest block. */
  readonly nowSec: number
}

export type RelayFacts = {
  owner(owner: Address): Promise<OwnerFacts>
  grants(owner: Address, spender: Address): Promise<GrantFacts>
  /** Returns the market ids of these contracts; undefined for a contract that is not our market. */
  marketIds(markets: readonly Address[]): Promise<(MarketId | undefined)[]>
  /**
   * Returns payouts and balances of conditions. The conditions must belong to our markets, because other
   * conditions may have more than two outcomes.
   */
  conditions(owner: Address, conditionIds: readonly MarketId[]): Promise<ConditionFacts[]>
  /** Returns the facts of a market; undefined if the address is not our market. */
  market(market: Address, signer: Address): Promise<MarketFacts | undefined>
}

/**
 * Maximum number of conditions whose position ids are cached, enough for the few markets of the exchange. The ids are
 * cached because each is a point on a curve, which takes a millisecond to compute.
 */
const POSITIONS_KNOWN_MAX = 10_000
const NO_ASSERTION = /^0x0+$/
/** Maximum size of one request: the library would otherwise split a long list of calls into several requests. */
const REQUEST_BYTES_MAX = 100_000

export function relayFacts(client: ChainClient, contracts: RelayContracts): RelayFacts {
  const { viem } = client
  const together = {
    multicallAddress: hexAddress(contracts.multicall),
    batchSize: REQUEST_BYTES_MAX,
  } as const
  const tokens = {
    address: hexAddress(contracts.conditionalTokens),
    abi: conditionalTokensAbi,
  } as const
  const stablecoin = { address: hexAddress(contracts.stablecoin), abi: testUSDCAbi } as const
  const factory = { address: hexAddress(contracts.marketFactory), abi: marketFactoryAbi } as const
  const positions = new Map<string, readonly [bigint, bigint]>()

  function positionsOf(conditionId: MarketId): readonly [bigint, bigint] {
    const known = positions.get(conditionId)
    if (known !== undefined) return known
    const id = (outcome: Outcome) =>
      BigInt(positionIdOf(contracts.stablecoin, conditionId, outcome))
    const both = [id(0), id(1)] as const
    if (positions.size >= POSITIONS_KNOWN_MAX) positions.clear()
    positions.set(conditionId, both)
    return both
  }

  return {
    async owner(owner) {
      const args = [hexAddress(owner)] as const
      const [tokensNonce, stablecoinNonce, stablecoinBalance] = await asked(
        viem.multicall({
          ...together,
          allowFailure: false,
          contracts: [
            { ...tokens, functionName: 'nonces', args },
            { ...stablecoin, functionName: 'nonces', args },
            { ...stablecoin, functionName: 'balanceOf', args },
          ],
        }),
      )
      return { tokensNonce, stablecoinNonce, stablecoinBalance }
    },

    async grants(owner, spender) {
      const args = [hexAddress(owner), hexAddress(spender)] as const
      const [isApproved, allowance] = await asked(
        viem.multicall({
          ...together,
          allowFailure: false,
          contracts: [
            { ...tokens, functionName: 'isApprovedForAll', args },
            { ...stablecoin, functionName: 'allowance', args },
          ],
        }),
      )
      return { isApproved, allowance }
    },

    async marketIds(markets) {
      const [ours, ids] = await Promise.all([
        asked(
          viem.multicall({
            ...together,
            allowFailure: false,
            contracts: markets.map(
              (market) =>
                ({ ...factory, functionName: 'isMarket', args: [hexAddress(market)] }) as const,
            ),
          }),
        ),
        viem.multicall({
          ...together,
          allowFailure: true,
          contracts: markets.map(
            (market) =>
              ({ address: hexAddress(market), abi: marketAbi, functionName: 'marketId' }) as const,
          ),
        }),
      ])
      return markets.map((_, at) => {
        if (ours[at] !== true) return undefined
        const id = ids[at]
        // Every market contract of this exchange returns an id. So a failure comes from the request to the Ethereum
        // node, not from the contract.
        if (id === undefined || id.status === 'failure') throw chainFault(id?.error)
        return id.result as string as MarketId
      })
    },

    async conditions(owner, conditionIds) {
      const holder = hexAddress(owner)
      const answers = await asked(
        viem.multicall({
          ...together,
          allowFailure: false,
          contracts: conditionIds.flatMap((conditionId) => {
            const id = conditionId as string as Hex
            const args = [[holder, holder], positionsOf(conditionId)] as const
            return [
              { ...tokens, functionName: 'payoutDenominator', args: [id] },
              { ...tokens, functionName: 'payoutNumerators', args: [id, 0n] },
              { ...tokens, functionName: 'payoutNumerators', args: [id, 1n] },
              { ...tokens, functionName: 'balanceOfBatch', args },
            ]
          }),
        }),
      )
      return conditionIds.map((_, at) => {
        const [denominator, yes, no, balances] = answers.slice(4 * at, 4 * at + 4) as unknown as [
          bigint,
          bigint,
          bigint,
          readonly [bigint, bigint],
        ]
        return { denominator, numerators: [yes, no], balances }
      })
    },

    async market(market, signer) {
      const contract = { address: hexAddress(market), abi: marketAbi } as const
      const who = hexAddress(signer)
      const [answers, block] = await Promise.all([
        viem.multicall({
          ...together,
          allowFailure: true,
          contracts: [
            { ...factory, functionName: 'isMarket', args: [hexAddress(market)] },
            { ...contract, functionName: 'winningOutcome' },
            { ...contract, functionName: 'nonces', args: [who] },
            { ...contract, functionName: 'terms' },
            { ...contract, functionName: 'assertion' },
            { ...contract, functionName: 'bond' },
            { ...stablecoin, functionName: 'balanceOf', args: [who] },
            { ...stablecoin, functionName: 'allowance', args: [who, hexAddress(market)] },
            { ...stablecoin, functionName: 'nonces', args: [who] },
          ],
        }),
        asked(viem.getBlock({ blockTag: 'latest' })),
      ])
      const [isOurs, winner, nonce, terms, assertion, bond, balance, allowance, spent] = answers
      if (!resultOf(isOurs)) return undefined
      const found = resultOf(assertion)
      return {
        nonce: resultOf(nonce),
        proposableFromSec: Number(resultOf(terms).proposableFrom),
        // Before the resolution, a market has no winner and this call fails.
        winner: winner.status === 'success' ? (winner.result as Outcome) : undefined,
        assertion: NO_ASSERTION.test(found.id)
          ? undefined
          : {
              outcome: found.outcome,
              disputed: found.disputed,
              windowEndsAtSec: Number(found.expirationTime),
            },
        bond: resultOf(bond),
        balance: resultOf(balance),
        allowance: resultOf(allowance),
        stablecoinNonce: resultOf(spent),
        nowSec: Number(block.timestamp),
      }
    },
  }
}

type CallResult<T> =
  | { readonly status: 'success'; readonly result: T }
  | { readonly status: 'failure'; readonly error: Error }

/**
 * Returns the result of a call; throws a fault if the call failed. Our contracts never revert these calls, so a failure
 * comes from the request to the Ethereum node.
 */
function resultOf<T>(
  answer: CallResult<T> | { status: 'failure'; error: Error; result?: undefined },
): T {
  if (answer.status === 'failure') throw chainFault(answer.error)
  return answer.result
}
