/**
 * Ticker lines, and the list of the newest markets for the feed of all markets. A line is the ticker of one market as
 * JSON, written once per state of that market.
 */

import type { MarketId, Sequence } from '#domain/ids.ts'
import { TICKERS_PER_MESSAGE_MAX } from '#domain/limits.ts'
import { writeJson } from '#http/json.ts'
import type { MarketBoard, ShownMarket } from '#live/market-board.ts'
import type { FiguresBook, MarketFigures } from '#live/market-figures.ts'
import { tickerBody } from '#live/ticker.ts'
import type { Clock } from '#runtime/clock.ts'

/** Time for which the list of the newest markets is reused. */
const NEWEST_MS = 1_000
/** Maximum wait for a market's figures from the database. */
const PREPARING_MS_MAX = 3_000

type Line = {
  /** State of the market that the line shows: sequence number and figures. */
  readonly seq: Sequence
  readonly traded: MarketFigures | undefined
  readonly text: string
  /** Values of the ticker without its sequence number, for comparison with another line. */
  readonly brief: string
}

export type TickerLines = ReturnType<typeof makeTickerLines>

export function makeTickerLines({
  board,
  figures,
  clock,
}: {
  readonly board: () => MarketBoard
  readonly figures: FiguresBook
  readonly clock: Clock
}) {
  /** Last written line of each market. An entry disappears when its market leaves the board. */
  const lines = new WeakMap<ShownMarket, Line>()
  let newest = { atMs: Number.NEGATIVE_INFINITY, marketIds: [] as readonly MarketId[], count: 0 }

  function lineOf(shown: ShownMarket): Line {
    const { market, closed } = shown
    const traded = figures.of(market.id)
    const known = lines.get(shown)
    if (known?.seq === shown.seq && known.traded === traded) return known
    const { seq, ...rest } = tickerBody({ ...market, closed }, shown, traded)
    const text = writeJson({ marketId: market.id, ...rest, seq })
    const line = { seq: shown.seq, traded, text, brief: Object.values(rest).join() }
    lines.set(shown, line)
    return line
  }

  /** Returns the newest open markets, the newest first. */
  function newestOpen(): typeof newest {
    const atMs = clock.nowMs()
    if (atMs - newest.atMs < NEWEST_MS) return newest
    const open: ShownMarket[] = []
    for (const shown of board().markets.values()) if (shown.closed === undefined) open.push(shown)
    const times = Float64Array.from(open, ({ market }) => market.createdAt).sort()
    const from = times[Math.max(0, times.length - TICKERS_PER_MESSAGE_MAX)] ?? 0
    const marketIds = open
      .filter(({ market }) => market.createdAt >= from)
      .sort(({ market: a }, { market: b }) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
      .slice(0, TICKERS_PER_MESSAGE_MAX)
      .map(({ market }) => market.id)
    newest = { atMs, marketIds, count: open.length }
    return newest
  }

  /**
   * Loads the figures of these markets from the database. If the database fails or takes longer than 3 s, the tickers
   * contain the figures known so far, with current prices.
   */
  function prepare(marketIds: readonly MarketId[]): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(PREPARING_MS_MAX, resolve)
      void figures
        .prepare(marketIds)
        .catch(() => undefined)
        .then(() => {
          cancel()
          resolve()
        })
    })
  }

  return { lineOf, newestOpen, prepare }
}
