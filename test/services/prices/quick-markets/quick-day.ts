/**
 * A day of quick markets on a simulated clock. The feeds, the actors and the database are real; the providers are
 * simulated. At random times from a seed, providers misbehave, answers of the database and of the chain are lost, and
 * the exchange loses its memory.
 */

import assert from 'node:assert/strict'
import {
  makePriceSimulator,
  PROVIDER_FAULTS,
  type PriceSimulator,
} from '#devnet/price-simulator.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import {
  averagedSecs,
  decidingPrice,
  endSecOf,
  outcomeOf,
  type QuickMarket,
} from '#domain/quick-market.ts'
import { votesOn } from '#domain/quick-votes.ts'
import { type Served, serve } from '#runtime/serve.ts'
import { makeFailover } from '#services/prices/feeds/failover.ts'
import type { Feed } from '#services/prices/feeds/feed.ts'
import {
  newPrices,
  type PricesEvent,
  type PricesProtocol,
  type PricesState,
  prices,
} from '#services/prices/prices.ts'
import { newQuickMarkets, quickMarkets } from '#services/prices/quick-markets/quick-markets.ts'
import type {
  QuickMarketsEvent,
  QuickMarketsProtocol,
  QuickMarketsState,
} from '#services/prices/quick-markets/state.ts'
import type { Database } from '#store/engine/database.ts'
import { marksSince, pricesSince, recordMarks, recordPrices } from '#store/writes/prices.ts'
import {
  contestQuickMarket,
  noteQuickMarket,
  openQuickMarket,
  quickMarketsOfAsset,
  resolveQuickMarket,
  unfinishedQuickMarkets,
} from '#store/writes/quick-markets.ts'
import { makeFeeds, simulatedAddresses, simulatedPorts } from '../../../support/price-feeds.ts'
import { type Random, randomFrom } from '../../../support/random.ts'
import { type SimulatedClock, simulatedClock } from '../../../support/simulated-clock.ts'

export const ASSETS = ['BTC', 'ETH']
const INTERVAL_SEC = 900
const START_MS = 1_800_000_000_000 - 60_000
const HOUR_MS = 3_600_000
/** One tick of the providers. */
const STEP_MS = 5_000
const CHAIN_ID = 31_337

/** The chain as quick markets need it: each market is created once and resolved once. */
class Chain {
  readonly created = new Map<MarketId, { strike: number; source: PriceSource }>()
  readonly resolved = new Map<MarketId, number>()
  readonly opened = new Map<MarketId, number>()
  readonly contested = new Set<MarketId>()
}

type Life = { readonly stop: () => void; readonly busy: () => boolean }

export type Day = {
  /** Time from which the exchange and its providers have no more faults. */
  readonly endMs: number
  readonly markets: Record<string, QuickMarket[]>
  readonly chain: Chain
  readonly simulator: PriceSimulator
  readonly restarts: number
  readonly faults: number
  /** Assets and intervals without a market, because the exchange was down for too long. */
  readonly missed: Set<string>
  /** Number of published prices. */
  readonly published: number
  /** Descriptions of published prices that were wrong. */
  readonly wrong: readonly string[]
}

/**
 * Simulates a day of quick markets, and returns what happened. With fewer hours, simulates only the beginning
 * of the same day.
 */
