/** Follows sent operations: handles results from the chain, and records them in the database. */

import type { RelayKey } from '#domain/relay.ts'
import type { RelayChange } from '#store/writes/relays.ts'
import { spend } from './budgets.ts'
import type { LaneTransaction, LaneUpdate } from './chain/relay-lanes.ts'
import type { RelayerContext, RelayerState, Underway, Writing } from './state.ts'
import { troubleOf } from './trouble.ts'
import { newUnderway, pass } from './turns.ts'

/** Follows a transaction that an earlier process sent; returns its operation. */
export function adopt(state: RelayerState, transaction: LaneTransaction, nowMs: number): Underway {
  const { lane: address, nonce, reference, txHash } = transaction
  const { key, attempt } = readReference(reference)
  const known = state.underway.get(key)
  if (known !== undefined) return known
  const one = newUnderway(key, nowMs, { stage: 'follow', attempt, lane: address, nonce, txHash })
  state.underway.set(key, one)
  const lane = state.lanes.get(address)
  lane?.open.add(reference)
  lane?.waiting.set(reference, nowMs)
  return one
}

export function hear(state: RelayerState, news: LaneUpdate, context: RelayerContext): void {
  const one = adopt(state, news, context.nowMs)
  const transaction = { lane: news.lane, nonce: news.nonce }
  const { key, attempt } = readReference(news.reference)
  if (attempt !== one.attempt || one.stage !== 'follow') {
    // This transaction belongs to an abandoned attempt. Once the transaction has ended, write its result and
    // acknowledge it. If a later attempt exists, the database stores the result only if this transaction is confirmed
    // and the later attempt failed.
    if (news.type !== 'finished') return
    const change = changeOf({ key, attempt, status: endOf(news), txHash: news.txHash }, context)
    write(state, { change, turn: 0, transaction }, context)
    return
  }
  const lane = state.lanes.get(news.lane)
  one.txHash = news.txHash
  switch (news.type) {
    case 'replaced':
    case 'vanished':
      unmined(state, one, context)
      lane?.open.add(news.reference)
      lane?.waiting.set(news.reference, context.nowMs)
      submitted(state, one, context)
      return
    case 'mined':
      // Between two polls, a reorg may have moved the transaction to another block, in which it used a
      // different amount of gas.
      if (one.isMined) unmined(state, one, context)
      mined(state, one, news.gasUsed, context)
      return
    case 'finished': {
      mined(state, one, news.gasUsed, context)
      const status = endOf(news)
      const reason = REASONS[news.outcome]
      const { gas, txHash } = one
      const paid = news.gasUsed ?? 0
      context.emit({ type: 'ended', key, kind: one.operation?.kind, status, gas: paid, reason })
      // Write the gas sum over all attempts only if it is known: this process sent this attempt, or it is the first
      // one. Otherwise the row keeps its sum, which includes the full gas limit of this attempt.
      const isSumKnown = one.trial !== undefined || attempt === 1
      const known = news.gasUsed !== null && isSumKnown ? { gas } : {}
      const change = changeOf({ key, attempt, status, txHash, reason, ...known }, context)
      write(state, { change, turn: ++one.turn, transaction }, context)
    }
  }
}

const REASONS = {
  succeeded: '',
  reverted: 'the transaction reverted',
  cancelled: 'the transaction was cancelled, because it was not included in a block in time',
  lost: 'another transaction with the same nonce replaced the transaction',
}

function endOf({ outcome }: Extract<LaneUpdate, { type: 'finished' }>): 'confirmed' | 'failed' {
  return outcome === 'succeeded' ? 'confirmed' : 'failed'
}

export function submitted(state: RelayerState, one: Underway, context: RelayerContext): void {
  write(state, submission(one, context), context)
}

export function submission(one: Underway, context: RelayerContext): Writing {
  const { key, attempt, txHash } = one
  return {
    change: changeOf({ key, attempt, status: 'submitted', txHash }, context),
    turn: ++one.turn,
  }
}

/**
 * Records that the operation's transaction is in a block, returns the unused gas to the budgets, and starts
 * the next operation of the same queue.
 */
function mined(
  state: RelayerState,
  one: Underway,
  gasUsed: number | null,
  context: RelayerContext,
): void {
  const lane = one.lane === undefined ? undefined : state.lanes.get(one.lane)
  lane?.waiting.delete(referenceOf(one))
  if (one.isMined) return
  one.isMined = true
  if (gasUsed !== null && one.operation !== undefined && one.trial !== undefined) {
    one.saved = one.trial.gas - gasUsed
    spend(state, one.operation, -one.saved, context.nowMs)
    one.gas -= one.saved
  } else if (gasUsed !== null) one.gas = gasUsed
  pass(state, one, context)
}

/**
 * Records that a reorg removed the operation's transaction from its block. Charges the unused gas again, because the
 * transaction may use all its gas in another block.
 */
function unmined(state: RelayerState, one: Underway, context: RelayerContext): void {
  one.isMined = false
  if (one.operation !== undefined) spend(state, one.operation, one.saved, context.nowMs)
  one.gas += one.saved
  one.saved = 0
}

export function write(state: RelayerState, writing: Writing, context: RelayerContext): void {
  const { change, transaction } = writing
  const { ports } = state
  const written = ports.change(change)
  const work =
    transaction === undefined
      ? written
      : written.then(() => ports.acknowledge(transaction.lane, transaction.nonce))
  context.pipe<unknown>(
    work,
    () => ({ type: 'Written', message: writing }),
    (error) => ({ type: 'Unwritten', message: { ...writing, trouble: troubleOf(error) } }),
  )
}

/** Records that an attempt was not sent. */
export function writeFailure(
  state: RelayerState,
  change: RelayChange,
  context: RelayerContext,
): void {
  state.failing.set(change.key, change.attempt)
  write(state, { change, turn: 0 }, context)
}

/** Returns whether this write marks an attempt as failed because it was not sent. */
export function isFailure({ turn, transaction }: Writing): boolean {
  return turn === 0 && transaction === undefined
}

export function referenceOf({
  key,
  attempt,
}: {
  readonly key: RelayKey
  readonly attempt: number
}): string {
  return `${key}:${attempt}`
}

function readReference(reference: string): { key: RelayKey; attempt: number } {
  const [key, attempt] = reference.split(':')
  return { key: key as RelayKey, attempt: Number(attempt) }
}

export function changeOf(
  change: Pick<RelayChange, 'key' | 'attempt' | 'status'> &
    Partial<Pick<RelayChange, 'txHash' | 'gas' | 'reason'>>,
  context: RelayerContext,
): RelayChange {
  return { txHash: '', gas: null, reason: '', ...change, atMs: context.nowMs }
}
