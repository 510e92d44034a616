/**
 * Settles resolutions on a chain, so that no trader waits although a result is available. Settles an assertion (a
 * proposed outcome) after its dispute window, or after the oracle's voters have decided it. Also reports the payouts of
 * a market if an earlier report failed. The indexer records proposals, disputes and settlements. This actor only sends
 * the last step, which any account may send.
 *
 * The actor reads due resolutions from the database, simulates them without cost, and sends those that would succeed.
 * The simulation fails while a dispute is undecided, or if another account has just settled the resolution. The actor
 * then simulates it again after a growing pause. The reference of a transaction names its resolution, so nothing is
 * sent twice after a restart.
 */

import assert from 'node:assert/strict'
import { backoff } from '#domain/backoff.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { RESOLUTIONS_UNDERWAY_MAX } from '#domain/limits.ts'
import type { Behaviour, Context } from '#runtime/actor.ts'

/** One due step, identified by its reference. */
export type ResolutionDue = {
  readonly reference: string
  readonly step: 'settle' | 'report'
  readonly marketId: MarketId
  readonly market: Address
}

/** Result of simulating a step: its gas, or the reason why it would fail now. */
export type ResolutionTrial = { readonly gas: number } | { readonly refused: string }

type ResolutionSent = { readonly nonce: number; readonly txHash: string }

export type SettledStep = ResolutionSent & {
  readonly reference: string
  readonly type: 'waiting' | 'finished'
  /** Outcome of the step's transaction; undefined while it has not ended. */
  readonly outcome: 'succeeded' | 'reverted' | 'cancelled' | 'lost' | undefined
}

/** Functions that the thread provides to the actor. Each throws a fault on failure. */
export type ResolutionPorts = {
  /** Returns the references of open journal entries. */
  readonly recover: () => Promise<readonly string[]>
  readonly due: (nowSec: number) => Promise<readonly ResolutionDue[]>
  readonly attempt: (due: ResolutionDue) => Promise<ResolutionTrial>
  readonly send: (due: ResolutionDue, gas: number) => Promise<ResolutionSent>
  readonly poll: () => Promise<readonly SettledStep[]>
  readonly acknowledge: (nonce: number) => Promise<void>
}

export type ResolutionProtocol = {
  /** Checks for due steps; sent by the timer. */
  Tick: { takes: object; answers: undefined }
  Recovered: { takes: { open: readonly string[] }; answers: undefined }
  Read: { takes: { due: readonly ResolutionDue[] }; answers: undefined }
  Tried: { takes: { due: ResolutionDue; trial: ResolutionTrial }; answers: undefined }
  Sent: { takes: { due: ResolutionDue; sent: ResolutionSent }; answers: undefined }
  Polled: { takes: { news: readonly SettledStep[] }; answers: undefined }
  Acknowledged: { takes: { reference: string }; answers: undefined }
  /** The step with this reference failed. If `reference` is undefined, reading the due steps failed. */
  Failed: { takes: { why: string; reference?: string }; answers: undefined }
}

export type ResolutionEvent =
  | { readonly type: 'sent'; readonly due: ResolutionDue; readonly txHash: string }
  | {
      readonly type: 'ended'
      readonly reference: string
      readonly txHash: string
      readonly outcome: string
    }
  | { readonly type: 'refused'; readonly due: ResolutionDue; readonly why: string }
  | { readonly type: 'trouble'; readonly why: string }

/**
 * Stage of a step: it is simulated, is sent, follows its transaction, or waits until the journal has acknowledged its
 * end.
 */
type Stage = 'simulate' | 'send' | 'follow' | 'ended'

type Underway = {
  readonly stage: Stage
  /** Nonce of the transaction whose end was reported. */
  nonce: number
}

/**
 * Every change of stage. A step that an earlier process sent starts as `follow`, any other step as `simulate`. The end
 * of a transaction may be reported before `send` is answered. It may even be reported during `simulate`, if an earlier
 * write to the journal seemed to fail but stored the step's transaction. A step is dropped when it is refused or not
 * sent, or when its end is acknowledged.
 */
const STEPS: Readonly<Record<Stage, readonly Stage[]>> = {
  simulate: ['send', 'ended'],
  send: ['follow', 'ended'],
  follow: ['ended'],
  ended: [],
}

/** Moves a step to another stage; the only function that does so. A change that is not in `STEPS` is a bug. */
function moveTo(underway: Underway, to: Stage): void {
  assert(STEPS[underway.stage].includes(to), `a step cannot go from ${underway.stage} to ${to}`)
  ;(underway as { stage: Stage }).stage = to
}

type Pause = { untilMs: number; times: number }

export type ResolutionState = {
  readonly ports: ResolutionPorts
  /** Steps in progress by reference, from their simulation until their end is acknowledged. */
  readonly underway: Map<string, Underway>
  /** Time of the next attempt of each step that waits after a refusal, a failure, or the end of its transaction. */
  readonly pauses: Map<string, Pause>
  /**
   * For each step, the number of its transactions that reverted. The number is limited, because each revert costs gas.
   */
  readonly reverts: Map<string, number>
  recovered: boolean
  looking: boolean
  /** Why the last check failed; empty if it succeeded. */
  why: string
}

const PAUSE_MS = 5_000
const PAUSE_MS_MAX = 3_600_000
/**
 * After this number of reverted transactions, a resolution is not sent again before a restart. Transactions can revert
 * although their simulations succeeded.
 */
const REVERTS_MAX = 5

