/**
 * Turns of operations. A contract numbers the signatures of one owner, so operations of one owner at one contract run
 * one after another. This file starts an operation, answers it, and starts the next one.
 */

import { RELAYS_IN_LINE_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { RelayKey, RelayOperation } from '#domain/relay.ts'
import type { RelayAnswer } from '#protocol/relayer.ts'
import { dayStart } from './budgets.ts'
import {
  moveTo,
  type RelayerContext,
  type RelayerState,
  type Stage,
  type Step,
  type Underway,
} from './state.ts'
import { troubleOf } from './trouble.ts'

const BOND_SCOPE = 'bond'

export function newUnderway(key: RelayKey, nowMs: number, known: Partial<Underway>): Underway {
  return {
    key,
    operation: undefined,
    scope: '',
    beganAtMs: nowMs,
    tickets: [],
    deadlineAtMs: 0,
    stage: 'waiting',
    attempt: 0,
    gas: 0,
    examination: undefined,
    trial: undefined,
    isHolding: false,
    lane: undefined,
    nonce: 0,
    txHash: '',
    isMined: false,
    saved: 0,
    turn: 0,
    ...known,
  }
}

export function find(state: RelayerState, one: Underway, context: RelayerContext): void {
  const { key, operation } = one
  if (operation === undefined) return
  moveTo(one, 'find')
  const sinceMs = dayStart(context.nowMs)
  const work = state.ports.find(key, operation, sinceMs)
  step(one, { name: 'find', work }, context, (found) => ({
    type: 'Found',
    message: { key, sinceMs, ...found },
  }))
}

/**
 * Starts one step of an operation's work outside the actor. If the step fails, the actor receives `Failed` with the
 * step's name.
 */
export function step<T>(
  { key }: Underway,
  { name, work }: { readonly name: Step; readonly work: Promise<T> },
  context: RelayerContext,
  ok: Parameters<typeof context.pipe<T>>[1],
): void {
  context.pipe(work, ok, (error) => ({
    type: 'Failed',
    message: { key, step: name, trouble: troubleOf(error) },
  }))
}

export function refuse(
  state: RelayerState,
  one: Underway,
  rejection: Rejection,
  context: RelayerContext,
): undefined {
  if (one.operation !== undefined) {
    context.emit({ type: 'refused', kind: one.operation.kind, rejection })
  }
  leave(state, one, rejection, context)
  return undefined
}

/**
 * Ends an operation that has no transaction to follow. Answers its callers, and starts the next operation of the same
 * queue.
 */
export function leave(
  state: RelayerState,
  one: Underway,
  answer: RelayAnswer | Rejection,
  context: RelayerContext,
): void {
  for (const ticket of one.tickets.splice(0)) context.answer(ticket, answer)
  forget(state, one, context)
}

/** Ends an operation: lifts its hold on the owner's orders, and starts the next operation of the same queue. */
export function forget(state: RelayerState, one: Underway, context: RelayerContext): void {
  state.underway.delete(one.key)
  if (one.isHolding) state.ports.lift(one.key)
  pass(state, one, context)
}

/** Starts the next waiting operation of this operation's queue; rejects operations whose caller no longer waits. */
export function pass(state: RelayerState, one: Underway, context: RelayerContext): void {
  const queue = state.scopes.get(one.scope)
  if (queue === undefined || queue[0] !== one.key) return
  queue.shift()
  for (let next = queue[0]; next !== undefined; next = queue[0]) {
    const waiting = state.underway.get(next)
    if (waiting !== undefined && waiting.deadlineAtMs > context.nowMs) {
      find(state, waiting, context)
      return
    }
    queue.shift()
    if (waiting === undefined) continue
    for (const ticket of waiting.tickets.splice(0)) context.answer(ticket, reject('OVERLOADED'))
    state.underway.delete(next)
  }
  state.scopes.delete(one.scope)
}

/**
 * Rejects an operation if too many operations of its owner wait in the same queue. The limit is per owner, because
 * several owners may share one queue: that of the proposals whose bond the relayer pays.
 */
export function lineFlaw(state: RelayerState, operation: RelayOperation): Rejection | undefined {
  let before = 0
  for (const key of state.scopes.get(scopeOf(operation)) ?? []) {
    if (state.underway.get(key)?.operation?.owner === operation.owner) before++
  }
  if (before < RELAYS_IN_LINE_MAX) return undefined
  const detail = `${RELAYS_IN_LINE_MAX} operations of this owner are waiting, which is the maximum: retry when one has ended`
  return reject('RATE_LIMITED', undefined, detail)
}

/**
 * Returns the answer to a settlement if another request is already settling the same market; otherwise undefined. Only
 * the first settlement of a market succeeds, and the relayer must not pay for others that fail.
 */
export function settlingAnswer(
  state: RelayerState,
  { key, operation }: Underway,
): RelayAnswer | Rejection | undefined {
  if (operation?.kind !== 'settle-market') return undefined
  for (const { key: otherKey, operation: other, stage, txHash } of state.underway.values()) {
    if (otherKey === key || other?.kind !== 'settle-market') continue
    if (other.marketAddress !== operation.marketAddress || !IS_OPENED.has(stage)) continue
    if (stage === 'follow') return answerOf({ txHash })
    const detail = 'another request is settling this market: retry shortly'
    return reject('OVERLOADED', undefined, detail)
  }
  return undefined
}

/** Stages of an operation that is being sent, or was sent. */
const IS_OPENED: ReadonlySet<Stage> = new Set(['open', 'send', 'follow'])

/**
 * Returns the name of an operation's queue: the owner, and the contract whose nonces the operation uses. Only one
 * operation of a queue runs at a time.
 */
export function scopeOf(operation: RelayOperation): string {
  const { kind, owner } = operation
  if (kind === 'settle-market') return `${operation.marketAddress} ${owner}`
  // A bond that the relayer pays uses a permit nonce of one of the relayer's keys. So all proposals with such a bond
  // share one queue.
  if (kind === 'propose-resolution' && operation.bond === undefined) return BOND_SCOPE
  if (kind === 'cancel-orders' || kind === 'cancel-all-before') return `settlement ${owner}`
  if (kind === 'set-delegate') return `delegates ${owner}`
  // Proposals share a queue with the owner's stablecoin permits, because a bond also uses a permit nonce. The bond also
  // lowers the balance against which the next proposal is checked.
  const isStablecoin = kind === 'stablecoin-permit' || kind === 'propose-resolution'
  return `${isStablecoin ? 'stablecoin' : 'tokens'} ${owner}`
}

export function answerOf(one: { readonly txHash: string; readonly status?: string }): RelayAnswer {
  return { txHash: one.txHash, status: one.status === 'confirmed' ? 'confirmed' : 'pending' }
}
