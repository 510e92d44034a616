/** Steps of a quick market, from its opening to its end. Each step starts as soon as it is possible. */

import { QUICK_MARKETS_UNFINISHED_MAX } from '#domain/limits.ts'
import type { Outcome } from '#domain/order.ts'
import { boundaryAt, endSecOf, type QuickMarket, type QuickTerms } from '#domain/quick-market.ts'
import type { Message } from '#runtime/actor.ts'
import { fresh, messageOf } from './attempts.ts'
import {
  type AssetState,
  noteOnChain,
  type QuickContext,
  type QuickMarketsProtocol,
  type QuickMarketsState,
  type Row,
  type Step,
} from './state.ts'
import { strikeOf, verdictOn } from './verdicts.ts'

/** Opens or decides markets of an asset, if a new report of the asset makes this possible. */
export function look(state: QuickMarketsState, known: AssetState, context: QuickContext): void {
  open(state, known, context)
  for (const row of state.rows.values()) {
    if (row.quickMarket.asset === known.asset) advance(state, row, context)
  }
}

/**
 * Opens the market of the current interval once its strike is known. If the database does not answer, repeats the
 * recording until it succeeds. The market may already be recorded, and every recorded market must be decided later.
 */
export function open(state: QuickMarketsState, known: AssetState, context: QuickContext): void {
  const { recording } = known
  if (recording.pending || recording.nextAtMs > context.nowMs) return
  const terms = known.begun ?? nextTerms(state, known, context)
  if (terms === undefined) return
  const { asset, startSec } = terms
  known.begun = terms
  recording.pending = true
  context.pipe(
    state.ports.record(terms),
    (quickMarket) => ({ type: 'Recorded', message: { quickMarket } }),
    (error) => ({
      type: 'NotRecorded',
      message: { asset, boundarySec: startSec, why: String(error) },
    }),
  )
}

/** Returns the terms of the current interval's market; undefined if the market cannot open now. */
function nextTerms(
  state: QuickMarketsState,
  known: AssetState,
  context: QuickContext,
): QuickTerms | undefined {
  const { options, ports } = state
  const { intervalSec, chainId, matching } = options
  const { asset, speaker } = known
  const startSec = boundaryAt(context.nowMs, intervalSec)
  if (known.recordedSec >= startSec || speaker === undefined) return undefined
  if (state.rows.size >= QUICK_MARKETS_UNFINISHED_MAX) return undefined
  const remainingMs = (startSec + intervalSec) * 1_000 - context.nowMs
  if (remainingMs < options.remainingMsMin) return undefined
  const strike = strikeOf(state, known, { speaker, startSec }, context)
  if (strike === undefined) return undefined
  const place = ports.predict({ asset, startSec, intervalSec })
  const fixed = { chainId, asset, startSec, intervalSec, strike }
  const rule = matching === 'complementary' ? { matching } : {}
  return { ...place, ...fixed, createdAtMs: context.nowMs, ...rule }
}

/** Starts every step of a market that is possible now. */
export function advance(state: QuickMarketsState, row: Row, context: QuickContext): void {
  const { ports } = state
  const { quickMarket, note } = row
  const { marketId, chainId, onChain, resolution, contested } = quickMarket
  const step = (name: Step, work: () => Promise<unknown>): void =>
    take(
      row,
      {
        name,
        work,
        done: (answer) => ({
          type: 'StepDone',
          message: { marketId, step: name, txHash: typeof answer === 'string' ? answer : '' },
        }),
      },
      context,
    )
  if (!row.placed) step('place', () => ports.place(quickMarket))
  if (note !== undefined) {
    // Close the market, so that its winners can redeem, before the database records the last step. After that record, a
    // restart no longer loads the market, so it would never be closed.
    const isLast = note.onChain === 'reported'
    if (isLast && row.placed && !row.closed) step('close', () => ports.close(quickMarket))
    if (!isLast || row.closed) step('note', () => ports.note({ chainId, marketId, ...note }))
    return
  }
  if (onChain === 'pending') step('create', () => ports.create(quickMarket))
  if (resolution === null && context.nowMs >= endSecOf(quickMarket) * 1_000) {
    decide(state, row, context)
  }
  const isDue = context.nowMs >= endSecOf(quickMarket) * 1_000 + state.options.reportAfterMs
  if (onChain === 'created' && isDue) {
    if (resolution !== null) step('report', () => ports.report(quickMarket))
    else if (contested !== null) step('open to oracle', () => ports.openToOracle(quickMarket))
  }
  if (onChain === 'contested') awaitOracle(state, row, context)
  if (onChain === 'reported' && row.closed) state.rows.delete(marketId)
}

/**
 * Decides the market by its prices, or records that it is contested. From then on, only the oracle's outcome decides a
 * contested market.
 */
function decide(state: QuickMarketsState, row: Row, context: QuickContext): void {
  const { chainId, marketId, contested } = row.quickMarket
  const key = { chainId, marketId }
  const atMs = context.nowMs
  let work: Task['work']
  if (contested === null) {
    const verdict = verdictOn(state, row.quickMarket, context)
    if (verdict === undefined) return
    const { resolution } = verdict
    work = verdict.isContested
      ? () => state.ports.contest({ ...key, contested: resolution })
      : () => state.ports.decide({ ...key, resolution, atMs })
  } else {
    const { oracleOutcome: outcome } = row
    if (outcome === undefined) return
    const resolution = { ...contested, outcome, byOracle: true } as const
    work = () => state.ports.decide({ ...key, resolution, atMs })
  }
  const done = (quickMarket: unknown): Message<QuickMarketsProtocol> => ({
    type: 'Decided',
    message: { quickMarket: quickMarket as QuickMarket },
  })
  take(row, { name: 'decide', work, done }, context)
}

/**
 * Asks the chain, with growing pauses, whether the oracle has decided. Once the database has stored the oracle's
 * decision, notes that the market is `reported` on the chain.
 */
function awaitOracle(state: QuickMarketsState, row: Row, context: QuickContext): void {
  const { quickMarket } = row
  if (quickMarket.resolution !== null) {
    noteOnChain(row, 'reported')
    advance(state, row, context)
    return
  }
  if (row.oracleOutcome !== undefined) return
  const { marketId } = quickMarket
  const task: Task = {
    name: 'ask oracle',
    work: () => state.ports.outcomeOnChain(quickMarket),
    done: (outcome) => ({
      type: 'OracleAsked',
      message: { marketId, outcome: outcome as Outcome | undefined },
    }),
  }
  take(row, task, context)
}

type Task = {
  readonly name: Step
  readonly work: () => Promise<unknown>
  readonly done: (answer: unknown) => Message<QuickMarketsProtocol>
}

/** Starts a step unless it is in progress, or has failed and must wait. */
function take(row: Row, { name, work, done }: Task, context: QuickContext): void {
  const attempts = row.attempts.get(name) ?? fresh()
  if (attempts.pending || attempts.nextAtMs > context.nowMs) return
  attempts.pending = true
  row.attempts.set(name, attempts)
  const { marketId } = row.quickMarket
  context.pipe(work(), done, (error) => ({
    type: 'StepFailed',
    message: { marketId, step: name, why: messageOf(error) },
  }))
}
