/**
 * The answers about a user, as JSON. The thread that reads the database writes them. So the front receives
 * one text instead of a thousand values, and sends the text unchanged.
 */

import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { EchoedTags } from '#domain/order-tags.ts'
import type { FillKind } from '#domain/trade.ts'
import { exactInteger } from '#http/json.ts'
import { type PagePlace, writePlace } from '#http/page-place.ts'
import type { AnswerTo } from '#protocol/queries.ts'

export type UserTrade = {
  readonly tradeId: TradeId
  readonly marketId: MarketId
  /**
   * The market of the trade. All trades of one market share the same object, so that the market's text is written only
   * once.
   */
  readonly market: { readonly question: string; readonly contractAddress: Address }
  /** The user's role; `buyer` if the user traded with themselves. */
  readonly role: 'buyer' | 'seller'
  readonly outcome: number
  readonly price: number
  readonly size: number
  readonly cost: number
  readonly kind?: FillKind
  readonly status: string
  readonly matchedAtMs: number
  readonly txHash: string
  /** The user's order. */
  readonly orderHash: OrderHash
  readonly takerSide: number
  readonly tags: EchoedTags
}

/** A market as named in a path: by its id, or by its contract's address. */
export type MarketName =
  | { readonly marketId: MarketId }
  | { readonly contractAddress: Address; readonly chainId?: number | undefined }

export type Position = NonNullable<AnswerTo<'positionOf'>>

/** Request for a page of a user's activity. */
export type UserActivityPage = {
  readonly user: Address
  readonly chainId: number
  readonly limit: number
  readonly before?: PagePlace | undefined
}

/** Request for a page of a user's positions; `after` is the market of the last position on the page before. */
export type UserPositionsPage = {
  readonly user: Address
  readonly chainId: number
  readonly limit: number
  readonly after?: MarketId | undefined
}

/** Request for a user's position in a market. */
export type PositionRequest = { readonly market: MarketName; readonly user: Address }

/** Returns the response body of a position. An empty position has only its shares, both 0. */
export function positionBody(position: Position | undefined) {
  if (position === undefined) return { yesShares: 0, noShares: 0 }
  const { yesShares, noShares, yesCost, noCost } = position
  return {
    yesShares: exactInteger(yesShares),
    noShares: exactInteger(noShares),
    totalInvested: exactInteger(yesCost + noCost),
    yesCost: exactInteger(yesCost),
    noCost: exactInteger(noCost),
  }
}

export function userActivityJson(found: {
  readonly trades: readonly UserTrade[]
  readonly next: PagePlace | undefined
  readonly payouts: AnswerTo<'payoutsOfUser'>
}): string {
  const activity = found.trades.map(tradeJson).join(',')
  const settlements = found.payouts.map(payoutJson).join(',')
  const next = JSON.stringify(writePlace(found.next))
  return `{"activity":[${activity}],"settlements":[${settlements}],"nextBefore":${next}}`
}

/**
 * Returns the question and the address of a market as JSON. Only the question may contain characters that need
 * escaping.
 */
function wordsJson(question: string, contractAddress: Address): string {
  return (
    `"marketQuestion":${JSON.stringify(question)},` +
    `"contractAddress":"${checksumAddress(contractAddress)}"`
  )
}

const writtenWords = new WeakMap<UserTrade['market'], string>()

function marketJson(market: UserTrade['market']): string {
  const written = writtenWords.get(market)
  if (written !== undefined) return written
  const json = wordsJson(market.question, market.contractAddress)
  writtenWords.set(market, json)
  return json
}

function tradeJson(trade: UserTrade): string {
  const { role, outcome, price, size, cost, status, txHash, kind } = trade
  return (
    `{"tradeId":"${trade.tradeId}","marketId":"${trade.marketId}",` +
    `${marketJson(trade.market)},"role":"${role}","outcome":${outcome},` +
    `"price":${price},"size":${size},"cost":${cost},${kind === undefined ? '' : `"kind":"${kind}",`}"status":"${status}",` +
    `"timestamp":${Math.floor(trade.matchedAtMs / 1_000)},"txHash":"${txHash}",` +
    `"orderHash":"${trade.orderHash}","takerSide":${trade.takerSide}${tagsJson(trade.tags)}}`
  )
}

function tagsJson({ label, group }: EchoedTags): string {
  const labelled = label === undefined ? '' : `,"label":${JSON.stringify(label)}`
  return group === undefined ? labelled : `${labelled},"group":${JSON.stringify(group)}`
}

function payoutJson(payout: AnswerTo<'payoutsOfUser'>[number]): string {
  return (
    `{"marketId":"${payout.marketId}",${wordsJson(payout.marketQuestion, payout.contractAddress)},` +
    `"winningOutcome":${payout.winningOutcome},"payout":${payout.payout},` +
    `"txHash":"${payout.txHash}","status":"${payout.status}",` +
    `"timestamp":${Math.floor(payout.atMs / 1_000)}}`
  )
}

export function userPositionsJson(
  positions: AnswerTo<'positionsOfUser'>,
  realisedProfit: bigint,
  limit: number,
): string {
  const last = positions.length < limit ? undefined : positions.at(-1)
  const next = last === undefined ? 'null' : `"${last.marketId}"`
  return (
    `{"positions":[${positions.map(positionJson).join(',')}],"count":${positions.length},` +
    `"realisedProfit":${realisedProfit},"nextCursor":${next}}`
  )
}

function positionJson(position: AnswerTo<'positionsOfUser'>[number]): string {
  const { marketId, question, contractAddress, yesShares, noShares, yesCost, noCost } = position
  return (
    `{"marketId":"${marketId}","marketQuestion":${JSON.stringify(question)},` +
    `"contractAddress":"${checksumAddress(contractAddress)}","yesShares":${yesShares},` +
    `"noShares":${noShares},"totalInvested":${yesCost + noCost},"yesCost":${yesCost},` +
    `"noCost":${noCost},"realisedProfit":${position.realisedProfit},` +
    `"expiration":${position.expiration},"resolved":${position.resolved}}`
  )
}
