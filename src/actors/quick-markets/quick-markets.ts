/**
 * Opens a market per asset at every boundary of the clock and decides it at the next one.
 *
 * The conversation of one market:
 *   boundary -> strike found -> recorded -> placed at its market actor -> created on chain
 *   next boundary -> end price found -> decided (recorded) -> reported on chain -> closed -> done
 *
 * A mark is what a source reported first at or after a boundary. It is exact when nothing can have come
 * before it: it was pushed without a gap over the boundary, or the provider's history told it. The
 * strike is the mark of whoever speaks at the start; it never changes. The end is the mark of the same
 * source. If that source cannot give one that is believable within `ownMs` after the end, the first
 * fallback with marks of both boundaries decides, comparing its own two prices. A mark is not
 * believable while other sources have marks of that boundary and none is near it. There is no void:
 * without prices a market stays undecided, and is tried again for ever.
 *
 * Everything that was decided is recorded before anything follows from it, and every step can be taken
 * twice, so a restart at any point goes on where it was.
 */

import type { Observation, PriceSource } from '#domain/asset-price.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import {
  endSecOf,
  type Mark,
  type QuickChainStage,
  type QuickMarket,
  type QuickResolution,
  type QuickTerms,
} from '#domain/quick-market.ts'
import type { Behaviour, Context } from '#runtime/actor.ts'
import { type Attempts, failed, fresh } from './attempts.ts'
import { forget, keepMark, markFields, markOf, questionKey, writeMarks } from './marks.ts'
import { advance, look, open, type Step } from './steps.ts'

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
  Decided: { takes: { quickMarket: QuickMarket }; answers: undefined }
  MarksWritten: { takes: { count: number }; answers: undefined }
  MarksNotWritten: { takes: { why: string }; answers: undefined }
}

export type QuickMarketsEvent =
  /** It can be traded. Told again after a restart. */
  | { readonly type: 'QuickMarketOpened'; readonly quickMarket: QuickMarket; readonly atMs: number }
  | {
      readonly type: 'QuickMarketResolved'
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
}

/** `unknown` when the history said that it has none. */
export type Question = Attempts & { unknown: boolean }

