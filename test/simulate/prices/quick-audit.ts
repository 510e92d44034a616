/**
 * Checks quick markets against the providers' reports and the chain. A decision is recorded once and never changes.
 * Every report in a decision was really made by its source. The outcome follows from the reports by the rule for quick
 * markets, which this file implements a second time.
 */

import type { MarketId } from '#domain/ids.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import {
  averagedSecs,
  averagedStepSec,
  endSecOf,
  type Mark,
  type QuickMarket,
  type QuickResolution,
} from '#domain/quick-market.ts'
import type { SimulatedChain } from '../chain/chain.ts'
import type { Tables } from '../database.ts'
import type { Oracle } from '../oracle.ts'
import { type Scheduler, Violation } from '../scheduler.ts'
import type { PriceReader } from './price-reader.ts'
import type { Providers } from './providers.ts'

type Row = {
  market_id: Buffer
  contract_address: Buffer
  start_at_sec: number
  interval_sec: number
  strike: string
  contested: string | null
  resolution: string | null
  chain_stage: QuickMarket['onChain']
}

type Known = Pick<QuickMarket, 'marketId' | 'contractAddress' | 'startSec' | 'intervalSec'> & {
  readonly strike: Mark
  readonly contested: QuickResolution | undefined
  readonly resolution: QuickResolution | undefined
  readonly onChain: QuickMarket['onChain']
  /** Decisions as the database has them. */
  readonly texts: readonly (string | null)[]
}

type Parts = {
  readonly scheduler: Scheduler
  readonly tables: Tables
  readonly providers: Providers
  readonly chain: SimulatedChain
  readonly oracle: Oracle
  readonly reader: PriceReader
  readonly agreementBps: number
  /** A report counts as the price at an instant only if it was made at most this long after the instant. */
  readonly withinMs: number
  readonly deviationMax: number
  /** Returns the time of the newest fault of a provider or a service. */
  readonly troubledAtMs: () => number
}

/** A market is checked as undisturbed if the last fault ended at least this long before the market's start. */
const CALM_MS = 15_000

export class QuickAudit {
  readonly #parts: Parts
  readonly #known = new Map<MarketId, Known>()
  /** Markets that ran without any fault. */
  calm = 0

  constructor(parts: Parts) {
    this.#parts = parts
    parts.scheduler.every(1_000_000, () => {
      try {
        this.look()
      } catch (error) {
        parts.scheduler.fail(error)
      }
    })
  }

  get markets(): readonly Known[] {
    return [...this.#known.values()]
  }

  /** Reads every row of `quick_markets`, and checks how it has changed since the last read. */
  look(): void {
    const rows = this.#parts.tables.file
      .prepare<[], Row>('select * from quick_markets order by quick_id')
      .all()
    for (const row of rows) {
      const now = knownOf(row)
      const before = this.#known.get(now.marketId)
      this.#known.set(now.marketId, now)
      if (before === undefined) this.#opened(now)
      else this.#changed(before, now)
    }
    const starts = this.markets.map(({ startSec }) => startSec)
    if (new Set(starts).size < starts.length) {
      throw new Violation('one-market', `two markets start at ${starts.join(' ')}`)
    }
  }

  #opened({ marketId, strike, startSec }: Known): void {
    if (strike.boundarySec !== startSec) {
      throw new Violation('strike', `${marketId} has the strike of ${strike.boundarySec}`)
    }
    this.#assertSaid(strike)
  }

