/**
 * Opens a market per asset at every boundary of the clock and decides it at the next boundary.
 *
 * Stages of one market:
 *   boundary -> strike found -> recorded -> placed at its market actor -> created on chain
 *   next boundary -> end price found -> decided (recorded) -> reported on chain -> closed -> done
 *                 -> contested (recorded) -> opened to the oracle -> the oracle decides -> closed -> done
 *
 * A mark is the first report of a source at or after a boundary. A mark is exact if no earlier report is possible: it
 * was pushed without a gap over the boundary, or it comes from the provider's history. A mark is not reliable if other
 * sources have marks of the same boundary, and all of these differ too much from the mark.
 *
 * The strike is the mark of the active source at the start, and it never changes. The end price is the mark of the same
 * source at the end. If more sources support the direction of this price move than oppose it, the end price decides.
 * Otherwise the average of that source before the end decides, or the market goes to the oracle. It goes to the oracle
 * if two conditions are true. The average confirms the move, and too many sources contradict the move by more than
 * `agreementBps` (`verdicts.ts`). If the source has no reliable mark within `ownMs` after the end, the first fallback
 * with marks of both boundaries is judged by these two prices. Markets are never void: while prices are missing, the
 * market stays undecided, and the decision is retried.
 *
 * Every decision is recorded before the steps that depend on it, and every step can be repeated. So after a restart at
 * any point, the market continues from that point.
 */

import type { MarketId } from '#domain/ids.ts'
import { endSecOf, type Mark, type QuickMarket } from '#domain/quick-market.ts'
import type { Behaviour } from '#runtime/actor.ts'
import { failed, fresh } from './attempts.ts'
import {
  forget,
  keepMark,
  markFields,
  markOf,
  noteMissed,
  questionKey,
  writeMarks,
} from './marks.ts'
import {
  type AssetState,
  noteOnChain,
  type QuickMarketsEvent,
  type QuickMarketsOptions,
  type QuickMarketsPorts,
  type QuickMarketsProtocol,
  type QuickMarketsState,
  type Row,
} from './state.ts'
import { advance, look, open } from './steps.ts'

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
      lastReports: new Map(),
      marks: new Map(),
      questions: new Map(),
      recordedSec: 0,
      begun: undefined,
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

/** Returns the markets that can be traded now, for a newly linked front. */
export function activeOf(state: QuickMarketsState, nowMs: number): QuickMarket[] {
  const active: QuickMarket[] = []
  for (const { quickMarket, placed } of state.rows.values()) {
    const hasBegun = quickMarket.startSec * 1_000 <= nowMs
    if (placed && hasBegun && nowMs < endSecOf(quickMarket) * 1_000) active.push(quickMarket)
  }
  return active
}

function newRow(quickMarket: QuickMarket): Row {
  const begun = { placed: false, closed: false, note: undefined, oracleOutcome: undefined }
  return { quickMarket, ...begun, attempts: new Map() }
}

export const quickMarkets: Behaviour<QuickMarketsState, QuickMarketsProtocol, QuickMarketsEvent> = {
  Observed(state, { observation }, context) {
    const known = state.assets.get(observation.asset)
    if (known === undefined) return undefined
    if (markOf(state, known, observation)) look(state, known, context)
    return undefined
  },

  Missed(state, missed) {
    for (const known of state.assets.values()) noteMissed(known, missed)
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

  HistoryRead(state, { observation, ...asked }, context) {
    const known = state.assets.get(asked.asset)
    const question = known?.questions.get(questionKey(asked))
    if (known === undefined || question === undefined) return undefined
    // Count this answer as a failed attempt, even if it has a price: the price may not give a reliable mark. In that
    // case, the history is requested again after a growing pause.
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
    known.begun = undefined
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
    const type = quickMarket.resolution === null ? 'QuickMarketContested' : 'QuickMarketResolved'
    context.emit({ type, quickMarket, atMs: context.nowMs })
    advance(state, row, context)
    return undefined
  },

  OracleAsked(state, { marketId, outcome }, context) {
    const row = state.rows.get(marketId)
    const attempts = row?.attempts.get('ask oracle')
    if (row === undefined || attempts === undefined) return undefined
    // If the oracle has not decided yet, ask the chain again with growing pauses.
    if (outcome === undefined) failed(state, attempts, context, '')
    else row.oracleOutcome = outcome
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
    else if (step === 'create') noteOnChain(row, 'created', txHash)
    else if (step === 'report') noteOnChain(row, 'reported', txHash)
    else if (step === 'open to oracle') noteOnChain(row, 'contested', txHash)
    else if (step === 'note' && row.note !== undefined) {
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
