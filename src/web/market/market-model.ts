/** State of the view of one market: its book, trades, resolution, and the account's position. */

import { batch, computed, effect, type Signal, signal, untracked } from '@preact/signals'
import type { Level } from '#client/answers.ts'
import type { LocalBook } from '#client/local-book.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { BookSubscription } from '#client/stream-types.ts'
import type { Market, ResolutionStatus } from '#protocol/shapes/markets.ts'
import type { TradesMessage } from '#protocol/shapes/stream.ts'
import type { UserPosition } from '#protocol/shapes/users.ts'
import { isCalledOff } from '../error-words.ts'
import { cents, shares } from '../format.ts'
import { account } from '../state/account.ts'
import { chain, onReconnect, reader, stream } from '../state/exchange.ts'
import { refreshFunds } from '../state/funds.ts'
import { applyTickers, marketOf } from '../state/markets.ts'
import { showError, showToast } from '../state/toasts.ts'
import { withImplied } from './implied-levels.ts'
import { oncePerFrame } from './next-frame.ts'
import { applyTrades, joinTapes, ownLegOf, type TapeTrade } from './tape-merge.ts'

export type Outcome = 'YES' | 'NO'

/** Shares and their cost, in millionths. */
type OwnPosition = Pick<UserPosition, 'yesShares' | 'noShares' | 'yesCost' | 'noCost'>

const NO_POSITION: OwnPosition = { yesShares: 0, noShares: 0, yesCost: 0, noCost: 0 }

type BookFrame = {
  /** The best ones, best first; in a complementary market with those that the other outcome implies. */
  readonly bids: readonly Level[]
  readonly asks: readonly Level[]
}

export type MarketModel = {
  readonly marketId: string
  /** Undefined until it is read, null if it does not exist. */
  readonly market: Signal<Market | null | undefined>
  readonly outcome: Signal<Outcome>
  /** True if orders of one outcome match orders of the other; undefined until the market is read. */
  readonly isComplementary: Signal<boolean | undefined>
  /** Book of the chosen outcome; undefined until it has arrived. */
  readonly book: Signal<BookFrame | undefined>
  /** All levels of one side, best first. */
  levels(side: 'bids' | 'asks'): readonly Level[]
  /** The newest first. */
  readonly tape: Signal<readonly TapeTrade[]>
  readonly resolution: Signal<ResolutionStatus | undefined>
  /** Position of the account; undefined until it is known. */
  readonly position: Signal<OwnPosition | undefined>
  /** Reads them again after an action that changes the position or the resolution. */
  refresh(): void
  start(): () => void
}

/** Levels of each side: more than any screen shows. */
const LADDER_LEVELS = 25
/** Interval for figures that no message reports, such as those of a passing day. */
const FIGURES_MS = 60_000
const POSITION_MS = 15_000
/** Pauses after which the position is read again, until the indexer has seen the transaction. */
const INDEXED_MS = [300, 700, 1_500]
/** Trades that wait for the next frame. */
const WAITING_MAX = 1_000

