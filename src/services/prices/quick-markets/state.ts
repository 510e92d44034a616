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
  /** A report that does not count: refused, or unreadable if undefined. */
  Missed: {
    takes: { source: PriceSource; observation: Observation | undefined }
    answers: undefined
  }
  SpeakerChanged: {
    takes: { asset: string; source: PriceSource | undefined }
    answers: undefined
  }
  Tick: { takes: object; answers: undefined }
  HistoryTold: { takes: Asked & { observation: Observation | undefined }; answers: undefined }
  HistoryFailed: { takes: Asked & { why: string }; answers: undefined }
  Recorded: { takes: { quickMarket: QuickMarket }; answers: undefined }
  NotRecorded: { takes: { asset: string; boundarySec: number; why: string }; answers: undefined }
  StepDone: { takes: { marketId: MarketId; step: Step; txHash: string }; answers: undefined }
  StepFailed: { takes: { marketId: MarketId; step: Step; why: string }; answers: undefined }
  /** Recorded: an outcome, or that the market is contested. */
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
      /** The oracle decides a contested market, not prices. Emitted again if a restart lost the answer. */
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
  /** The primary first: the order in which fallbacks decide. */
  readonly sources: readonly PriceSource[]
  readonly intervalSec: number
  readonly chainId: number
  /** Rule of markets that are recorded from now on. */
  readonly matching: Matching
  /** An observation later than this after a boundary does not count for it. */
  readonly withinMs: number
  /** A source that was silent for longer than this before a boundary may have missed a price. */
  readonly gapMs: number
  /** Time after a boundary to wait for a source's own push before its history is read. */
  readonly patienceMs: number
  /**
   * Two rules start at this time after a boundary. An inexact mark is accepted if the history has no better one. If the
   * active source has no mark, a market opens with the mark of another source.
   */
  readonly graceMs: number
  /** Time after its end from which a fallback may decide a market. */
  readonly ownMs: number
  /** A market opens only if at least this much time is left. */
  readonly remainingMsMin: number
  /** Pause after the end before the report: the chain rejects an earlier outcome, and its clock may be behind ours. */
  readonly reportAfterMs: number
  /** Maximum difference between sources. */
  readonly deviationMax: number
  /**
   * The largest difference between the moves of two sources, in basis points, at which one may decide against the
   * other.
   */
  readonly agreementBps: number
  /** Pauses between attempts: the first, doubled each time, up to the last. */
  readonly retryMs: number
  readonly retryMsMax: number
}

/** Functions from outside; each resolves when it is done, and can be repeated. */
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
  /** Records that the oracle must decide. The first record stays; from then on an outcome by prices is refused. */
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
  /** Opens the quick market at its market actor. */
  readonly place: (quickMarket: QuickMarket) => Promise<unknown>
  /** Resolves the quick market at its market actor, so that winners can redeem. */
  readonly close: (quickMarket: QuickMarket) => Promise<unknown>
  /** Resolves with the transaction hash after enough confirmations; '' if another account sent it. */
  readonly create: (quickMarket: QuickMarket) => Promise<string>
  readonly report: (quickMarket: QuickMarket) => Promise<string>
  /** Opens a contested market to proposals at the oracle; resolves like `report`. */
  readonly openToOracle: (quickMarket: QuickMarket) => Promise<string>
  /** Returns the outcome on the chain; undefined while there is none. */
  readonly outcomeOnChain: (quickMarket: QuickMarket) => Promise<Outcome | undefined>
}

/** `unknown` is true if the history has no price for it. */
export type Question = Attempts & { unknown: boolean }

export type Row = {
  quickMarket: QuickMarket
  placed: boolean
  closed: boolean
  /** A finished step on the chain that is still to be recorded. */
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

/** Notes a finished step on the chain, to be recorded. A step outside the table is a bug of the quick markets. */
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
  /** By source: time and connection of its last report. */
  readonly heard: Map<PriceSource, { atMs: number; line: number }>
  /** By boundary, then by source. */
  readonly marks: Map<number, Map<PriceSource, Mark>>
  /** Requests to histories, by boundary and source. */
  readonly questions: Map<string, Question>
  /** Start of the newest recorded market. */
  recordedSec: number
  /** The market that is being recorded; until the answer arrives it may be recorded or not. */
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

/** Work for one market besides deciding it. */
export type Step =
  | 'place'
  | 'create'
  | 'decide'
  | 'open to oracle'
  | 'ask oracle'
  | 'close'
  | 'report'
  | 'note'
