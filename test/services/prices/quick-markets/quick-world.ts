/** Quick markets with ports that the test controls: reports, histories, failures and restarts. */

import type { Observation } from '#domain/asset-price.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import type { Mark, QuickMarket } from '#domain/quick-market.ts'
import { serve } from '#runtime/serve.ts'
import { newQuickMarkets, quickMarkets } from '#services/prices/quick-markets/quick-markets.ts'
import type {
  QuickMarketsEvent,
  QuickMarketsOptions,
  QuickMarketsProtocol,
  QuickMarketsState,
} from '#services/prices/quick-markets/state.ts'
import { simulatedClock } from '../../../support/simulated-clock.ts'

export const START_SEC = 1_800_000_000
const INTERVAL_SEC = 900

export const OPTIONS: QuickMarketsOptions = {
  assets: ['BTC'],
  sources: PRICE_SOURCES,
  intervalSec: INTERVAL_SEC,
  chainId: 31_337,
  matching: 'same-outcome',
  withinMs: 60_000,
  gapMs: 5_000,
  patienceMs: 2_000,
  graceMs: 60_000,
  ownMs: 600_000,
  remainingMsMin: 60_000,
  reportAfterMs: 2_000,
  deviationMax: 0.01,
  agreementBps: 10,
  retryMs: 1_000,
  retryMsMax: 30_000,
}

export type World = {
  /** Prices in the providers' histories, in USD, by source and second; `away` if a history cannot be read. */
  readonly past: Map<string, number | 'away'>
  readonly rows: Map<MarketId, QuickMarket>
  /** Decisions of the oracle. */
  readonly oracle: Map<MarketId, Outcome>
  readonly events: QuickMarketsEvent[]
  readonly calls: string[]
  /** Steps that fail. */
  readonly broken: Set<string>
  /** Names of steps that are carried out but throw, as if their answer was lost. */
  readonly unanswered: Set<string>
  say(source: PriceSource, usd: number, fields?: Partial<Observation>): Promise<void>
  /**
   * Tells the market that the feed rejected a report of this source. The rejected report has the current time, unless
   * `fields` has another. Without `usd`, the report was unreadable.
   */
  miss(source: PriceSource, usd?: number, fields?: Partial<Observation>): Promise<void>
  speaker(source: PriceSource | undefined): Promise<void>
  /** Advances the time, one second at a time. */
  pass(seconds: number): Promise<void>
  /** Delivers these prices each second, until this many seconds after the start. */
  until(second: number, prices: Partial<Record<PriceSource, number>>): Promise<void>
  /**
   * The matching rule of each step that opened a market, in order. `book complementary` is an opened book, and `chain
   * complementary` a created contract.
   */
  readonly rules: string[]
  /** Restarts with only the stored records, and with other settings if given. */
  restart(changed?: Partial<QuickMarketsOptions>): void
  market(): QuickMarket | undefined
}

