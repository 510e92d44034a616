/** Messages, events and state of the quick markets. */

import assert from 'node:assert/strict'
import type { Observation } from '#domain/asset-price.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Matching } from '#domain/market.ts'
import type { Outcome } from '#domain/order.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import type {
  Mark,
  QuickChainStage,
  QuickMarket,
  QuickResolution,
  QuickTerms,
} from '#domain/quick-market.ts'
import type { Context } from '#runtime/actor.ts'

export type QuickMarketsProtocol = {
  /** A report of a trusted source. */
  Observed: { takes: { observation: Observation }; answers: undefined }
  /**
   * Reports that a source's report cannot become a mark, because it was refused or unreadable. `observation` is the
   * refused report; undefined if the report was unreadable.
   */
  Missed: {
    takes: { source: PriceSource; observation: Observation | undefined }
    answers: undefined
  }
  SpeakerChanged: {
    takes: { asset: string; source: PriceSource | undefined }
    answers: undefined
  }
  Tick: { takes: object; answers: undefined }
  HistoryRead: { takes: Asked & { observation: Observation | undefined }; answers: undefined }
  HistoryFailed: { takes: Asked & { why: string }; answers: undefined }
  Recorded: { takes: { quickMarket: QuickMarket }; answers: undefined }
  NotRecorded: { takes: { asset: string; boundarySec: number; why: string }; answers: undefined }
  StepDone: { takes: { marketId: MarketId; step: Step; txHash: string }; answers: undefined }
  StepFailed: { takes: { marketId: MarketId; step: Step; why: string }; answers: undefined }
  /** The database has recorded the decision: an outcome, or that the market is contested. */
  Decided: { takes: { quickMarket: QuickMarket }; answers: undefined }
  /** The oracle's outcome of a contested market; undefined while there is none. */
  OracleAsked: {
    takes: { marketId: MarketId; outcome: Outcome | undefined }
    answers: undefined
  }
  MarksWritten: { takes: { count: number }; answers: undefined }
  MarksNotWritten: { takes: { why: string }; answers: undefined }
}

export type QuickMarketsEvent =
  /** The market can be traded. Emitted again after a restart. */
  | { readonly type: 'QuickMarketOpened'; readonly quickMarket: QuickMarket; readonly atMs: number }
  | {
      /**
       * Prices have decided the market, or the market is contested and the oracle will decide it. Emitted again if a
       * restart lost the answer of the database.
       */
      readonly type: 'QuickMarketResolved' | 'QuickMarketContested'
      readonly quickMarket: QuickMarket
      readonly atMs: number
    }

export type Asked = {
  readonly asset: string
  readonly source: PriceSource
  readonly boundarySec: number
}

export type QuickMarketsOptions = {
  readonly assets: readonly string[]
  /** The sources of prices: the primary first, then the fallbacks in the order in which they decide. */
  readonly sources: readonly PriceSource[]
  readonly intervalSec: number
  readonly chainId: number
  /** Matching rule of markets that are recorded from now on, such as `complementary`. */
  readonly matching: Matching
  /** Maximum time from a boundary to an observation that counts for the boundary. */
  readonly withinMs: number
  /**
   * Maximum gap from a source's last report before a boundary to the boundary, and from the boundary to the source's
   * next report. If one of these gaps is longer, a report may have been missed, so the mark is not exact.
   */
  readonly gapMs: number
  /**
   * Time after a boundary in which a source may still push its report. After that time, the source's history is
   * requested.
   */
  readonly patienceMs: number
  /**
   * Time after a boundary from which weaker marks are accepted. From then on, an inexact mark counts if the source's
   * history has no better one. A market also opens with the mark of another source if the active source has none.
   */
  readonly graceMs: number
  /** Time after the end of a market from which a fallback may decide it. */
  readonly ownMs: number
  /** Minimum remaining time until a market's end. With less time left, the market is not opened. */
  readonly remainingMsMin: number
  /**
   * Pause after the end of a market before its outcome is reported: the chain rejects a report before the end, and the
   * chain's clock may be behind ours.
   */
  readonly reportAfterMs: number
  /** Maximum difference between the prices of two sources that agree, as a share. */
  readonly deviationMax: number
  /**
   * Limit for the difference of two price moves, in basis points. A source contradicts the judged source (whose prices
   * would decide the market) if it moved in the opposite direction and the difference exceeds this limit. A market can
   * become contested if at least as many sources contradict the judged source as support it.
   */
  readonly agreementBps: number
  /** First pause between two attempts. The pause doubles each time, up to `retryMsMax`. */
  readonly retryMs: number
  readonly retryMsMax: number
}

/**
 * Functions that quick markets need from other modules. Each call can be repeated; its promise resolves when the work
 * is done.
 */
