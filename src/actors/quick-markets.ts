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

import { deviation, type Observation, type PriceSource } from '#domain/asset-price.ts'
import { backoff } from '#domain/backoff.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { QUICK_MARKETS_UNFINISHED_MAX } from '#domain/limits.ts'
import {
  boundaryAt,
  endSecOf,
  type Mark,
  outcomeOf,
  type QuickChainStage,
  type QuickMarket,
  type QuickResolution,
  type QuickTerms,
} from '#domain/quick-market.ts'
import type { Behaviour, Context, Message } from '#runtime/actor.ts'

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

type Asked = {
  readonly asset: string
  readonly source: PriceSource
  readonly boundarySec: number
}

/** What is done for one market besides deciding it. */
const STEPS = ['place', 'create', 'decide', 'close', 'report', 'note'] as const
type Step = (typeof STEPS)[number]

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
export type QuickMarketsOutside = {
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

type Attempts = { pending: boolean; failures: number; nextAtMs: number }
/** `unknown` when the history said that it has none. */
type Question = Attempts & { unknown: boolean }

type Row = {
  quickMarket: QuickMarket
  placed: boolean
  closed: boolean
  /** What a finished step of the chain has to be noted as. */
  note: { onChain: QuickChainStage; createTxHash: string; reportTxHash: string } | undefined
  readonly attempts: Map<Step, Attempts>
}

type AssetState = {
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
  readonly outside: QuickMarketsOutside
  readonly assets: ReadonlyMap<string, AssetState>
  readonly rows: Map<MarketId, Row>
  marksWaiting: Mark[]
  marksWriting: number
  marksAtMs: number
  /** What last went wrong, for logs; '' when nothing did. */
  trouble: string
}

type QuickContext = Context<QuickMarketsProtocol, QuickMarketsEvent>

/** Boundaries whose marks are kept besides those that undecided markets need. */
const BOUNDARIES_KEPT = 4
const MARKS_WRITE_MS = 1_000
/** Marks that wait for the database; the histories of the providers have them, too. */
const MARKS_WAITING_MAX = 1_000
/** Marks are of no use any more after this; what decided a market is kept with it. */
const MARKS_KEPT_SEC = 2 * 86_400

const fresh = (): Attempts => ({ pending: false, failures: 0, nextAtMs: 0 })

export function newQuickMarkets(
  options: QuickMarketsOptions,
  outside: QuickMarketsOutside,
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
    ...{ options, outside, assets, rows },
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

/** Something about an asset is new: perhaps a market can open or be decided. */
function look(state: QuickMarketsState, known: AssetState, context: QuickContext): void {
  open(state, known, context)
  for (const row of state.rows.values()) {
    if (row.quickMarket.asset === known.asset) advance(state, row, context)
  }
}

/** Takes the first observation at or after a boundary; whether there is a new mark. */
function markOf(state: QuickMarketsState, known: AssetState, observation: Observation): boolean {
  const { intervalSec, withinMs, gapMs } = state.options
  const { source, atMs, line, via } = observation
  const before = known.heard.get(source)
  known.heard.set(source, { atMs, line })
  const boundarySec = boundaryAt(atMs, intervalSec)
  const boundaryMs = boundarySec * 1_000
  if (atMs - boundaryMs > withinMs) return false
  const present = known.marks.get(boundarySec)?.get(source)
  if (present !== undefined) return false
  const unbroken =
    via === 'stream' &&
    before !== undefined &&
    before.line === line &&
    before.atMs < boundaryMs &&
    before.atMs >= boundaryMs - gapMs &&
    atMs <= boundaryMs + gapMs
  const mark = { ...markFields(observation, boundarySec), exact: unbroken }
  keepMark(known, mark)
  state.marksWaiting.push(mark)
  return true
}

function markFields(observation: Observation, boundarySec: number): Omit<Mark, 'exact'> {
  const { asset, source, price, atMs, receivedAtMs, via, raw } = observation
  return { asset, source, boundarySec, price, atMs, receivedAtMs, via, raw }
}

function keepMark(known: AssetState, mark: Mark): void {
  let marks = known.marks.get(mark.boundarySec)
  if (marks === undefined) {
    marks = new Map()
    known.marks.set(mark.boundarySec, marks)
  }
  marks.set(mark.source, mark)
}

/** What other sources say of the mark: one agrees, all contradict, or there is none. */
function standing(
  state: QuickMarketsState,
  known: AssetState,
  mark: Mark,
): 'confirmed' | 'contradicted' | 'alone' {
  const others = [...(known.marks.get(mark.boundarySec)?.values() ?? [])].filter(
    ({ source }) => source !== mark.source,
  )
  if (others.length === 0) return 'alone'
  const { deviationMax } = state.options
  const isConfirmed = others.some(({ price }) => deviation(price, mark.price) <= deviationMax)
  return isConfirmed ? 'confirmed' : 'contradicted'
}

/**
 * The mark of a source at a boundary, if it can be relied on by now; otherwise what can be done to get
 * one is under way. One that is not exact is good enough once its history is known to have none, or
 * cannot be asked for so long; one that nobody else confirms, when others have had the time to.
 */
function reliable(
  state: QuickMarketsState,
  known: AssetState,
  { source, boundarySec }: Pick<Asked, 'source' | 'boundarySec'>,
  context: QuickContext,
  limits: { readonly inexactAfterMs?: number; readonly aloneAfterMs?: number } = {},
): Mark | undefined {
  const { patienceMs, graceMs, ownMs, sources } = state.options
  const mark = known.marks.get(boundarySec)?.get(source)
  const sinceMs = context.nowMs - boundarySec * 1_000
  const stands = mark === undefined ? undefined : standing(state, known, mark)
  const believable =
    mark !== undefined &&
    (stands === 'confirmed' ||
      (stands === 'alone' && sinceMs >= (limits.aloneAfterMs ?? patienceMs)))
  if (believable && mark.exact) return mark
  if (sinceMs < patienceMs) return undefined
  const { asset } = known
  const question = ask(state, known, { asset, source, boundarySec }, context)
  if (mark !== undefined && !believable) {
    // Who is right can be told only by those who have not been heard of this boundary.
    for (const other of sources) {
      if (known.marks.get(boundarySec)?.has(other)) continue
      ask(state, known, { asset, source: other, boundarySec }, context)
    }
  }
  if (!believable || question.failures === 0) return undefined
  return sinceMs >= (question.unknown ? graceMs : (limits.inexactAfterMs ?? ownMs))
    ? mark
    : undefined
}

const questionKey = ({ source, boundarySec }: Asked): string => `${boundarySec} ${source}`

function ask(
  state: QuickMarketsState,
  known: AssetState,
  asked: Asked,
  context: QuickContext,
): Question {
  const key = questionKey(asked)
  const question = known.questions.get(key) ?? { ...fresh(), unknown: false }
  known.questions.set(key, question)
  if (question.pending || question.nextAtMs > context.nowMs) return question
  question.pending = true
  const { withinMs } = state.options
  context.pipe(
    state.outside.priceAt(asked.source, asked.asset, asked.boundarySec * 1_000, withinMs),
    (observation) => ({ type: 'HistoryTold', message: { ...asked, observation } }),
    (error) => ({ type: 'HistoryFailed', message: { ...asked, why: String(error) } }),
  )
  return question
}

/** Opens the market of this interval, once its strike is known. */
function open(state: QuickMarketsState, known: AssetState, context: QuickContext): void {
  const { options, outside } = state
  const { intervalSec, chainId } = options
  const startSec = boundaryAt(context.nowMs, intervalSec)
  if (known.recordedSec >= startSec || known.speaker === undefined) return
  const { recording } = known
  if (recording.pending || recording.nextAtMs > context.nowMs) return
  if (state.rows.size >= QUICK_MARKETS_UNFINISHED_MAX) return
  const remainingMs = (startSec + intervalSec) * 1_000 - context.nowMs
  if (remainingMs < options.remainingMsMin) return
  const strike = strikeOf(state, known, known.speaker, startSec, context)
  if (strike === undefined) return
  const { asset } = known
  const place = outside.predict({ asset, startSec, intervalSec })
  known.recordingSec = startSec
  recording.pending = true
  context.pipe(
    outside.record({
      ...place,
      ...{ chainId, asset, startSec, intervalSec, strike },
      createdAtMs: context.nowMs,
    }),
    (quickMarket) => ({ type: 'Recorded', message: { quickMarket } }),
    (error) => ({
      type: 'NotRecorded',
      message: { asset, boundarySec: startSec, why: String(error) },
    }),
  )
}

/** The mark of whoever speaks; after a while, of the first other source that has one. */
function strikeOf(
  state: QuickMarketsState,
  known: AssetState,
  speaker: PriceSource,
  startSec: number,
  context: QuickContext,
): Mark | undefined {
  // Whoever speaks has been compared with the others a moment ago, and a start waits for nobody.
  const own = reliable(state, known, { source: speaker, boundarySec: startSec }, context, {
    aloneAfterMs: 0,
  })
  const isLate = context.nowMs >= startSec * 1_000 + state.options.graceMs
  if (own !== undefined || !isLate) return own
  const others = state.options.sources.filter((source) => source !== speaker)
  for (const source of others) {
    const mark = reliable(state, known, { source, boundarySec: startSec }, context)
    if (mark !== undefined) return mark
  }
  // Better a strike that is late by some seconds than no market; it says so itself.
  const { graceMs } = state.options
  for (const source of [speaker, ...others]) {
    const asked = { source, boundarySec: startSec }
    const mark = reliable(state, known, asked, context, { inexactAfterMs: 2 * graceMs })
    if (mark !== undefined) return mark
  }
  return undefined
}

/** Takes every step of a market that can be taken now. */
function advance(state: QuickMarketsState, row: Row, context: QuickContext): void {
  const { outside } = state
  const { quickMarket, note } = row
  const { marketId, chainId, onChain, resolution } = quickMarket
  const step = (name: Step, work: () => Promise<unknown>): void =>
    take(row, name, context, work, (answer) => ({
      type: 'StepDone',
      message: { marketId, step: name, txHash: typeof answer === 'string' ? answer : '' },
    }))
  if (!row.placed) step('place', () => outside.place(quickMarket))
  if (note !== undefined) {
    // Resolved is what can be redeemed. The last note ends the row for good, so it comes after that.
    const isLast = note.onChain === 'reported'
    if (isLast && row.placed && !row.closed) step('close', () => outside.close(quickMarket))
    if (!isLast || row.closed) step('note', () => outside.note({ chainId, marketId, ...note }))
    return
  }
  if (onChain === 'pending') step('create', () => outside.create(quickMarket))
  if (resolution === null) {
    if (context.nowMs >= endSecOf(quickMarket) * 1_000) decide(state, row, context)
    return
  }
  const isDue = context.nowMs >= endSecOf(quickMarket) * 1_000 + state.options.reportAfterMs
  if (onChain === 'created' && isDue) step('report', () => outside.report(quickMarket))
  if (onChain === 'reported' && row.closed) state.rows.delete(marketId)
}

function decide(state: QuickMarketsState, row: Row, context: QuickContext): void {
  const resolution = resolutionOf(state, row.quickMarket, context)
  if (resolution === undefined) return
  const { chainId, marketId } = row.quickMarket
  take(
    row,
    'decide',
    context,
    () => state.outside.decide({ chainId, marketId, resolution, atMs: context.nowMs }),
    (quickMarket) => ({ type: 'Decided', message: { quickMarket: quickMarket as QuickMarket } }),
  )
}

/** How the market ends, as far as the sources can tell by now. */
function resolutionOf(
  state: QuickMarketsState,
  quickMarket: QuickMarket,
  context: QuickContext,
): QuickResolution | undefined {
  const known = state.assets.get(quickMarket.asset)
  if (known === undefined) return undefined
  const { strike, startSec } = quickMarket
  const endSec = endSecOf(quickMarket)
  const { sources, ownMs } = state.options
  const markAt = (source: PriceSource, boundarySec: number): Mark | undefined =>
    reliable(state, known, { source, boundarySec }, context)
  const own = markAt(strike.source, endSec)
  if (own !== undefined) return resolved(strike, own)
  if (context.nowMs < endSec * 1_000 + ownMs) return undefined
  for (const source of sources) {
    if (source === strike.source) continue
    // Both are asked for at once, whichever of them is missing.
    const start = markAt(source, startSec)
    const end = markAt(source, endSec)
    if (start !== undefined && end !== undefined) return resolved(start, end)
  }
  return undefined
}

function resolved(start: Mark, end: Mark): QuickResolution {
  return { source: end.source, start, end, outcome: outcomeOf(start.price, end.price) }
}

/** Does a step unless it is under way, or has failed and must wait. */
function take(
  row: Row,
  name: Step,
  context: QuickContext,
  work: () => Promise<unknown>,
  done: (answer: unknown) => Message<QuickMarketsProtocol>,
): void {
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function failed(
  state: QuickMarketsState,
  attempts: Attempts,
  context: QuickContext,
  why: string,
): void {
  const { retryMs, retryMsMax } = state.options
  attempts.pending = false
  const pauseMs = backoff(retryMs, retryMsMax, attempts.failures)
  attempts.failures++
  attempts.nextAtMs = context.nowMs + pauseMs
  if (why !== '') state.trouble = why
}

/** Marks that nobody needs any more: old ones, unless an undecided market lies between them. */
function forget(state: QuickMarketsState, known: AssetState, nowMs: number): void {
  if (known.marks.size <= BOUNDARIES_KEPT) return
  const { intervalSec } = state.options
  const recentSec = boundaryAt(nowMs, intervalSec) - BOUNDARIES_KEPT * intervalSec
  const needed = new Set<number>()
  for (const { quickMarket } of state.rows.values()) {
    if (quickMarket.asset !== known.asset || quickMarket.resolution !== null) continue
    needed.add(quickMarket.startSec).add(endSecOf(quickMarket))
  }
  for (const boundarySec of known.marks.keys()) {
    if (boundarySec < recentSec && !needed.has(boundarySec)) known.marks.delete(boundarySec)
  }
  for (const [key, { pending }] of known.questions) {
    const boundarySec = Number(key.slice(0, key.indexOf(' ')))
    if (boundarySec < recentSec && !needed.has(boundarySec) && !pending) known.questions.delete(key)
  }
}

function writeMarks(state: QuickMarketsState, context: QuickContext): void {
  const { marksWaiting } = state
  if (state.marksWriting > 0 || marksWaiting.length === 0) return
  if (context.nowMs - state.marksAtMs < MARKS_WRITE_MS) return
  if (marksWaiting.length > MARKS_WAITING_MAX) {
    marksWaiting.splice(0, marksWaiting.length - MARKS_WAITING_MAX)
  }
  const marks = [...marksWaiting]
  state.marksWriting = marks.length
  state.marksAtMs = context.nowMs
  const fromSec = Math.floor(context.nowMs / 1_000) - MARKS_KEPT_SEC
  context.pipe(
    state.outside.recordMarks({ marks, fromSec }),
    () => ({ type: 'MarksWritten', message: { count: marks.length } }),
    (error) => ({ type: 'MarksNotWritten', message: { why: messageOf(error) } }),
  )
}
