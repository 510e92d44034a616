/** Calls, reads and events of the factory contract, which creates markets at predictable addresses. */

import { hexToBytes } from 'viem'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import { CATEGORIES, type Category, isComplementary, type Matching } from '#domain/market.ts'
import type { Outcome } from '#domain/order.ts'
import { type Call, callOf, hexAddress, readerOf } from './call.ts'
import { type ChainLog, decoded, type Place, placeOf, safeNumber } from './chain-log.ts'
import type { ChainClient } from './clients.ts'

export type QuickTerms = {
  readonly asset: string
  readonly startSec: number
  readonly intervalSec: number
}

type MarketPlace = Place & { readonly marketId: MarketId; readonly market: Address }

export type FactoryEvent =
  | (MarketPlace & {
      readonly type: 'MarketCreated'
      readonly maker: Address
      readonly question: string
      readonly description: string
      readonly category: Category
      readonly expirationSec: number
    })
  | (MarketPlace & {
      readonly type: 'QuickMarketCreated'
      readonly asset: string
      readonly startSec: number
      readonly endSec: number
      /** USD with eight decimals. */
      readonly startPrice: bigint
      readonly source: string
    })
  /** This event precedes `MarketCreated` or `QuickMarketCreated` in the same transaction. */
  | (MarketPlace & { readonly type: 'ComplementaryMarket' })
  | (MarketPlace & {
      readonly type: 'QuickMarketResolved'
      readonly winningOutcome: Outcome
      readonly startPrice: bigint
      readonly endPrice: bigint
      readonly source: string
    })
  | (MarketPlace & {
      readonly type: 'EventMarketCreated'
      readonly eventHash: string
      readonly signer: Address
      readonly metadata: Uint8Array
    })

type MarketFactory = {
  createQuickCall(
    quick: QuickTerms & { startPrice: bigint; source: string; matching?: Matching },
  ): Call
  resolveQuickCall(
    market: Address,
    prices: { startPrice: bigint; endPrice: bigint; source: string },
  ): Call
  contestQuickCall(market: Address, evidence: string): Call
  isMarket(market: Address): Promise<boolean>
  isOperator(account: Address): Promise<boolean>
}

export function marketFactory(client: ChainClient, address: Address): MarketFactory {
  const read = readerOf(client, address, marketFactoryAbi)
  return {
    createQuickCall: ({ asset, startSec, intervalSec, startPrice, source, ...quick }) => {
      const name = isComplementary(quick) ? 'createComplementaryQuickMarket' : 'createQuickMarket'
      const args = [asset, BigInt(startSec), intervalSec, startPrice, source] as const
      return callOf(address, marketFactoryAbi, name, args)
    },
    resolveQuickCall: (market, { startPrice, endPrice, source }) =>
      callOf(address, marketFactoryAbi, 'resolveQuickMarket', [
        hexAddress(market),
        startPrice,
        endPrice,
        source,
      ]),
    contestQuickCall: (market, evidence) =>
      callOf(address, marketFactoryAbi, 'contestQuickMarket', [hexAddress(market), evidence]),
    isMarket: (market) => read('isMarket', [hexAddress(market)]),
    isOperator: (account) => read('isOperator', [hexAddress(account)]),
  }
}

/** Returns the question of a quick market, in the same words as the market's contract. */
export function quickQuestion(asset: string): string {
  return `Is the price of ${asset} at or above its start price at the end?`
}

export function quickDescription(quick: {
  startPrice: bigint
  startSec: number
  endSec: number
  source: string
}): string {
  return (
    `Start price ${quick.startPrice} (USD, 8 decimals) at Unix time ${quick.startSec}, ` +
    `end at ${quick.endSec}, source ${quick.source}.`
  )
}

/** Decodes an event of the factory; undefined for any other log. */
export function factoryEvent(log: ChainLog): FactoryEvent | undefined {
  const event = decoded(marketFactoryAbi, log)
  if (event === undefined) return undefined
  const place = placeOf(log)
  switch (event.eventName) {
    case 'MarketCreated': {
      const { args } = event
      return {
        type: 'MarketCreated',
        ...place,
        marketId: args.marketId as string as MarketId,
        market: toAddress(args.market),
        maker: toAddress(args.maker),
        question: args.question,
        description: args.description,
        category: CATEGORIES[args.category] ?? 'general',
        expirationSec: safeNumber(args.expiration),
      }
    }
    case 'QuickMarketCreated': {
      const { args } = event
      return {
        type: 'QuickMarketCreated',
        ...place,
        marketId: args.marketId as string as MarketId,
        market: toAddress(args.market),
        asset: args.asset,
        startSec: safeNumber(args.startTime),
        endSec: safeNumber(args.endTime),
        startPrice: args.startPrice,
        source: args.source,
      }
    }
    case 'ComplementaryMarket': {
      const { marketId, market } = event.args
      return {
        type: 'ComplementaryMarket',
        ...place,
        marketId: marketId as string as MarketId,
        market: toAddress(market),
      }
    }
    case 'QuickMarketResolved': {
      const { args } = event
      return {
        type: 'QuickMarketResolved',
        ...place,
        marketId: args.marketId as string as MarketId,
        market: toAddress(args.market),
        winningOutcome: args.winningOutcome as Outcome,
        startPrice: args.startPrice,
        endPrice: args.endPrice,
        source: args.source,
      }
    }
    case 'EventMarketCreated': {
      const { args } = event
      return {
        type: 'EventMarketCreated',
        ...place,
        marketId: args.marketId as string as MarketId,
        market: toAddress(args.market),
        eventHash: args.eventHash,
        signer: toAddress(args.signer),
        metadata: hexToBytes(args.metadata),
      }
    }
    default:
      return undefined
  }
}
