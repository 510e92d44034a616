/** Preview of a share link to a market: the market's question, and the probability of YES. */

import { chanceOf } from '#domain/chance.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import { ONE } from '#domain/money.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import { shortIdOf } from '#domain/share-link.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import type { StoredMarket } from '#live/market-finder.ts'

export type Preview = {
  /** Id of the market, or slug of the event. */
  readonly target: string
  readonly title: string
  readonly description: string
}

export type ChancePorts = {
  readonly board: MarketBoard
  readonly figures: Pick<FiguresBook, 'prepare' | 'of'>
}

type PreviewPorts = ChancePorts & {
  /** Returns the oldest market whose id begins with these hex digits. */
  readonly oldestMarket: (shortId: string) => Promise<StoredMarket | undefined>
}

const CLOSED_WORDS: Readonly<Record<CloseReason, string>> = {
  expired: 'Trading has ended.',
  resolved: 'The market is resolved.',
  withdrawn: 'The market was withdrawn.',
}
const TENTH_OF_PERCENT = 1_000

/**
 * Makes a function that returns the preview of a market, given the last part of a share link. If there is no such
 * market, the function returns undefined.
 */
export function makeMarketPreview(ports: PreviewPorts) {
  return async function preview(name: string): Promise<Preview | undefined> {
    const shortId = shortIdOf(name)
    const found = shortId === undefined ? undefined : await find(ports, shortId)
    if (found === undefined) return undefined
    const { market, closed } = found
    await ports.figures.prepare([market.id])
    const words = closed === undefined ? chanceWords(ports, market.id) : CLOSED_WORDS[closed]
    return { target: market.id, title: market.question, description: words }
  }
}

/**
 * Returns the market with this short id. Searches the database first, because a share link stands for the
 * oldest market with its short id. Searches the board only if the database returns no market.
 */
async function find(
  { board, oldestMarket }: PreviewPorts,
  shortId: string,
): Promise<{ readonly market: Market; readonly closed: CloseReason | undefined } | undefined> {
  const stored = await oldestMarket(shortId).catch((error: unknown) => {
    if (error instanceof Fault && error.retryable) return undefined
    throw error
  })
  if (stored === undefined) return board.byShortId(shortId)
  const shown = board.markets.get(stored.id)
  return { market: stored, closed: shown?.closed ?? stored.closeReason ?? undefined }
}

/** Returns the chance of YES in millionths; undefined if the market has no price. */
export function chanceInMarket(
  { board, figures }: ChancePorts,
  marketId: MarketId,
): number | undefined {
  const books = board.markets.get(marketId)?.books
  const best = (side: Side): readonly [number, number] => [
    books?.[0].best(side) ?? 0,
    books?.[1].best(side) ?? 0,
  ]
  return chanceOf({
    bestBidPrices: best(BUY),
    bestAskPrices: best(SELL),
    lastPrices: figures.of(marketId)?.lastPrices ?? null,
  })
}

function chanceWords(ports: ChancePorts, marketId: MarketId): string {
  const chance = chanceInMarket(ports, marketId)
  if (chance === undefined) return 'Not traded yet.'
  // Rounds YES down to a tenth of a percent before NO is computed, so that the shown probabilities add up to
  // 100%.
  const yes = chance - (chance % TENTH_OF_PERCENT)
  return `YES ${percentText(yes)}, NO ${percentText(ONE - yes)}.`
}

/** Returns millionths as a percentage, rounded down to a tenth. */
export function percentText(millionths: number): string {
  const tenths = Math.floor(millionths / TENTH_OF_PERCENT)
  return `${Math.floor(tenths / 10)}.${tenths % 10}%`
}