  #changed(before: Known, now: Known): void {
    const { marketId } = now
    for (const [at, text] of before.texts.entries()) {
      if (text !== null && text !== now.texts[at]) {
        throw new Violation('decided-once', `${marketId}: ${text} became ${now.texts[at]}`)
      }
    }
    const { contested, resolution } = now
    if (contested !== undefined && before.contested === undefined) this.#judge(now, contested, true)
    if (resolution === undefined || before.resolution !== undefined) return
    const isByOracle = resolution.byOracle === true
    if (isByOracle !== (contested !== undefined)) {
      throw new Violation('contested-stays', `${marketId} is resolved ${isByOracle}`)
    }
    if (!isByOracle) this.#judge(now, resolution, false)
  }

  #assertSaid(mark: Mark): void {
    const flaw = this.#parts.providers.flawOf(mark)
    if (flaw !== undefined) throw new Violation('said', flaw)
  }

  /** The rule. */
  #judge(market: Known, resolution: QuickResolution, isContested: boolean): void {
    const { scheduler, agreementBps } = this.#parts
    const { marketId, startSec, strike } = market
    const { source, start, end, sources = [], average, outcome } = resolution
    const endSec = endSecOf(market)
    const wrong = (why: string) =>
      new Violation('rule', `${marketId}: ${why}: ${JSON.stringify(resolution, withoutRaw)}`)
    if (scheduler.nowMs < endSec * 1_000) throw wrong('it is decided before its end')
    const isOwn = source === strike.source
    if (isOwn && start.price !== strike.price) throw wrong('its start is not its strike')
    if (start.boundarySec !== startSec || end.boundarySec !== endSec) throw wrong('other instants')
    for (const mark of [start, end, ...(average?.marks ?? [])]) {
      if (mark.source !== source) throw wrong('two sources decide')
      this.#assertSaid(mark)
    }
    for (const one of sources)
      for (const mark of [one.start, one.end]) {
        if (mark !== null) this.#assertSaid(mark)
      }
    const sideOf = (from: number, to: number) => (to >= from ? 0 : 1)
    const moveOf = (from: number, to: number) => ((to - from) / from) * 10_000
    const own = sideOf(start.price, end.price)
    let [supporters, opponents, far] = [1, 0, 0]
    for (const { source: other, start: from, end: to, counts } of sources) {
      if (other === source || !counts || from === null || to === null) continue
      if (from.price === to.price) continue
      if (sideOf(from.price, to.price) === own) supporters++
      else {
        opponents++
        const distance = moveOf(from.price, to.price) - moveOf(start.price, end.price)
        if (Math.abs(distance) > agreementBps) far++
      }
    }
    this.#assertCounts(market, resolution, wrong)
    const isFar = far >= supporters
    if (isContested && this.#isImplausible(resolution)) {
      // The end prices of all other sources contradict the deciding source's end price. Then the market is contested
      // without a vote, so there are no votes to check.
    } else if (supporters > opponents) {
      if (isContested || average !== undefined || outcome !== own) throw wrong('a majority decides')
    } else if (isContested) {
      const repeats = average === undefined || outcome === own
      if (!isFar || !repeats) throw wrong('it is not contested')
    } else {
      const secs = averagedSecs(endSec, market.intervalSec)
      const marks = average?.marks ?? []
      if (marks.length !== secs.length) throw wrong('the mean lacks reports')
      if (marks.some(({ boundarySec }, at) => boundarySec !== secs[at])) throw wrong('other secs')
      const mean = Math.floor(marks.reduce((sum, { price }) => sum + price, 0) / marks.length)
      if (mean !== average?.price) throw wrong(`the mean is ${mean}`)
      if (outcome !== sideOf(start.price, mean)) throw wrong('the mean decides')
      if (isFar && outcome === own) throw wrong('it is contested')
    }
    this.#assertComplete(market, resolution, wrong)
  }

  /** Returns whether other sources reported end prices, and each differs from `end` by more than `deviationMax`. */
  #isImplausible({ source, end, sources = [] }: QuickResolution): boolean {
    const others = sources.filter((one) => one.source !== source && one.end !== null)
    return others.length > 0 && others.every((one) => !this.#isNear(one.end!.price, end.price))
  }

  #isNear(a: number, b: number): boolean {
    return Math.abs(a - b) / Math.min(a, b) <= this.#parts.deviationMax
  }

  /**
   * Asserts that no source was wrongly denied a vote. A source must have a vote if it reported both a start price and
   * an end price, and if, for each of the two times, another source reported a similar price.
   */
  #assertCounts(
    { strike }: Known,
    { source, sources = [] }: QuickResolution,
    wrong: (why: string) => Violation,
  ): void {
    for (const one of sources) {
      if (one.source === source || one.counts) continue
      if (one.start === null || one.end === null || one.start.price === strike.price) continue
      const ends = sources.flatMap(({ source: from, end }) =>
        end !== null && from !== one.source ? [end.price] : [],
      )
      const starts = sources.flatMap(({ source: from, start }) =>
        start !== null && from !== one.source ? [start.price] : [],
      )
      const [start, end] = [one.start.price, one.end.price]
      if (
        starts.some((other) => this.#isNear(other, start)) &&
        ends.some((other) => this.#isNear(other, end))
      ) {
        throw wrong(`${one.source} has no vote`)
      }
    }
  }

  /**
   * Checks a market that no fault affected. Its decision must contain all three sources, with their first reports at
   * the start and the end.
   */
  #assertComplete(
    { startSec }: Known,
    { sources = [] }: QuickResolution,
    wrong: (why: string) => Violation,
  ): void {
    if (this.#parts.troubledAtMs() > startSec * 1_000 - CALM_MS) return
    this.calm++
    for (const { source, start, end } of sources) {
      if (start?.exact !== true || end?.exact !== true) throw wrong(`${source} is not waited for`)
    }
    if (sources.length < 3) throw wrong('a source is missing')
  }

  /**
   * Returns whether the providers' reports are certainly enough to decide a market. They are enough in two cases. In
   * the first, exactly one source has reports of both the start and the end. In the second, a source has both reports,
   * and also every report for the mean price, which decides if the vote has no majority. In all other cases reports may
   * be missing, or sources may contradict each other.
   */
  #isDecidable(market: Known): boolean {
    const { providers, withinMs } = this.#parts
    const { startSec, strike, intervalSec } = market
    const endSec = endSecOf(market)
    const has = (source: PriceSource, sec: number, within = withinMs) =>
      providers.hasPast(source, sec * 1_000, within)
    const both = (reports: typeof has) =>
      PRICE_SOURCES.filter(
        (source) =>
          (source === strike.source || reports(source, startSec)) && reports(source, endSec),
      )
    const able = both(has)
    const pushed = both((source, sec) => providers.hasReport(source, sec * 1_000, withinMs))
    const stepMs = averagedStepSec(intervalSec) * 1_000 - 1
    const hasMean = (source: PriceSource) =>
      averagedSecs(endSec, intervalSec).every((sec) => has(source, sec, stepMs))
    return (able.length === 1 && pushed.length === 1) || able.some(hasMean)
  }

  /** Returns the unfinished markets that began at or before `untilSec`. */
  unfinished(untilSec: number): string[] {
    const { chain, oracle, reader } = this.#parts
    return this.markets
      .filter(({ startSec }) => startSec <= untilSec)
      .flatMap((market) => {
        const { marketId, contractAddress, onChain, resolution, contested, strike } = market
        const named = `${marketId} of ${market.startSec}`
        const there = chain.head.markets.get(contractAddress)
        if (there === undefined) return [`${named} is not on the chain`]
        const { quick, winner, proposableFromSec, expirationSec } = there
        if (quick?.source !== strike.source || quick.startPrice !== BigInt(strike.price)) {
          throw new Violation('chain-strike', `${named} has ${quick?.startPrice} on the chain`)
        }
        const received = reader.received.get(marketId)
        if (received !== undefined && received !== resolution?.outcome) {
          throw new Violation('told-decided', `${named}: readers received ${received}`)
        }
        if (resolution === undefined) {
          const isOpen = proposableFromSec === expirationSec
          if (contested !== undefined && onChain === 'contested' && isOpen) return []
          if (contested === undefined && !this.#isDecidable(market)) return []
          return [`${named} is undecided, and ${onChain}`]
        }
        if (winner !== undefined && winner !== resolution.outcome) {
          throw new Violation('chain-outcome', `${named} is ${resolution.outcome}, not ${winner}`)
        }
        if (onChain !== 'reported' || winner === undefined) return [`${named} is ${onChain}`]
        const model = oracle.markets.get(marketId)
        const isClosed = model === undefined || model.closed !== undefined
        return isClosed ? [] : [`${named} is still open at its market`]
      })
  }
}

function knownOf(row: Row): Known {
  const { strike, contested, resolution } = row
  const read = (text: string | null) =>
    text === null ? undefined : (JSON.parse(text) as QuickResolution)
  return {
    marketId: `0x${row.market_id.toString('hex')}` as MarketId,
    contractAddress: `0x${row.contract_address.toString('hex')}` as Known['contractAddress'],
    startSec: Number(row.start_at_sec),
    intervalSec: row.interval_sec,
    strike: JSON.parse(strike) as Mark,
    contested: read(contested),
    resolution: read(resolution),
    onChain: row.chain_stage,
    texts: [strike, contested, resolution],
  }
}

const withoutRaw = (key: string, value: unknown) => (key === 'raw' ? undefined : value)
