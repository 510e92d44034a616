/**
 * Demo markets of an exchange without a chain. Their ids never change, so a restarted exchange recognises these
 * markets. If there is a chain, markets with the same texts are created on the chain and get other ids.
 */

import { createHash } from 'node:crypto'
import { DEMO_WORDS } from '#devnet/demo-words.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'

const DAY_SEC = 86_400

/** Returns the three demo markets, plus `more` markets for load tests. */
export function demoMarkets(chainId: number, maker: Address, nowSec: number, more = 0): Market[] {
  const numbered = Array.from({ length: more }, (_, index) => ({
    category: 'general' as const,
    question: `Will load test ${index + 1} be fast enough?`,
    description: 'YES if no trader has to wait for it.',
    days: 30,
  }))
  return [...DEMO_WORDS, ...numbered].map(({ category, question, description, days }) => {
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
