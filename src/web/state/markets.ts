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
 * Maximum time for which the first read of the markets waits for the subscription to their events. If the subscription
 * begins first, no change is missed and no second read is needed.
 */
const STREAM_MS = 1_000

/** The list of markets; undefined until it is read. */
export const markets = signal<readonly Market[] | undefined>(undefined)

/** True once the list has been read completely. The list contains ended markets only after `wantEnded`. */
export const isWhole = signal(false)
let isEndedWanted = false

const byId = computed(() => new Map(markets.value?.map((market) => [market.id, market])))

/** Requested markets outside the list, such as quick markets and markets opened by a link. */
const others = signal<readonly Market[]>([])

export function marketOf(marketId: string): Market | undefined {
  return byId.value.get(marketId) ?? others.value.find(({ id }) => id === marketId)
}

const wanted = new Set<string>()

/**
 * Reads a market unless it is already known. Returns false if the read fails, or if another read of the market is in
 * progress.
 */
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
 * Reads the markets, open ones first. While `isWhole` is false, the page shows the growing list after each page of
 * markets. Otherwise the old list stays until the new list is complete.
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

/**
 * Applies tickers from the stream to the markets. Ignores a ticker that is older than the market data that the page
 * already has.
 */
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
    // A snapshot that arrives before the first read begins is ignored, because that read gets the same markets. Every
    // other message causes a new read.
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
