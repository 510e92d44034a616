/** Builds ccxt's structure of a market from a market of the API. */

import type { PredictionMarket } from 'ccxt'
import type { Market } from '#protocol/shapes/markets.ts'
import { decimal } from './decimal.ts'

export const OUTCOMES = ['YES', 'NO'] as const

/** The parts of ccxt's base class that build names and times. */
type Base = {
  shortenSlug(slug: string | undefined): string
  iso8601(timestamp: number | undefined): string | undefined
}

/** Maximum number of characters of the question in a market's name. */
const WORDS_LENGTH_MAX = 48

/** Returns the id that ccxt calls `outcomeId`: `0x…:YES`. */
export function outcomeIdOf(marketId: string, outcome: number): string {
  return `${marketId}:${OUTCOMES[outcome]}`
}

/**
 * Returns the name of a market: words of its question and the first digits of its id. The digits distinguish markets
 * with the same question, so a name does not depend on other markets.
 */
function marketName(base: Base, { id, question }: Market): string {
  const words = base.shortenSlug(question).slice(0, WORDS_LENGTH_MAX)
  return [words, id.slice(2, 10).toUpperCase()].filter((part) => part !== '').join('_')
}

const number = (millionths: number | null | undefined): number | undefined =>
  millionths === undefined || millionths === null || millionths === 0
    ? undefined
    : Number(decimal(millionths))

export function marketStructure(base: Base, raw: Market, event?: string): PredictionMarket {
  const market = marketName(base, raw)
  const isOpen = raw.status === 'open'
  const { winningOutcome } = raw
  const endMs = raw.expiration * 1_000
  const outcomes = OUTCOMES.map((label, at) => ({
    outcome: `${market}:${label}`,
    outcomeId: outcomeIdOf(raw.id, at),
    ...{ label, market, marketId: raw.id, event },
    price: number(raw.lastPrices?.[at]),
    bid: number(raw.bestBidPrices[at]),
    ask: number(raw.bestAskPrices[at]),
    active: isOpen,
    winner: winningOutcome === undefined ? undefined : winningOutcome === at,
    settleFraction: winningOutcome === undefined ? undefined : Number(winningOutcome === at),
    precision: { amount: 1e-6, price: 1e-6 },
    info: raw,
  }))
  return {
    id: raw.id,
    ...{ market, event, outcomes },
    title: raw.question,
    description: raw.description,
    type: 'prediction',
    prediction: true,
    ...{ spot: false, margin: false, swap: false, future: false, option: false, contract: false },
    marketType: 'binary',
    executionModel: 'clob',
    ...{ base: 'USDC', quote: 'USDC', collateral: 'USDC' },
    active: isOpen,
    closed: !isOpen,
    resolved: raw.resolved,
    resolvedOutcome:
      winningOutcome === undefined ? undefined : `${market}:${OUTCOMES[winningOutcome]}`,
    created: raw.createdAt * 1_000,
    createdDatetime: base.iso8601(raw.createdAt * 1_000),
    ...{ end: endMs, expiry: endMs },
    ...{ endDatetime: base.iso8601(endMs), expiryDatetime: base.iso8601(endMs) },
    volume: number(raw.totalVolume) ?? 0,
    tickSize: 1e-6,
    ...{ maker: 0, taker: 0 },
    precision: { amount: 1e-6, price: 1e-6 },
    limits: {
      amount: { min: 1e-6, max: undefined },
      price: { min: 1e-6, max: 0.999999 },
      cost: { min: undefined, max: undefined },
    },
    fees: { trading: 0 },
    info: raw,
  } as PredictionMarket
}
