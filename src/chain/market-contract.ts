/** A market's contract: its state, proposing and settling its resolution, and its events. */

import type { ContractEventName, Hex } from 'viem'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { type Call, callOf, hexAddress } from './call.ts'
import { type ChainLog, decoded, type Place, placeOf, safeNumber, topicsOf } from './chain-log.ts'
import { asked, type ChainClient } from './clients.ts'
import type { SignatureParts } from './conditional-tokens.ts'

type MarketTerms = {
  readonly questionId: string
  readonly maker: Address
  readonly expirationSec: number
  /** Time from which an outcome may be proposed to the oracle. */
  readonly proposableFromSec: number
  readonly quick: boolean
  readonly question: string
  readonly description: string
}

/** The open assertion, or the one that resolved the market. */
type MarketAssertion = {
  readonly id: string
  readonly proposer: Address
  /** The account that paid the bond. */
  readonly asserter: Address
  /** True for YES. */
  readonly outcome: boolean
  readonly disputed: boolean
  readonly assertedAtSec: number
  readonly windowEndsAtSec: number
  readonly bond: bigint
}

/** A stablecoin permit for the bond, signed by the account that pays it; without a signature the allowance is used. */
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
  readonly address: Address
  terms(): Promise<MarketTerms>
  marketId(): Promise<MarketId>
  /** Returns the winning outcome; undefined until the market is resolved. */
  winner(): Promise<Outcome | undefined>
  /** Undefined if nothing is proposed. */
  assertion(): Promise<MarketAssertion | undefined>
  bond(): Promise<bigint>
  livenessSec(): Promise<number>
  nonce(account: Address): Promise<bigint>
  /** The caller pays the bond. */
  proposeCall(outcome: boolean): Call
  /** Proposes for `proposer`, by signature. */
  proposeResolutionCall(
    proposal: { proposer: Address; outcome: boolean; deadline: bigint },
    signature: SignatureParts,
    bond: BondPermit,
  ): Call
  /** Settles for `settler`, by signature over the expected outcome. */
  settleMarketCall(
    settlement: { settler: Address; winningOutcome: Outcome; deadline: bigint },
    signature: SignatureParts,
  ): Call
  /** Any account may send this call, whatever the result. */
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

/** First topics of these events, for following markets at any address. */
export const MARKET_TOPICS = [...topicsOf(marketAbi, MARKET_EVENTS).keys()] as readonly Hex[]

const NO_SIGNATURE = { v: 0, r: `0x${'0'.repeat(64)}`, s: `0x${'0'.repeat(64)}` } as const
const NO_ASSERTION = /^0x0+$/

export function marketContract(client: ChainClient, address: Address): MarketContract {
  const contract = { address: hexAddress(address), abi: marketAbi } as const
  const { viem } = client
  return {
    address,
    async terms() {
      const terms = await asked(viem.readContract({ ...contract, functionName: 'terms' }))
      return {
        questionId: terms.questionId,
        maker: toAddress(terms.maker),
        expirationSec: Number(terms.expiration),
        proposableFromSec: Number(terms.proposableFrom),
        quick: terms.quick,
        question: terms.question,
        description: terms.description,
      }
    },
    async marketId() {
      const id = await asked(viem.readContract({ ...contract, functionName: 'marketId' }))
      return id as string as MarketId
    },
    async winner() {
      if (!(await asked(viem.readContract({ ...contract, functionName: 'resolved' })))) {
        return undefined
      }
      return (await asked(
        viem.readContract({ ...contract, functionName: 'winningOutcome' }),
      )) as Outcome
    },
    async assertion() {
      const found = await asked(viem.readContract({ ...contract, functionName: 'assertion' }))
      if (NO_ASSERTION.test(found.id)) return undefined
      return {
        id: found.id,
        proposer: toAddress(found.proposer),
        asserter: toAddress(found.asserter),
        outcome: found.outcome,
        disputed: found.disputed,
        assertedAtSec: Number(found.assertionTime),
        windowEndsAtSec: Number(found.expirationTime),
        bond: found.bond,
      }
    },
    bond: () => asked(viem.readContract({ ...contract, functionName: 'bond' })),
    async livenessSec() {
      return Number(await asked(viem.readContract({ ...contract, functionName: 'liveness' })))
    },
    nonce: (account) =>
      asked(
        viem.readContract({ ...contract, functionName: 'nonces', args: [hexAddress(account)] }),
      ),
    proposeCall: (outcome) => callOf(address, marketAbi, 'propose', [outcome]),
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