export async function runDay(random: Random, database: Database, hours = 24): Promise<Day> {
  const clock = simulatedClock(START_MS)
  const simulator = makePriceSimulator({
    seed: random.seed,
    assets: ASSETS,
    clock,
    tickMs: STEP_MS,
  })
  const chain = new Chain()
  const missed = new Set<string>()
  const wrong: string[] = []
  let restarts = 0
  let faults = 0
  let published = 0
  let pending = 0
  // Failures have their own random numbers, so that the number of requests does not change the rest of the run.
  const luck = randomFrom(random.seed ^ 0x5eed)
  /** Runs work whose request or answer is sometimes lost. */
  const unsure = async <T>(work: () => Promise<T>): Promise<T> => {
    pending++
    try {
      if (luck.chance(0.01)) throw new Fault('AWAY', 'lost on the way', { retryable: true })
      const answer = await work()
      if (luck.chance(0.01)) throw new Fault('AWAY', 'the answer was lost', { retryable: true })
      return answer
    } finally {
      pending--
    }
  }

  const idOf = (asset: string, startSec: number): MarketId =>
    `0x${Buffer.from(`${asset}:${startSec}`).toString('hex').padStart(64, '0')}` as MarketId

  async function live(): Promise<Life> {
    let over = false
    const failover = makeFailover({
      order: PRICE_SOURCES,
      ageMsMax: 10_000,
      aheadMsMax: 2_000,
      recoverMs: 15_000,
      deviationMax: 0.01,
      jumpMax: 0.05,
      driftMs: 600_000,
    })
    const nowSec = Math.floor(clock.nowMs() / 1_000)
    const priceState = newPrices(
      { assets: ASSETS, publishMs: 1_000, writeMs: 300_000 },
      { failover, write: (batch) => unsure(() => recordPrices(database, batch)) },
      (
        await Promise.all(
          ASSETS.map((asset) => pricesSince(database, { asset, sinceSec: 0, limit: 2_000 })),
        )
      ).flat(),
    )
    let feeds: Feed[] = []
    const feedOf = (source: PriceSource): Feed => feeds.find((feed) => feed.source === source)!
    const quickState = newQuickMarkets(
      {
        assets: ASSETS,
        sources: PRICE_SOURCES,
        intervalSec: INTERVAL_SEC,
        chainId: CHAIN_ID,
        matching: 'same-outcome',
        withinMs: 60_000,
        gapMs: STEP_MS,
        patienceMs: 2_000,
        graceMs: 60_000,
        ownMs: 600_000,
        remainingMsMin: 60_000,
        reportAfterMs: 2_000,
        deviationMax: 0.01,
        agreementBps: 10,
        retryMs: 2_000,
        retryMsMax: 60_000,
      },
      {
        predict: ({ asset, startSec }) => ({
          marketId: idOf(asset, startSec),
          contractAddress: idOf(asset, startSec).slice(0, 42) as Address,
        }),
        priceAt: (source, asset, atMs, withinMs) =>
          unsure(() => feedOf(source).priceAt(asset, atMs, withinMs)),
        record: (terms) => unsure(() => openQuickMarket(database, terms)),
        decide: (decided) => unsure(() => resolveQuickMarket(database, decided)),
        contest: (contested) => unsure(() => contestQuickMarket(database, contested)),
        note: (noted) => unsure(() => noteQuickMarket(database, noted)),
        recordMarks: (batch) => unsure(() => recordMarks(database, batch)),
        place: ({ marketId }) =>
          unsure(async () => {
            chain.opened.set(marketId, (chain.opened.get(marketId) ?? 0) + 1)
          }),
        close: () => unsure(async () => undefined),
        create: (market) =>
          unsure(async () => {
            const { marketId, strike } = market
            const there = chain.created.get(marketId)
            // The first published strike never changes.
            if (there !== undefined) assert.equal(there.strike, strike.price)
            chain.created.set(marketId, { strike: strike.price, source: strike.source })
            return there === undefined ? `0x${'11'.repeat(32)}` : ''
          }),
        report: ({ marketId, resolution }) =>
          unsure(async () => {
            const created = chain.created.get(marketId)
            assert.ok(created !== undefined && resolution !== null)
            const { source, start, outcome } = resolution
            if (source === created.source) assert.equal(start.price, created.strike)
            assert.equal(outcome, outcomeOf(start.price, decidingPrice(resolution)))
            const there = chain.resolved.get(marketId)
            if (there !== undefined) assert.equal(there, outcome)
            chain.resolved.set(marketId, outcome)
            return there === undefined ? `0x${'22'.repeat(32)}` : ''
          }),
        openToOracle: ({ marketId, contested }) =>
          unsure(async () => {
            assert.ok(contested !== null && !chain.resolved.has(marketId))
            chain.contested.add(marketId)
            return `0x${'33'.repeat(32)}`
          }),
        // The oracle's voters would judge by the real price. To keep the test simple, this stub returns the outcome of
        // the market's source instead.
        outcomeOnChain: ({ marketId, contested }) =>
          unsure(async () => {
            assert.ok(chain.contested.has(marketId))
            chain.resolved.set(marketId, contested!.outcome)
            return contested!.outcome
          }),
      },
      {
        unfinished: await unfinishedQuickMarkets(database, { limit: 1_000 }),
        marks: await marksSince(database, { sinceSec: nowSec - 7_200, limit: 1_000 }),
      },
    )
    const servedOf = { mailboxMax: 100_000, batchMax: 1_000, full: undefined, clock }
    const quick: Served = serve<QuickMarketsState, QuickMarketsProtocol, QuickMarketsEvent>({
      ...servedOf,
      behaviour: quickMarkets,
      select: () => ({ state: quickState }),
    })
    const priced: Served = serve<PricesState, PricesProtocol, PricesEvent>({
      ...servedOf,
      behaviour: prices,
      select: () => ({ state: priceState }),
      say(events) {
        if (over) return
        for (const event of events) {
          if (event.type === 'PricePublished') {
            published++
            checkNear(event.price.asset, event.price.price, event.price.source)
          } else if (event.type === 'ObservationAccepted') {
            quick.hear('Observed', { observation: event.observation }, 0, undefined)
          } else if (event.type === 'SpeakerChanged') {
            quick.hear('SpeakerChanged', event, 0, undefined)
          }
        }
      },
    })
    feeds = makeFeeds(simulatedAddresses(ASSETS), () => ({
      ...simulatedPorts(simulator, clock),
      observed(observation) {
        if (!over) priced.hear('Observed', { observation }, 0, undefined)
      },
      troubled: () => undefined,
    }))
    for (const feed of feeds) feed.start()
    const tick = (): void => {
      if (over) return
      priced.hear('Tick', {}, 0, undefined)
      quick.hear('Tick', {}, 0, undefined)
      clock.after(STEP_MS, tick)
    }
    tick()
    return {
      stop() {
        over = true
        for (const feed of feeds) feed.stop()
      },
      busy: () => pending > 0 || priced.waiting > 0 || quick.waiting > 0,
    }
  }

  /** Records a published price that differs from the real one by 1.2 % or more. */
  function checkNear(asset: string, price: number, source: PriceSource): void {
    const truth = simulator.tickAt(source, asset, clock.nowMs()).price
    if (Math.abs(price - truth) / truth < 0.012) return
    wrong.push(`${clock.nowMs()}: ${source} ${asset} ${price}, not ${truth}`)
  }

  let life: Life | undefined = await live()
  const settle = async (): Promise<void> => {
    do {
      await turn()
      await turn()
    } while (life?.busy())
  }
  let downUntilMs = 0
  let nextRestartMs = START_MS + random.int(600_000, 4_000_000)
  let nextFaultMs = START_MS + random.int(30_000, 600_000)
  const faultEnds = new Map<PriceSource, number>()
  const endMs = START_MS + hours * HOUR_MS
  // After the day there is a quiet hour, in which all remaining work must finish.
  for (; clock.nowMs() < endMs + HOUR_MS; ) {
    const nowMs = clock.nowMs()
    const isQuiet = nowMs >= endMs
    if (life !== undefined && nowMs >= nextRestartMs && !isQuiet) {
      life.stop()
      await settle()
      life = undefined
      restarts++
      // Most outages are short; some last for whole intervals.
      downUntilMs =
        nowMs + (random.chance(0.15) ? random.int(900_000, 3_000_000) : random.int(500, 90_000))
      nextRestartMs = downUntilMs + random.int(600_000, 6_000_000)
    }
    if (life === undefined && nowMs >= downUntilMs) life = await live()
    if (nowMs >= nextFaultMs && !isQuiet) {
      const source = random.pick(PRICE_SOURCES)
      faults++
      simulator.setFault(source, random.pick(PROVIDER_FAULTS))
      faultEnds.set(source, nowMs + random.int(5_000, random.chance(0.2) ? 2_400_000 : 200_000))
      nextFaultMs = nowMs + random.int(30_000, 900_000)
    }
    for (const [source, untilMs] of faultEnds) {
      if (nowMs < untilMs && !isQuiet) continue
      simulator.setFault(source, undefined)
      faultEnds.delete(source)
    }
    if (life === undefined) noteMissed(clock, downUntilMs, missed)
    clock.advance(STEP_MS)
    await settle()
  }
  life?.stop()
  simulator.stop()
  await settle()
  const markets: Record<string, QuickMarket[]> = {}
  for (const asset of ASSETS) {
    markets[asset] = (await quickMarketsOfAsset(database, { asset, limit: 1_000 })).reverse()
  }
  return { endMs, markets, chain, simulator, restarts, faults, missed, published, wrong }
}

