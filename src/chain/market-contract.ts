/** A market's contract: its state, the calls that propose and settle its outcome, and its events. */

import type { ContractEventName, Hex } from 'viem'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { type Call, callOf, hexAddress, readerOf } from './call.ts'
import { type ChainLog, decoded, type Place, placeOf, safeNumber, topicsOf } from './chain-log.ts'
import type { ChainClient } from './clients.ts'
import type { SignatureParts } from './conditional-tokens.ts'

type MarketTerms = {
  readonly maker: Address
  readonly expirationSec: number
  /** Time from which an outcome may be proposed to the oracle. */
  readonly proposableFromSec: number
}

/**
 * A stablecoin permit for the bond, signed by the account that pays the bond. Without a signature, the contract uses
 * the payer's allowance.
 */
export type BondPermit = {
  readonly payer: Address
  readonly deadline: bigint
  readonly signature?: SignatureParts
}

type AssertionPlace = Place & {
  readonly market: Address
  readonly marketId: MarketId
  readonly assertionId: string
}

type MarketContractEvent =
  | (AssertionPlace & {
      readonly type: 'ResolutionProposed'
      readonly proposer: Address
      readonly asserter: Address
      readonly outcome: boolean
      readonly bond: bigint
      readonly assertedAtSec: number
      readonly windowEndsAtSec: number
    })
  | (AssertionPlace & {
      readonly type: 'ResolutionDisputed' | 'ResolutionOverturned' | 'ResolutionAbandoned'
    })
  /** The assertion id is zero if a quick market was resolved by price. */
  | (AssertionPlace & { readonly type: 'MarketResolved'; readonly winningOutcome: Outcome })
  | (Place & {
      readonly type: 'MarketSettled'
      readonly market: Address
      readonly marketId: MarketId
      readonly settler: Address
      readonly winningOutcome: Outcome
    })
  | (Place & {
      readonly type: 'PayoutReportFailed'
      readonly market: Address
      readonly marketId: MarketId
    })

type MarketContract = {
  terms(): Promise<MarketTerms>
  /** Returns the call that proposes an outcome. `proposer` has signed the proposal. */
  proposeResolutionCall(
    proposal: { proposer: Address; outcome: boolean; deadline: bigint },
    signature: SignatureParts,
    bond: BondPermit,
  ): Call
  /**
   * Returns the call that settles the market with the outcome that `settler` has signed. If the oracle does not confirm
   * this outcome, the call reverts.
   */
  settleMarketCall(
    settlement: { settler: Address; winningOutcome: Outcome; deadline: bigint },
    signature: SignatureParts,
  ): Call
  /**
   * Returns the call that settles the oracle's assertion about the market, whether the oracle confirms or rejects the
   * assertion. Any account may send the call.
   */
  settleCall(): Call
  reportPayoutsCall(): Call
}

/** Every event of a market. */
export const MARKET_EVENTS = [
  'ResolutionProposed',
  'ResolutionDisputed',
  'ResolutionOverturned',
  'ResolutionAbandoned',
  'MarketResolved',
  'MarketSettled',
  'PayoutReportFailed',
] as const satisfies readonly ContractEventName<typeof marketAbi>[]

/**
 * First topics of all events of a market. A request for logs with these topics finds the events of all markets without
 * a list of their addresses.
 */
export const MARKET_TOPICS = [...topicsOf(marketAbi, MARKET_EVENTS).keys()] as readonly Hex[]

const NO_SIGNATURE = { v: 0, r: `0x${'0'.repeat(64)}`, s: `0x${'0'.repeat(64)}` } as const

export function marketContract(client: ChainClient, address: Address): MarketContract {
  const read = readerOf(client, address, marketAbi)
  return {
    async terms() {
      const { maker, expiration, proposableFrom } = await read('terms', [])
      return {
        maker: toAddress(maker),
        expirationSec: Number(expiration),
        proposableFromSec: Number(proposableFrom),
      }
    },
    proposeResolutionCall({ proposer, outcome, deadline }, { v, r, s }, bond) {
      const permit = bond.signature ?? NO_SIGNATURE
      return callOf(address, marketAbi, 'proposeResolution', [
        hexAddress(proposer),
        outcome,
        deadline,
        v,
        r as Hex,
        s as Hex,
        {
          payer: hexAddress(bond.payer),
          deadline: bond.deadline,
          v: permit.v,
          r: permit.r as Hex,
          s: permit.s as Hex,
        },
      ])
    },
    settleMarketCall: ({ settler, winningOutcome, deadline }, { v, r, s }) =>
      callOf(address, marketAbi, 'settleMarket', [
        hexAddress(settler),
        winningOutcome,
        deadline,
        v,
        r as Hex,
        s as Hex,
      ]),
    settleCall: () => callOf(address, marketAbi, 'settle', []),
    reportPayoutsCall: () => callOf(address, marketAbi, 'reportPayouts', []),
  }
}

/** Decodes an event of a market; undefined for any other log. */
export function resolutionEvent(log: ChainLog): MarketContractEvent | undefined {
  const event = decoded(marketAbi, log)
  if (event === undefined || event.eventName === 'EIP712DomainChanged') return undefined
  const place = {
    ...placeOf(log),
    market: log.address,
    marketId: event.args.marketId as string as MarketId,
  }
  switch (event.eventName) {
    case 'ResolutionProposed': {
      const { args } = event
      return {
        type: 'ResolutionProposed',
        ...place,
        assertionId: args.assertionId,
        proposer: toAddress(args.proposer),
        asserter: toAddress(args.asserter),
        outcome: args.outcome,
        bond: args.bond,
        assertedAtSec: safeNumber(args.assertionTime),
        windowEndsAtSec: safeNumber(args.expirationTime),
      }
    }
    case 'ResolutionDisputed':
    case 'ResolutionOverturned':
    case 'ResolutionAbandoned':
      return { type: event.eventName, ...place, assertionId: event.args.assertionId }
    case 'MarketResolved': {
      const { assertionId, winningOutcome } = event.args
      return {
        type: 'MarketResolved',
        ...place,
        assertionId,
        winningOutcome: winningOutcome as Outcome,
      }
    }
    case 'MarketSettled': {
      const { settler, winningOutcome } = event.args
      return {
        type: 'MarketSettled',
        ...place,
        settler: toAddress(settler),
        winningOutcome: winningOutcome as Outcome,
      }
    }
    case 'PayoutReportFailed':
      return { type: 'PayoutReportFailed', ...place }
  }
}
