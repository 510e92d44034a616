/** What the quick markets hear, say and remember. */

import type { Observation, PriceSource } from '#domain/asset-price.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import type {
  Mark,
  QuickChainStage,
  QuickMarket,
  QuickResolution,
  QuickTerms,
} from '#domain/quick-market.ts'
import type { Context } from '#runtime/actor.ts'

export type QuickMarketsProtocol = {
  /** A report of a source that is believed. */
  Observed: { takes: { observation: Observation }; answers: undefined }
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
  /** What the oracle decided about a contested market; undefined while it has not. */
  OracleAsked: {
    takes: { marketId: MarketId; outcome: Outcome | undefined }
    answers: undefined
  }
  MarksWritten: { takes: { count: number }; answers: undefined }
  MarksNotWritten: { takes: { why: string }; answers: undefined }
}

export type QuickMarketsEvent =
  /** It can be traded. Told again after a restart. */
  | { readonly type: 'QuickMarketOpened'; readonly quickMarket: QuickMarket; readonly atMs: number }
  | {
      /** The oracle decides the market, not prices. Emitted again if a restart lost the answer. */
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
  /** An observation later than this after a boundary is none of that boundary. */
  readonly withinMs: number
  /** A source that said nothing for longer than this before a boundary may have missed something. */
  readonly gapMs: number
  /** How long after a boundary a source's own push is waited for before its history is asked. */
  readonly patienceMs: number
  /**
   * From then on after a boundary a mark that is not exact is taken if the history has none, and a
   * market whose speaker has no mark at all opens with that of another source.
   */
  readonly graceMs: number
  /** From then on after its end a market may be decided by a fallback. */
  readonly ownMs: number
  /** A market opens only if it still has this long to go. */
  readonly remainingMsMin: number
  /** The chain takes no outcome before the end, and its clock may be behind ours. */
  readonly reportAfterMs: number
  /** How far sources may be apart. */
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

/** Everything outside; each resolves when it is done, and can be asked again. */
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
  /** Opens it at its market actor. */
  readonly place: (quickMarket: QuickMarket) => Promise<unknown>
  /** Tells its market actor that it is resolved: its winners can redeem. */
  readonly close: (quickMarket: QuickMarket) => Promise<unknown>
  /** Both answer the hash of the transaction, once it counts; '' when it was another's. */
  readonly create: (quickMarket: QuickMarket) => Promise<string>
  readonly report: (quickMarket: QuickMarket) => Promise<string>
  /** Opens a contested market to proposals at the oracle; answers like `report`. */
  readonly openToOracle: (quickMarket: QuickMarket) => Promise<string>
  /** The outcome that the chain has; undefined while it has none. */
  readonly outcomeOnChain: (quickMarket: QuickMarket) => Promise<Outcome | undefined>
}

/** `unknown` when the history said that it has none. */
export type Question = Attempts & { unknown: boolean }

export type Row = {
  quickMarket: QuickMarket
  placed: boolean
  closed: boolean
  /** What a finished step of the chain has to be noted as. */
  note: { onChain: QuickChainStage; createTxHash: string; reportTxHash: string } | undefined
  /** Of a contested market, once the chain has it. */
  oracleOutcome: Outcome | undefined
  readonly attempts: Map<Step, Attempts>
}

export type AssetState = {
  readonly asset: string
  speaker: PriceSource | undefined
  /** By source: when and over which connection it was last heard. */
  readonly heard: Map<PriceSource, { atMs: number; line: number }>
  /** By boundary, then by source. */
  readonly marks: Map<number, Map<PriceSource, Mark>>
  /** Questions to histories, by boundary and source. */
  readonly questions: Map<string, Question>
  /** The start of the newest market that is recorded. */
  recordedSec: number
  /** The market that is being recorded: until an answer comes it may be recorded or not. */
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
  /** What last went wrong, for logs; '' when nothing did. */
  trouble: string
}

export type QuickContext = Context<QuickMarketsProtocol, QuickMarketsEvent>

export type Attempts = { pending: boolean; failures: number; nextAtMs: number }

/** What is done for one market besides deciding it. */
export type Step =
  | 'place'
  | 'create'
  | 'decide'
  | 'open to oracle'
  | 'ask oracle'
  | 'close'
  | 'report'
  | 'note'