export function newResolution(ports: ResolutionPorts): ResolutionState {
  return {
    ports,
    underway: new Map(),
    pauses: new Map(),
    reverts: new Map(),
    recovered: false,
    looking: false,
    why: '',
  }
}

export const resolution: Behaviour<ResolutionState, ResolutionProtocol, ResolutionEvent> = {
  Tick(state, _message, context) {
    if (state.looking) return undefined
    state.looking = true
    const { ports } = state
    if (!state.recovered) {
      context.pipe(
        ports.recover(),
        (open) => ({ type: 'Recovered', message: { open } }),
        (error) => failed(error),
      )
      return undefined
    }
    // Poll open transactions before reading due steps, because each ended transaction makes room for another step.
    context.pipe(
      ports.poll(),
      (news) => ({ type: 'Polled', message: { news } }),
      (error) => failed(error),
    )
    return undefined
  },

  Recovered(state, { open }, context) {
    state.recovered = true
    state.looking = false
    for (const reference of open) state.underway.set(reference, { stage: 'follow', nonce: 0 })
    return resolution.Tick(state, {}, context)
  },

  Polled(state, { news }, context) {
    for (const { type, reference, nonce, txHash, outcome } of news) {
      const known = state.underway.get(reference) ?? { stage: 'follow', nonce }
      state.underway.set(reference, known)
      if (type !== 'finished' || known.stage === 'ended') continue
      moveTo(known, 'ended')
      known.nonce = nonce
      context.emit({ type: 'ended', reference, txHash, outcome: outcome ?? '' })
      if (outcome === 'reverted') countRevert(state, reference, context)
    }
    for (const [reference, { stage, nonce }] of state.underway) {
      if (stage !== 'ended') continue
      context.pipe(
        state.ports.acknowledge(nonce),
        () => ({ type: 'Acknowledged', message: { reference } }),
        (error) => failed(error, reference),
      )
    }
    const nowSec = Math.floor(context.nowMs / 1_000)
    context.pipe(
      state.ports.due(nowSec),
      (due) => ({ type: 'Read', message: { due } }),
      (error) => failed(error),
    )
    return undefined
  },

  Acknowledged(state, { reference }, context) {
    state.underway.delete(reference)
    // Pause the step, because the database lists the step as due until the indexer reports the result. If the step
    // failed, it is retried after the pause.
    hold(state, reference, context.nowMs)
    return undefined
  },

  Read(state, { due }, context) {
    state.looking = false
    state.why = ''
    const wanted = new Set(due.map(({ reference }) => reference))
    for (const known of [state.pauses, state.reverts]) {
      for (const reference of known.keys()) if (!wanted.has(reference)) known.delete(reference)
    }
    for (const one of due) {
      const { reference } = one
      if (state.underway.size >= RESOLUTIONS_UNDERWAY_MAX) break
      if (state.underway.has(reference)) continue
      if ((state.reverts.get(reference) ?? 0) >= REVERTS_MAX) continue
      if ((state.pauses.get(reference)?.untilMs ?? 0) > context.nowMs) continue
      state.underway.set(reference, { stage: 'simulate', nonce: 0 })
      context.pipe(
        state.ports.attempt(one),
        (trial) => ({ type: 'Tried', message: { due: one, trial } }),
        (error) => failed(error, reference),
      )
    }
    return undefined
  },

  Tried(state, { due, trial }, context) {
    const { reference } = due
    const underway = state.underway.get(reference)
    if (underway?.stage !== 'simulate') return undefined
    if ('refused' in trial) {
      state.underway.delete(reference)
      hold(state, reference, context.nowMs)
      context.emit({ type: 'refused', due, why: trial.refused })
      return undefined
    }
    moveTo(underway, 'send')
    context.pipe(
      state.ports.send(due, trial.gas),
      (sent) => ({ type: 'Sent', message: { due, sent } }),
      (error) => failed(error, reference),
    )
    return undefined
  },

  Sent(state, { due, sent }, context) {
    const underway = state.underway.get(due.reference)
    if (underway?.stage === 'send') moveTo(underway, 'follow')
    context.emit({ type: 'sent', due, txHash: sent.txHash })
    return undefined
  },

  Failed(state, { why, reference }, context) {
    context.emit({ type: 'trouble', why })
    if (reference === undefined) {
      state.looking = false
      state.why = why
      return undefined
    }
    // If an acknowledgement failed, the step stays in `underway`, and the next check repeats the acknowledgement. After
    // any other failure, the step is dropped. This is safe, because the sender throws only if nothing was sent.
    if (state.underway.get(reference)?.stage !== 'ended') state.underway.delete(reference)
    hold(state, reference, context.nowMs)
    return undefined
  },
}

function countRevert(
  state: ResolutionState,
  reference: string,
  context: Context<ResolutionProtocol, ResolutionEvent>,
): void {
  const times = (state.reverts.get(reference) ?? 0) + 1
  state.reverts.set(reference, times)
  if (times < REVERTS_MAX) return
  const why = `${reference} reverted ${times} times: it is not sent again before a restart`
  context.emit({ type: 'trouble', why })
}

function hold(state: ResolutionState, reference: string, nowMs: number): void {
  const times = state.pauses.get(reference)?.times ?? 0
  const untilMs = nowMs + backoff(PAUSE_MS, PAUSE_MS_MAX, times)
  state.pauses.set(reference, { untilMs, times: times + 1 })
}

function failed(
  error: unknown,
  reference?: string,
): { readonly type: 'Failed'; readonly message: { why: string; reference?: string } } {
  const why = error instanceof Error ? error.message : String(error)
  return { type: 'Failed', message: reference === undefined ? { why } : { why, reference } }
}