export type QuickMarketsPorts = {
  readonly predict: (terms: {
    readonly asset: string
    readonly startSec: number
    readonly intervalSec: number
  }) => { readonly marketId: MarketId; readonly contractAddress: Address }
  readonly priceAt: (
    source: PriceSource,
    asset: string,
    atMs: number,
    withinMs: number,
  ) => Promise<Observation | undefined>
  readonly record: (terms: QuickTerms) => Promise<QuickMarket>
  readonly decide: (decided: {
    readonly chainId: number
    readonly marketId: MarketId
    readonly resolution: QuickResolution
    readonly atMs: number
  }) => Promise<QuickMarket>
  /**
   * Records that the oracle must decide this market. Only the first record counts. From then on, the database refuses a
   * decision by prices.
   */
  readonly contest: (contested: {
    readonly chainId: number
    readonly marketId: MarketId
    readonly contested: QuickResolution
  }) => Promise<QuickMarket>
  readonly note: (noted: {
    readonly chainId: number
    readonly marketId: MarketId
    readonly onChain: QuickChainStage
    readonly createTxHash: string
    readonly reportTxHash: string
  }) => Promise<QuickMarket>
  readonly recordMarks: (batch: {
    readonly marks: readonly Mark[]
    readonly fromSec: number
  }) => Promise<unknown>
  /** Opens the quick market at its market thread. */
  readonly place: (quickMarket: QuickMarket) => Promise<unknown>
  /** Resolves the quick market at its market thread, so that winners can redeem. */
  readonly close: (quickMarket: QuickMarket) => Promise<unknown>
  /**
   * Creates the market on the chain. Resolves with the transaction hash after enough confirmations; '' if another
   * account created it.
   */
  readonly create: (quickMarket: QuickMarket) => Promise<string>
  readonly report: (quickMarket: QuickMarket) => Promise<string>
  /** Opens a contested market to proposals at the oracle; resolves with the transaction hash, like `report`. */
  readonly openToOracle: (quickMarket: QuickMarket) => Promise<string>
  /** Returns the outcome on the chain; undefined while the chain has none. */
  readonly outcomeOnChain: (quickMarket: QuickMarket) => Promise<Outcome | undefined>
}

/**
 * State of the attempts to read a source's history. `unknown` is true if the history has no price for the
 * requested time.
 */
export type Question = Attempts & { unknown: boolean }

export type Row = {
  quickMarket: QuickMarket
  placed: boolean
  closed: boolean
  /** A step that has finished on the chain and is not recorded in the database yet. */
  note: { onChain: QuickChainStage; createTxHash: string; reportTxHash: string } | undefined
  /** Outcome of a contested market, once the chain has it. */
  oracleOutcome: Outcome | undefined
  readonly attempts: Map<Step, Attempts>
}

/** Every step that a market may take on the chain. */
const CHAIN_STEPS: Readonly<Record<QuickChainStage, readonly QuickChainStage[]>> = {
  pending: ['created'],
  created: ['contested', 'reported'],
  contested: ['reported'],
  reported: [],
}

/**
 * Notes that a step has finished on the chain, so that it will be recorded. A step that is not in `CHAIN_STEPS` is a
 * bug.
 */
export function noteOnChain(
  row: Pick<Row, 'quickMarket' | 'note'>,
  onChain: QuickChainStage,
  txHash = '',
): void {
  const { onChain: from, marketId } = row.quickMarket
  assert(CHAIN_STEPS[from].includes(onChain), `${marketId} cannot go from ${from} to ${onChain}`)
  const isCreation = onChain === 'created'
  row.note = {
    onChain,
    createTxHash: isCreation ? txHash : '',
    reportTxHash: isCreation ? '' : txHash,
  }
}

export type AssetState = {
  readonly asset: string
  speaker: PriceSource | undefined
  /** Time of each source's last report, and number of the connection that delivered it. */
  readonly lastReports: Map<PriceSource, { atMs: number; line: number }>
  /** Marks (first reports of sources) by boundary, then by source. */
  readonly marks: Map<number, Map<PriceSource, Mark>>
  /** State of the requests to histories, by boundary and source. */
  readonly questions: Map<string, Question>
  /** Start of the newest market that is stored in the database. */
  recordedSec: number
  /**
   * The market that is being recorded. Until the database answers, it is unknown whether the database has the market.
   */
  begun: QuickTerms | undefined
  readonly recording: Attempts
}

export type QuickMarketsState = {
  readonly options: QuickMarketsOptions
  readonly ports: QuickMarketsPorts
  readonly assets: ReadonlyMap<string, AssetState>
  readonly rows: Map<MarketId, Row>
  marksWaiting: Mark[]
  marksWriting: number
  marksAtMs: number
  /** The last failure, for logs; '' if there was none. */
  trouble: string
}

export type QuickContext = Context<QuickMarketsProtocol, QuickMarketsEvent>

export type Attempts = { pending: boolean; failures: number; nextAtMs: number }

/** Name of a step of one market. */
export type Step =
  | 'place'
  | 'create'
  | 'decide'
  | 'open to oracle'
  | 'ask oracle'
  | 'close'
  | 'report'
  | 'note'