export function world(beforeStartSec = 10): World {
  const clock = simulatedClock((START_SEC - beforeStartSec) * 1_000)
  const past: World['past'] = new Map()
  const rows: World['rows'] = new Map()
  const oracle: World['oracle'] = new Map()
  const marks: Mark[] = []
  const events: QuickMarketsEvent[] = []
  const calls: string[] = []
  const broken = new Set<string>()
  const unanswered = new Set<string>()
  const rules: string[] = []
  let options = OPTIONS
  const idOf = (startSec: number) => `0x${startSec.toString(16).padStart(64, '0')}` as MarketId
  const doing = async <T>(name: string, work: () => T): Promise<T> => {
    calls.push(name)
    if (broken.has(name)) throw new Fault('AWAY', `${name} is away`, { retryable: true })
    const answer = work()
    if (unanswered.has(name)) throw new Fault('AWAY', `${name} is late`, { retryable: true })
    return answer
  }
  const change = (marketId: MarketId, fields: Partial<QuickMarket>): QuickMarket => {
    const changed = { ...rows.get(marketId)!, ...fields }
    rows.set(marketId, changed)
    return changed
  }
  const begin = () => {
    const state = newQuickMarkets(
      options,
      {
        predict: ({ startSec }) => ({
          marketId: idOf(startSec),
          contractAddress: idOf(startSec).slice(0, 42) as Address,
        }),
        async priceAt(source, asset, atMs) {
          calls.push(`history ${source} ${atMs / 1_000 - START_SEC}`)
          const known = past.get(`${source} ${atMs / 1_000 - START_SEC}`)
          if (known === 'away') throw new Fault('AWAY', 'away', { retryable: true })
          if (known === undefined) return undefined
          const fixed = { asset, source, via: 'history', line: 0, raw: 'past' } as const
          return { ...fixed, price: known * 1e8, atMs, receivedAtMs: clock.nowMs() }
        },
        record: (terms) =>
          doing('record', () => {
            const present = rows.get(terms.marketId)
            if (present !== undefined) return present
            const row: QuickMarket = {
              ...terms,
              ...{ id: rows.size + 1, contested: null, resolution: null, resolvedAtMs: null },
              ...{ createTxHash: '', reportTxHash: '', onChain: 'pending' },
            }
            rows.set(terms.marketId, row)
            return row
          }),
        decide: ({ marketId, resolution, atMs }) =>
          doing('decide', () => {
            const present = rows.get(marketId)!
            if (present.resolution !== null) return present
            if (present.contested !== null && !resolution.byOracle) return present
            return change(marketId, { resolution, resolvedAtMs: atMs })
          }),
        contest: ({ marketId, contested }) =>
          doing('contest', () => {
            const present = rows.get(marketId)!
            if (present.resolution !== null || present.contested !== null) return present
            return change(marketId, { contested })
          }),
        note: ({ marketId, onChain }) => doing('note', () => change(marketId, { onChain })),
        recordMarks: async (batch) => void marks.push(...batch.marks),
        place: ({ matching }) =>
          doing('place', () => void rules.push(`book ${matching ?? 'same-outcome'}`)),
        close: () => doing('close', () => undefined),
        create: ({ matching }) =>
          doing('create', () => {
            rules.push(`chain ${matching ?? 'same-outcome'}`)
            return `0x${'11'.repeat(32)}`
          }),
        report: () => doing('report', () => `0x${'22'.repeat(32)}`),
        openToOracle: () => doing('open to oracle', () => `0x${'33'.repeat(32)}`),
        outcomeOnChain: ({ marketId }) => doing('ask oracle', () => oracle.get(marketId)),
      },
      { unfinished: [...rows.values()].filter(({ onChain }) => onChain !== 'reported'), marks },
    )
    return serve<QuickMarketsState, QuickMarketsProtocol, QuickMarketsEvent>({
      behaviour: quickMarkets,
      select: () => ({ state }),
      clock,
      mailboxMax: 1_000,
      batchMax: 100,
      full: undefined,
      say: (said) => events.push(...said),
    })
  }
  let served = begin()
  const settle = async (): Promise<void> => {
    do await new Promise((resolve) => setImmediate(resolve))
    while (served.waiting > 0)
    await served.drained()
  }
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      clock.advance(1_000)
      served.hear('Tick', {}, 0, undefined)
      await settle()
    }
  }
  const reported = (source: PriceSource, usd: number, fields: Partial<Observation> = {}) => {
    const nowMs = clock.nowMs()
    const fixed = { asset: 'BTC', source, via: 'stream', line: 1, raw: 'pushed' } as const
    return { ...fixed, price: usd * 1e8, atMs: nowMs, receivedAtMs: nowMs, ...fields }
  }
  const say: World['say'] = async (source, usd, fields) => {
    served.hear('Observed', { observation: reported(source, usd, fields) }, 0, undefined)
    await settle()
  }
  const miss: World['miss'] = async (source, usd, fields) => {
    const observation = usd === undefined ? undefined : reported(source, usd, fields)
    served.hear('Missed', { source, observation }, 0, undefined)
    await settle()
  }
  return {
    ...{ past, rows, oracle, events, calls, rules, broken, unanswered, say, miss, pass },
    async speaker(source) {
      served.hear('SpeakerChanged', { asset: 'BTC', source }, 0, undefined)
      await settle()
    },
    async until(second, prices) {
      while (clock.nowMs() < (START_SEC + second) * 1_000) {
        await pass(1)
        for (const [source, usd] of Object.entries(prices)) await say(source as PriceSource, usd)
      }
    },
    restart(changed = {}) {
      options = { ...options, ...changed }
      served = begin()
    },
    market: () => rows.get(idOf(START_SEC)),
  }
}
