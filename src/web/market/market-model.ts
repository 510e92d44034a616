/** State of the view of one market: its book, trades, resolution, and the account's position. */

import { computed, type Signal, signal } from '@preact/signals'
import type { Level } from '#client/answers.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { Market, ResolutionStatus } from '#protocol/shapes/markets.ts'
import { onReconnect, reader, stream } from '../state/exchange.ts'
import { applyTickers, marketOf } from '../state/markets.ts'
import { showError } from '../state/toasts.ts'
import { type BookFrame, makeMarketBook, type Outcome } from './market-book.ts'
import { makeMarketTape } from './market-tape.ts'
import { makeOwnShares, type OwnPosition } from './own-shares.ts'
import type { TapeTrade } from './tape-merge.ts'

export type MarketModel = {
  readonly marketId: string
  /** The market; undefined until it is read, null if it does not exist. */
  readonly market: Signal<Market | null | undefined>
  readonly outcome: Signal<Outcome>
  /** True if orders of one outcome can match orders of the other outcome; undefined until the market is read. */
  readonly isComplementary: Signal<boolean | undefined>
  /** Book of the chosen outcome; undefined until it has arrived. */
  readonly book: Signal<BookFrame | undefined>
  /** Returns all levels of one side of the book, best first. */
  levels(side: 'bids' | 'asks'): readonly Level[]
  /** Trades of the market, the newest first. */
  readonly tape: Signal<readonly TapeTrade[]>
  readonly resolution: Signal<ResolutionStatus | undefined>
  /** Position of the account; undefined until it is known. */
  readonly position: Signal<OwnPosition | undefined>
  /** Reads the position and the resolution again after an action that changes one of them. */
  refresh(): void
  start(): () => void
}

/**
 * Interval at which the market's figures are read. Some figures change without a message, such as the volume of the
 * last 24 hours.
 */
const FIGURES_MS = 60_000

export function createMarketModel(marketId: string): MarketModel {
  const market = signal<Market | null | undefined>(undefined)
  const outcome = signal<Outcome>('YES')
  const resolution = signal<ResolutionStatus | undefined>(undefined)
  const isComplementary = computed(() => {
    const matching = (market.value ?? marketOf(marketId))?.matching
    // A market that does not exist counts as not complementary; its book is empty.
    if (matching === undefined) return market.value === null ? false : undefined
    return matching === 'complementary'
  })
  const { book, levelsOf, ...ofBook } = makeMarketBook(marketId, outcome, isComplementary)
  const own = makeOwnShares(marketId)
  const { tape, ...ofTape } = makeMarketTape(marketId, own.readSoon)

  async function readFigures(): Promise<void> {
    try {
      market.value = await reader.market(marketId)
    } catch (error) {
      if (error instanceof SibylError && error.code === 'MARKET_NOT_FOUND') market.value = null
      else if (market.value === undefined) showError(error)
    }
  }

  async function readResolution(): Promise<void> {
    try {
      resolution.value = await reader.resolution.status(marketId)
    } catch {
      // The read may fail because the chain is unreachable. The last known resolution stays, and the market's next
      // event causes another read.
    }
  }

  function refresh(): void {
    void readFigures()
    void readResolution()
    own.readSoon()
  }

  return {
    ...{ marketId, market, outcome, isComplementary, book, tape, resolution, refresh },
    position: own.position,
    levels: (side) => levelsOf(side) ?? [],
    start() {
      refresh()
      const stopTape = ofTape.follow()
      const events = stream().market(marketId, refresh)
      const figures = stream().ticker([marketId], ({ tickers }) => {
        const known = market.value
        if (known) market.value = applyTickers([known], tickers)?.[0]
      })
      for (const { ready } of [events, figures]) ready.catch(() => undefined)
      const stops = [stopTape, ofBook.follow(), own.follow(), onReconnect(refresh)]
      const again = setInterval(() => {
        if (!document.hidden) void readFigures()
      }, FIGURES_MS)
      return () => {
        for (const stop of stops) stop()
        events.close()
        figures.close()
        clearInterval(again)
      }
    },
  }
}

/**
 * Returns a signal with the best bid and the best ask of the chosen outcome; 0 if a side is empty. The signal changes
 * less often than the whole book.
 */
export function bestOf(model: MarketModel): Signal<{ readonly bid: number; readonly ask: number }> {
  const bid = computed(() => model.book.value?.bids[0]?.price ?? 0)
  const ask = computed(() => model.book.value?.asks[0]?.price ?? 0)
  return computed(() => ({ bid: bid.value, ask: ask.value }))
}

/** Returns the account's shares of the chosen outcome; undefined until they are read. */
export function heldShares({ position, outcome }: MarketModel): number | undefined {
  const held = position.value
  return outcome.value === 'YES' ? held?.yesShares : held?.noShares
}
