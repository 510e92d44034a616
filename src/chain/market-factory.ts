/** The factory: creates markets at predictable addresses; its events. */

import { hexToBytes } from 'viem'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import { CATEGORIES, type Category, isComplementary, type Matching } from '#domain/market.ts'
import type { Outcome } from '#domain/order.ts'
import { type Call, callOf, hexAddress } from './call.ts'
import { type ChainLog, decoded, type Place, placeOf, safeNumber } from './chain-log.ts'
import { asked, type ChainClient } from './clients.ts'

type NewMarket = {
  readonly question: string
  readonly description: string
  readonly category: Category
  readonly expirationSec: number
  readonly matching?: Matching
}

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
  /** In its transaction this event precedes `MarketCreated` or `QuickMarketCreated`. */
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
  | (Place & {
      readonly type: 'MakerSet' | 'FactoryOperatorSet'
      readonly account: Address
      readonly allowed: boolean
    })

type Predicted = { readonly market: Address; readonly marketId: MarketId }

type MarketFactory = {
  readonly address: Address
  createCall(market: NewMarket): Call
  createQuickCall(
    quick: QuickTerms & { startPrice: bigint; source: string; matching?: Matching },
  ): Call
  resolveQuickCall(
    market: Address,
    prices: { startPrice: bigint; endPrice: bigint; source: string },
  ): Call
  contestQuickCall(market: Address, evidence: string): Call
  predict(maker: Address, market: NewMarket): Promise<Predicted>
  predictQuick(quick: QuickTerms): Promise<Predicted>
  isMarket(market: Address): Promise<boolean>
  isMaker(account: Address): Promise<boolean>
  isOperator(account: Address): Promise<boolean>
}

export function marketFactory(client: ChainClient, address: Address): MarketFactory {
  const contract = { address: hexAddress(address), abi: marketFactoryAbi } as const
  const { viem } = client
  const predicted = ([market, marketId]: readonly [string, string]): Predicted => ({
    market: toAddress(market),
    marketId: marketId as MarketId,
  })
  const words = ({ question, description, category, expirationSec }: NewMarket) =>
    [question, description, CATEGORIES.indexOf(category), BigInt(expirationSec)] as const
  return {
    address,
    createCall: (market) => {
      const name = isComplementary(market) ? 'createComplementaryMarket' : 'createMarket'
      return callOf(address, marketFactoryAbi, name, words(market))
    },
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
    async predict(maker, market) {
      return predicted(
        await asked(
          viem.readContract({
            ...contract,
            functionName: 'predictMarket',
            args: [hexAddress(maker), ...words(market)],
          }),
        ),
      )
    },
    async predictQuick({ asset, startSec, intervalSec }) {
      return predicted(
        await asked(
          viem.readContract({
            ...contract,
            functionName: 'predictQuickMarket',
            args: [asset, BigInt(startSec), intervalSec],
          }),
        ),
      )
    },
    isMarket: (market) =>
      asked(
        viem.readContract({ ...contract, functionName: 'isMarket', args: [hexAddress(market)] }),
      ),
    isMaker: (account) =>
      asked(
        viem.readContract({ ...contract, functionName: 'isMaker', args: [hexAddress(account)] }),
      ),
    isOperator: (account) =>
      asked(
        viem.readContract({ ...contract, functionName: 'isOperator', args: [hexAddress(account)] }),
      ),
  }
}

/** Returns the question of a quick market, as in its contract. */
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
    case 'MakerSet':
    case 'OperatorSet': {
      const { account, allowed } = event.args
      return {
        type: event.eventName === 'MakerSet' ? 'MakerSet' : 'FactoryOperatorSet',
        ...place,
        account: toAddress(account),
        allowed,
      }
    }
    default:
      return undefined
  }
}