export function createMarketModel(marketId: string): MarketModel {
  const market = signal<Market | null | undefined>(undefined)
  const outcome = signal<Outcome>('YES')
  const book = signal<BookFrame | undefined>(undefined)
  const tape = signal<readonly TapeTrade[]>([])
  const resolution = signal<ResolutionStatus | undefined>(undefined)
  const position = signal<OwnPosition | undefined>(undefined)
  const isComplementary = computed(() => {
    const matching = (market.value ?? marketOf(marketId))?.matching
    // A market that does not exist has an empty book.
    if (matching === undefined) return market.value === null ? false : undefined
    return matching === 'complementary'
  })
  let live: LocalBook | undefined
  /** In a complementary market: the book of the outcome without implied levels. */
  let plain: LocalBook | undefined
  let waiting: TradesMessage[] = []

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
      // The chain may be unreachable: known values stay, and the next event retries.
    }
  }

  async function readOwn(): Promise<void> {
    const address = account.value?.address
    const chainId = chain.value?.chainId
    if (address === undefined || chainId === undefined) return
    try {
      const all = await reader.positions({ address, chainId })
      if (account.value?.address !== address) return
      const found = all.find((one) => one.marketId === marketId) ?? NO_POSITION
      if (!isSame(position.value, found)) position.value = found
    } catch {
      // Retried soon.
    }
  }

  let soon: ReturnType<typeof setTimeout> | undefined
  let isOver = false

  /** Reads the position until it has changed, or the last pause is over. */
  function readOwnSoon(): void {
    const before = position.peek()
    const again = async (pauses: readonly number[]): Promise<void> => {
      clearTimeout(soon)
      await readOwn()
      const [pauseMs, ...rest] = pauses
      if (isOver || pauseMs === undefined || position.peek() !== before) return
      clearTimeout(soon)
      soon = setTimeout(() => void again(rest), pauseMs)
    }
    void again(INDEXED_MS)
  }

  async function readPast(): Promise<void> {
    try {
      const past = await reader.trades(marketId)
      const read = past.map(({ timestamp, ...trade }) => ({
        ...trade,
        takerSide: undefined,
        reason: '',
        ts: timestamp * 1_000,
      }))
      // Values from the stream are newer.
      tape.value = joinTapes(tape.value, read)
    } catch (error) {
      showError(error)
    }
  }

  function tell(message: TradesMessage): void {
    if (message.type !== 'trade.status') return
    const trade = tape.value.find(({ tradeId }) => tradeId === message.tradeId)
    const own = trade === undefined ? undefined : ownLegOf(trade, account.value?.address)
    if (trade === undefined || own === undefined) return
    const what = `${own.side === 'buy' ? 'Bought' : 'Sold'} ${shares(trade.size)} ${
      own.outcome === 0 ? 'YES' : 'NO'
    } at ${cents(own.price)}`
    if (message.status === 'confirmed') showToast('done', `${what}: confirmed on chain.`)
    if (message.status === 'failed') showToast('error', `${what}: failed. ${message.reason}`.trim())
    if (message.status === 'confirmed' || message.status === 'failed') {
      void refreshFunds()
      readOwnSoon()
    }
  }

  const takeTrades = oncePerFrame(() => {
    const messages = waiting
    waiting = []
    batch(() => {
      for (const message of messages) tape.value = applyTrades(tape.value, message)
      for (const message of messages) tell(message)
    })
  })

  /** Returns the levels of a side, the best ones or all; undefined until the book has arrived. */
  function levelsOf(side: 'bids' | 'asks', count?: number): readonly Level[] | undefined {
    const levels = live?.[side](count)
    if (levels === undefined || !isComplementary.peek()) return levels
    // The best levels of a part are among as many of the whole.
    return plain === undefined ? undefined : withImplied(levels, plain[side](count))
  }

  function followBook(): () => void {
    return effect(() => {
      const chosen = outcome.value
      const implied = isComplementary.value
      live = undefined
      plain = undefined
      book.value = undefined
      if (implied === undefined) return
      const show = oncePerFrame(() => {
        const [bids, asks] = [levelsOf('bids', LADDER_LEVELS), levelsOf('asks', LADDER_LEVELS)]
        if (bids !== undefined && asks !== undefined) book.value = { bids, asks }
      })
      const follow = (which: { implied?: true }, take: (told: LocalBook) => void) =>
        stream().book({ marketId, outcome: chosen, ...which }, (_, told) => {
          take(told)
          show.ask()
        })
      const subscriptions: readonly BookSubscription[] = untracked(() => [
        follow(implied ? { implied } : {}, (told) => {
          live = told
        }),
        // The stream has sums; the implied part of each is the difference to the plain book.
        ...(implied
          ? [
              follow({}, (told) => {
                plain = told
              }),
            ]
          : []),
      ])
      // An ended market has no book.
      subscriptions[0]?.ready.catch((error: unknown) => {
        if (!isCalledOff(error)) book.value = { bids: [], asks: [] }
      })
      subscriptions[1]?.ready.catch(() => undefined)
      return () => {
        for (const subscription of subscriptions) subscription.close()
        show.stop()
      }
    })
  }

  function refresh(): void {
    void readFigures()
    void readResolution()
    readOwnSoon()
  }

  return {
    marketId,
    market,
    outcome,
    isComplementary,
    book,
    tape,
    resolution,
    position,
    refresh,
    levels: (side) => levelsOf(side) ?? [],
    start() {
      isOver = false
      refresh()
      const trades = stream().trades(marketId, (message) => {
        if (waiting.length < WAITING_MAX) waiting.push(message)
        takeTrades.ask()
      })
      trades.ready.then(readPast, (error: unknown) => {
        if (!isCalledOff(error)) void readPast()
      })
      const events = stream().market(marketId, refresh)
      const figures = stream().ticker([marketId], ({ tickers }) => {
        const known = market.value
        if (known) market.value = applyTickers([known], tickers)?.[0]
      })
      for (const { ready } of [events, figures]) ready.catch(() => undefined)
      const stops = [
        followBook(),
        effect(() => {
          const address = account.value?.address
          position.value = undefined
          if (address !== undefined) untracked(() => void readOwn())
        }),
        onReconnect(refresh),
      ]
      const again = setInterval(() => {
        if (!document.hidden) void readFigures()
      }, FIGURES_MS)
      const own = setInterval(() => {
        if (!document.hidden) void readOwn()
      }, POSITION_MS)
      return () => {
        isOver = true
        for (const stop of stops) stop()
        trades.close()
        events.close()
        figures.close()
        takeTrades.stop()
        clearInterval(again)
        clearInterval(own)
        clearTimeout(soon)
      }
    },
  }
}

function isSame(one: OwnPosition | undefined, other: OwnPosition): boolean {
  const names = ['yesShares', 'noShares', 'yesCost', 'noCost'] as const
  return one !== undefined && names.every((name) => one[name] === other[name])
}

/** Returns the best bid and ask of the chosen outcome, 0 if there is none; they change less often than the book. */
export function bestOf(model: MarketModel): Signal<{ readonly bid: number; readonly ask: number }> {
  const bid = computed(() => model.book.value?.bids[0]?.price ?? 0)
  const ask = computed(() => model.book.value?.asks[0]?.price ?? 0)
  return computed(() => ({ bid: bid.value, ask: ask.value }))
}

/** Returns the account's shares of the chosen outcome; undefined until they are known. */
export function heldShares({ position, outcome }: MarketModel): number | undefined {
  const held = position.value
  return outcome.value === 'YES' ? held?.yesShares : held?.noShares
}
