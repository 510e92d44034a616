/** The list of the exchange's markets. It is read once, and again whenever a market opens or ends. */

import { computed, signal } from '@preact/signals'
import type { Market } from '#protocol/shapes/markets.ts'
import type { StreamTicker } from '#protocol/shapes/stream.ts'
import { onReconnect, reader, stream } from './exchange.ts'
import { readMarket } from './reads.ts'
import { showError } from './toasts.ts'

/**
 * Delay between an event and the new read of the markets. The resolution of a market causes several events, which need
 * only one read.
 */
const SETTLE_MS = 300
const RETRY_MS = 3_000
/**
 * Maximum number of markets in the list. A page cannot show a longer list well. Other markets can be opened by their
 * address.
 */
const MARKETS_MAX = 5_000
const OTHERS_MAX = 100

/**
 * Number of markets per request. Markets are read page by page, because the first page fills the screen long
 * before all markets have arrived.
 */
const PAGE_SIZE = 200
/**
 * Maximum time for which the first read waits for the stream. If the stream is open first, no change is missed and no
 * market is read twice.
 */
const STREAM_MS = 1_000

/** The list of markets; undefined until it is read. */
export const markets = signal<readonly Market[] | undefined>(undefined)

/** True if the list contains all requested markets. Ended markets are included only on request. */
export const isWhole = signal(false)
let isEndedWanted = false

const byId = computed(() => new Map(markets.value?.map((market) => [market.id, market])))

/** Requested markets outside the list, such as quick markets and markets opened by a link. */
const others = signal<readonly Market[]>([])

export function marketOf(marketId: string): Market | undefined {
  return byId.value.get(marketId) ?? others.value.find(({ id }) => id === marketId)
}

const wanted = new Set<string>()

/** Reads a market that may not be in the list. Returns false if the market is not known and cannot be read. */
export async function wantMarket(marketId: string): Promise<boolean> {
  if (marketOf(marketId) !== undefined) return true
  if (wanted.has(marketId)) return false
  wanted.add(marketId)
  try {
    const market = await readMarket(marketId)
    others.value = [market, ...others.value.filter(({ id }) => id !== marketId)].slice(
      0,
      OTHERS_MAX,
    )
    return true
  } catch {
    return false
  } finally {
    wanted.delete(marketId)
  }
}

let timer: ReturnType<typeof setTimeout> | undefined

function readSoon(ms: number): void {
  clearTimeout(timer)
  timer = setTimeout(() => void readMarkets(), ms)
}

/**
 * Reads the markets, open ones first. The first read, and the first read after `wantEnded`, show the list
 * page by page as it grows.
 */
async function readMarkets(): Promise<void> {
  const isFirst = !isWhole.value
  try {
    const all: Market[] = []
    for (const status of isEndedWanted ? (['open', 'ended'] as const) : (['open'] as const)) {
      for await (const market of reader.eachMarket({ status, pageSize: PAGE_SIZE })) {
        all.push(market)
        const isLonger = all.length > (markets.value?.length ?? 0)
        if (isFirst && isLonger && all.length % PAGE_SIZE === 0) markets.value = [...all]
        if (all.length === MARKETS_MAX) break
      }
      if (all.length === MARKETS_MAX) break
    }
    markets.value = all
    isWhole.value = true
  } catch (error) {
    if (markets.value === undefined) showError(error)
    readSoon(RETRY_MS)
  }
}

/** Adds ended markets to the list. Only the first call has an effect. */
export function wantEnded(): void {
  if (isEndedWanted) return
  isEndedWanted = true
  isWhole.value = false
  readSoon(0)
}

/** Returns the markets with newer states from the stream. */
export function applyTickers(
  before: readonly Market[] | undefined,
  tickers: readonly StreamTicker[],
): readonly Market[] | undefined {
  if (before === undefined) return undefined
  const byMarket = new Map(tickers.map((ticker) => [ticker.marketId, ticker]))
  return before.map((market) => {
    const ticker = byMarket.get(market.id)
    if (ticker === undefined || (ticker.seq !== 0 && ticker.seq < market.seq)) return market
    const { marketId: _, ...line } = ticker
    return { ...market, ...line, resolved: line.status === 'resolved' }
  })
}

export function followMarkets(): void {
  let isReading = false
  const following = stream().market(undefined, ({ type }) => {
    // A snapshot before the first read of the list is ignored, because that read follows anyway. Every other
    // message causes a new read.
    if (type !== 'market.snapshot' || isReading) readSoon(SETTLE_MS)
  })
  const start = () => {
    if (isReading) return
    isReading = true
    void readMarkets()
  }
  following.ready.then(start, start)
  setTimeout(start, STREAM_MS)
  stream().ticker(undefined, ({ tickers }) => {
    markets.value = applyTickers(markets.value, tickers)
    others.value = applyTickers(others.value, tickers) ?? []
  })
  onReconnect(() => readSoon(0))
}
