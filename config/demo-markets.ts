/**
 * Three markets to try things on, until a chain brings its own: of different categories and
 * different lengths. Their ids never change, so that a restart finds them again.
 */

import { createHash } from 'node:crypto'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Category, Market } from '#domain/market.ts'

const DAY_SEC = 86_400

const DEMOS: readonly {
  category: Category
  question: string
  description: string
  days: number
}[] = [
  {
    category: 'general',
    question: 'Will it rain in Delphi this month?',
    description: 'YES if the weather station at Delphi measures any rain before the expiration.',
    days: 30,
  },
  {
    category: 'defi',
    question: 'Will the total value locked in DeFi double within a quarter?',
    description: 'YES if it is at least twice what it was at creation when the market expires.',
    days: 90,
  },
  {
    category: 'stablecoin',
    question: 'Will USDC trade at one dollar on every day of this week?',
    description: 'YES if its daily closing price stays from 0.995 to 1.005 until the expiration.',
    days: 7,
  },
]

export function demoMarkets(chainId: number, maker: Address, nowSec: number): Market[] {
  return DEMOS.map(({ category, question, description, days }) => {
    const digest = createHash('sha256').update(`${chainId}:${question}`).digest('hex')
    return {
      id: `0x${digest}` as MarketId,
      question,
      description,
      category,
      contractAddress: `0x${digest.slice(24)}` as Address,
      maker,
      expiration: nowSec + days * DAY_SEC,
      chainId,
      createdAt: nowSec,
      quick: false,
    }
  })
}