export type Row = {
  quickMarket: QuickMarket
  placed: boolean
  closed: boolean
  /** What a finished step of the chain has to be noted as. */
  note: { onChain: QuickChainStage; createTxHash: string; reportTxHash: string } | undefined
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
  /** The start of the newest market that is recorded, and of the one that is being recorded. */
  recordedSec: number
  recordingSec: number
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

export function newQuickMarkets(
  options: QuickMarketsOptions,
  ports: QuickMarketsPorts,
  recorded: { readonly unfinished: readonly QuickMarket[]; readonly marks: readonly Mark[] },
): QuickMarketsState {
  const assets = new Map<string, AssetState>()
  for (const asset of options.assets) {
    assets.set(asset, {
      asset,
      speaker: undefined,
      heard: new Map(),
      marks: new Map(),
      questions: new Map(),
      recordedSec: 0,
      recordingSec: 0,
      recording: fresh(),
    })
  }
  const rows = new Map<MarketId, Row>()
  for (const quickMarket of recorded.unfinished) {
    rows.set(quickMarket.marketId, newRow(quickMarket))
    const known = assets.get(quickMarket.asset)
    if (known !== undefined && quickMarket.intervalSec === options.intervalSec) {
      known.recordedSec = Math.max(known.recordedSec, quickMarket.startSec)
    }
  }
  for (const mark of recorded.marks) {
    const known = assets.get(mark.asset)
    if (known !== undefined) keepMark(known, mark)
  }
  return {
    ...{ options, ports, assets, rows },
    marksWaiting: [],
    marksWriting: 0,
    marksAtMs: 0,
    trouble: '',
  }
}

/** Those that can be traded now, for a reader that has just come. */
export function activeOf(state: QuickMarketsState, nowMs: number): QuickMarket[] {
  const active: QuickMarket[] = []
  for (const { quickMarket, placed } of state.rows.values()) {
    const hasBegun = quickMarket.startSec * 1_000 <= nowMs
    if (placed && hasBegun && nowMs < endSecOf(quickMarket) * 1_000) active.push(quickMarket)
  }
  return active
}

function newRow(quickMarket: QuickMarket): Row {
  return { quickMarket, placed: false, closed: false, note: undefined, attempts: new Map() }
}

export const quickMarkets: Behaviour<QuickMarketsState, QuickMarketsProtocol, QuickMarketsEvent> = {
  Observed(state, { observation }, context) {
    const known = state.assets.get(observation.asset)
    if (known === undefined) return undefined
    if (markOf(state, known, observation)) look(state, known, context)
    return undefined
  },

  SpeakerChanged(state, { asset, source }, context) {
    const known = state.assets.get(asset)
    if (known === undefined) return undefined
    known.speaker = source
    look(state, known, context)
    return undefined
  },

  Tick(state, _message, context) {
    for (const known of state.assets.values()) {
      open(state, known, context)
      forget(state, known, context.nowMs)
    }
    for (const row of state.rows.values()) advance(state, row, context)
    writeMarks(state, context)
    return undefined
  },

  HistoryTold(state, { observation, ...asked }, context) {
    const known = state.assets.get(asked.asset)
    const question = known?.questions.get(questionKey(asked))
    if (known === undefined || question === undefined) return undefined
    // Should the answer not be believable, it is asked for again, later each time.
    failed(state, question, context, '')
    question.unknown = observation === undefined
    if (observation !== undefined) {
      const mark = { ...markFields(observation, asked.boundarySec), exact: true }
      keepMark(known, mark)
      state.marksWaiting.push(mark)
      look(state, known, context)
    }
    return undefined
  },

  HistoryFailed(state, { why, ...asked }, context) {
    const question = state.assets.get(asked.asset)?.questions.get(questionKey(asked))
    if (question !== undefined) failed(state, question, context, why)
    return undefined
  },

  Recorded(state, { quickMarket }, context) {
    const known = state.assets.get(quickMarket.asset)
    if (known === undefined) return undefined
    Object.assign(known.recording, fresh())
    known.recordedSec = Math.max(known.recordedSec, quickMarket.startSec)
    const row = newRow(quickMarket)
    state.rows.set(quickMarket.marketId, row)
    advance(state, row, context)
    return undefined
  },

  NotRecorded(state, { asset, why }, context) {
    const known = state.assets.get(asset)
    if (known !== undefined) failed(state, known.recording, context, why)
    return undefined
  },

  Decided(state, { quickMarket }, context) {
    const row = state.rows.get(quickMarket.marketId)
    if (row === undefined) return undefined
    row.attempts.delete('decide')
    row.quickMarket = quickMarket
    context.emit({ type: 'QuickMarketResolved', quickMarket, atMs: context.nowMs })
    advance(state, row, context)
    return undefined
  },

  StepDone(state, { marketId, step, txHash }, context) {
    const row = state.rows.get(marketId)
    if (row === undefined) return undefined
    row.attempts.delete(step)
    const { quickMarket } = row
    if (step === 'place') {
      row.placed = true
      const isOpen = context.nowMs < endSecOf(quickMarket) * 1_000
      if (isOpen) context.emit({ type: 'QuickMarketOpened', quickMarket, atMs: context.nowMs })
    } else if (step === 'close') row.closed = true
    else if (step === 'create') {
      row.note = { onChain: 'created', createTxHash: txHash, reportTxHash: '' }
    } else if (step === 'report') {
      row.note = { onChain: 'reported', createTxHash: '', reportTxHash: txHash }
    } else if (step === 'note' && row.note !== undefined) {
      const { onChain, createTxHash, reportTxHash } = row.note
      row.quickMarket = {
        ...quickMarket,
        onChain,
        createTxHash: createTxHash || quickMarket.createTxHash,
        reportTxHash: reportTxHash || quickMarket.reportTxHash,
      }
      row.note = undefined
    }
    advance(state, row, context)
    return undefined
  },

  StepFailed(state, { marketId, step, why }, context) {
    const attempts = state.rows.get(marketId)?.attempts.get(step)
    if (attempts !== undefined) failed(state, attempts, context, `${step}: ${why}`)
    return undefined
  },

  MarksWritten(state, { count }) {
    state.marksWaiting.splice(0, count)
    state.marksWriting = 0
    return undefined
  },

  MarksNotWritten(state, { why }) {
    state.marksWriting = 0
    state.trouble = why
    return undefined
  },
}