/** Records intervals in which no market can open because the exchange is down until near their end. */
function noteMissed(clock: SimulatedClock, downUntilMs: number, missed: Set<string>): void {
  const startSec = Math.floor(clock.nowMs() / 1_000 / INTERVAL_SEC) * INTERVAL_SEC
  // After a start it takes up to two minutes until a source is active.
  if (downUntilMs > (startSec + INTERVAL_SEC - 60 - 120) * 1_000) {
    for (const asset of ASSETS) missed.add(`${asset} ${startSec}`)
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Properties of every day. */
export function assertDay(day: Day): void {
  const { endMs, markets, chain, simulator } = day
  assert.deepEqual(day.wrong, [], 'no wrong price leaves')
  for (const asset of ASSETS) {
    const seen = new Set<number>()
    for (const market of markets[asset]!) {
      const { startSec, strike, resolution, marketId } = market
      const label = `${asset} ${startSec}`
      assert.equal(startSec % INTERVAL_SEC, 0, label)
      assert.ok(!seen.has(startSec), `${label} was opened twice`)
      seen.add(startSec)
      assert.ok(chain.opened.has(marketId), `${label} could be traded`)
      assert.equal(chain.created.get(marketId)?.strike, strike.price, label)
      if (endSecOf(market) * 1_000 > endMs) continue
      assert.ok(resolution !== null, `${label} is resolved`)
      assert.equal(market.onChain, 'reported', label)
      assert.equal(chain.resolved.get(marketId), resolution.outcome, label)
      assert.equal(resolution.source, resolution.start.source)
      if (resolution.source === strike.source) assert.deepEqual(resolution.start, strike)
      assert.equal(chain.contested.has(marketId), market.contested !== null, label)
      const others = (resolution.sources ?? [])
        .flatMap(({ start, end }) => [start, end])
        .filter((mark) => mark !== null)
      const averaged = resolution.average?.marks ?? []
      for (const mark of [strike, resolution.start, resolution.end, ...others, ...averaged]) {
        // A mark is a price that a source reported for a boundary. An exact mark is the price at the boundary. Any
        // other mark is a later report, at most a minute after the boundary.
        const atMs = mark.exact ? mark.boundarySec * 1_000 : mark.atMs
        const truth = simulator.tickAt(mark.source, asset, atMs)
        assert.equal(mark.price, truth.price, `${label}: ${JSON.stringify(mark)}`)
        assert.ok(mark.atMs - mark.boundarySec * 1_000 <= 60_000, label)
      }
      if (!strike.exact || !resolution.start.exact || !resolution.end.exact) continue
      const at = (sec: number) => simulator.tickAt(resolution.source, asset, sec * 1_000).price
      const { average } = resolution
      const votes = votesOn(resolution, resolution.sources ?? [], 10)
      const isContested = votes.opponents >= votes.supporters
      assert.equal(average !== undefined, isContested, label)
      if (average === undefined) {
        assert.equal(resolution.outcome, outcomeOf(at(startSec), at(endSecOf(market))), label)
        continue
      }
      if (!average.marks.every(({ exact }) => exact)) continue
      const mean = averagedSecs(endSecOf(market), INTERVAL_SEC).map(at)
      const sum = mean.reduce((total, price) => total + price, 0)
      assert.equal(average.price, Math.floor(sum / mean.length), label)
      assert.equal(resolution.outcome, outcomeOf(at(startSec), average.price), label)
    }
    for (let sec = START_MS / 1_000 + 60; sec * 1_000 < endMs - 900_000; sec += 900) {
      const isThere = seen.has(sec) || day.missed.has(`${asset} ${sec}`)
      assert.ok(isThere, `${asset} ${sec} was opened`)
    }
  }
}
