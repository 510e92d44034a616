/**
 * The relayer of one chain: sends operations that users signed, and pays for their gas. The actor makes the decisions.
 * Reads and writes of the chain and the database run outside it, and their results arrive as messages.
 *
 * Steps of an operation, each with work outside the actor:
 *
 *     find → examine → hold → try → open → send → follow → end
 *
 * - find: looks up an earlier request of the same operation, and the gas that the owner has spent today.
 * - examine: checks the signature and the state of the chain, at no cost.
 * - hold: runs only if the operation may take away what the owner's orders or trades need. The market threads refuse
 *   new orders of the owner until the operation ends. They answer with the needs of the open orders and unsettled
 *   trades (`guards.ts`).
 * - try: simulates the call from the key that would send it, to find the gas limit.
 * - open: writes a row before anything is signed. From here on, the operation is never done twice.
 * - send: signs, journals and broadcasts the transaction. Then the client gets the hash.
 * - follow: follows the transaction across restarts and reorgs until the chain has decided.
 *
 * Each contract expects the nonces of an owner in order. So operations of one owner at one contract run one after
 * another: the next operation is examined when the previous one is in a block. Other operations are not delayed. The
 * signer is known only after the examination. Until then, a request waits in the queue of the owner that it names, so
 * forged requests can fill only this short queue. A repeated request joins the request in progress, or is answered from
 * its row.
 *
 * A refusal before `open` leaves no record. After `open`, the row has the result. An operation that was opened and not
 * sent is marked failed, and a failed operation may be requested again. Every result is written to the row before it is
 * acknowledged to the transaction sender. So if the process is killed at any instant, the sender reports the result
 * again.
 */

import type { Address } from '#domain/ids.ts'
import { RELAY_TICKETS_MAX, RELAYS_UNDERWAY_MAX, RELAYS_UNREDEEMING_MAX } from '#domain/limits.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import { purposeOf, type RelayRecord } from '#domain/relay.ts'
import type { Behaviour } from '#runtime/actor.ts'
import { budgetFlaw, dayOf, dayStart, drawFor, nothingSpent, ownerOf, spend } from './budgets.ts'
import { NOTHING, type RelayExamination } from './chain/relay-examination.ts'
import {
  adopt,
  changeOf,
  hear,
  isFailure,
  referenceOf,
  submission,
  submitted,
  write,
  writeFailure,
} from './following.ts'
import { heldAgain, needsFlaw } from './guards.ts'
import { lanesByPreference, missed, newLane, polled, pollLane, unfunded, weigh } from './lanes.ts'
import type { RelayerPorts } from './ports.ts'
import {
  moveTo,
  type RelayerContext,
  type RelayerEvent,
  type RelayerProtocol,
  type RelayerRules,
  type RelayerState,
  type Underway,
  type Writing,
} from './state.ts'
import { rejectionOf, troubleOf } from './trouble.ts'
import {
  answerOf,
  find,
  forget,
  leave,
  lineFlaw,
  newUnderway,
  refuse,
  scopeOf,
  settlingAnswer,
  step,
} from './turns.ts'

const AGAIN_MS = 1_000
const SUBMITTED_AFTER_MS = 500
const NEVER_SENT = 'the transaction was not sent'

export function newRelayer(
  rules: RelayerRules,
  ports: RelayerPorts,
  lanes: readonly Address[],
): RelayerState {
  return {
    rules,
    ports,
    lanes: new Map(lanes.map((address) => [address, newLane(address)])),
    underway: new Map(),
    scopes: new Map(),
    failing: new Map(),
    owners: new Map(),
    day: 0,
    gasToday: nothingSpent(),
    closedFor: 'the relayer is starting',
  }
}

export const relayer: Behaviour<RelayerState, RelayerProtocol, RelayerEvent> = {
  Relay(state, { key, operation, deadlineAtMs }, context) {
    const { kind } = operation
    const known = state.underway.get(key)
    if (known !== undefined) {
      context.emit({ type: 'repeated', kind })
      if (known.stage === 'follow') return answerOf(known)
      if (known.tickets.length >= RELAY_TICKETS_MAX) return reject('OVERLOADED')
      const ticket = context.defer()
      known.tickets.push(ticket)
      known.deadlineAtMs = Math.max(known.deadlineAtMs, deadlineAtMs)
      return ticket
    }
    if (state.closedFor !== '') return reject('RELAYER_UNAVAILABLE', undefined, state.closedFor)
    // Redemptions have a higher maximum, so that other operations cannot take all places.
    const most = purposeOf(kind) === 'redemption' ? RELAYS_UNDERWAY_MAX : RELAYS_UNREDEEMING_MAX
    if (state.underway.size >= most) return reject('OVERLOADED')
    const crowded = lineFlaw(state, operation)
    if (crowded !== undefined) return crowded
    const ticket = context.defer()
    const scope = scopeOf(operation)
    const one = newUnderway(key, context.nowMs, {
      operation,
      scope,
      tickets: [ticket],
      deadlineAtMs,
    })
    state.underway.set(key, one)
    const queue = state.scopes.get(scope) ?? []
    queue.push(key)
    state.scopes.set(scope, queue)
    if (queue.length === 1) find(state, one, context)
    return ticket
  },

  Nonces(state, { owner, marketAddress }, context) {
    if (state.closedFor !== '') return reject('RELAYER_UNAVAILABLE', undefined, state.closedFor)
    const ticket = context.defer()
    context.pipe(
      state.ports.nonces(owner, marketAddress),
      (answer) => ({ type: 'NoncesRead', message: { ticket, answer } }),
      (error) => ({
        type: 'NoncesRead',
        message: { ticket, answer: rejectionOf(troubleOf(error)) },
      }),
    )
    return ticket
  },

  NoncesRead(_state, { ticket, answer }, context) {
    context.answer(ticket, answer)
    return undefined
  },

  Begin(state, _message, context) {
    const { ports } = state
    const sinceMs = dayStart(context.nowMs)
    context.pipe(
      Promise.all([ports.recover(), ports.unfinished(), ports.gasSince(sinceMs)]),
      ([open, unfinished, gas]) => ({
        type: 'Begun',
        message: { open, unfinished, gas, sinceMs },
      }),
      (error) => missed('Begin', 'operations in progress could not be read: retry shortly', error),
    )
    return undefined
  },

  Begun(state, { open, unfinished, gas, sinceMs }, context) {
    state.day = dayOf(context.nowMs)
    state.gasToday = sinceMs === dayStart(context.nowMs) ? { ...gas } : nothingSpent()
    for (const transaction of open) adopt(state, transaction, context.nowMs)
    for (const { key, attempt, kind, owner } of unfinished) {
      const sent = state.underway.get(key)
      if (sent !== undefined) holdAgain(state, sent, { kind, owner }, context)
      // The journal may have a transaction of an earlier attempt than the attempt in the row. Then the row's attempt
      // was never sent: its `open` was stored, but the database's answer was lost.
      if (sent?.attempt === attempt) continue
      // The journal has every transaction before it is sent, so an attempt that is not in the journal was never sent.
      const change = changeOf({ key, attempt, status: 'failed', reason: NEVER_SENT }, context)
      writeFailure(state, change, context)
    }
    state.closedFor = ''
    for (const { address } of state.lanes.values()) pollLane(state, address, context)
    weigh(state, context)
    return undefined
  },

  Found(state, { key, record, gas, sinceMs, trades }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined) return undefined
    const { operation } = one
    const owner = ownerOf(state, operation.owner, context.nowMs)
    const purpose = purposeOf(operation.kind)
    // If a new day has begun during the look-up, ignore the gas: it was spent yesterday.
    if (sinceMs === dayStart(context.nowMs)) {
      owner.gas[purpose] = Math.max(owner.gas[purpose], gas)
    }
    owner.trades = trades
    one.attempt = record?.attempt ?? 0
    one.gas = record?.gas ?? 0
    if (record !== undefined && record.status !== 'failed' && record.txHash !== '') {
      context.emit({ type: 'repeated', kind: operation.kind })
      const status = record.status === 'confirmed' ? 'confirmed' : 'pending'
      leave(state, one, { txHash: record.txHash, status }, context)
      return undefined
    }
    if (record?.status === 'sending') {
      // The row has the status `sending`, but this thread has no request in progress for it. The earlier request was
      // never sent, because the answer to `open` was lost.
      moveTo(one, 'open')
      const change = changeOf(
        { key, attempt: record.attempt, status: 'failed', reason: NEVER_SENT },
        context,
      )
      step(one, { name: 'open', work: state.ports.change(change) }, context, () => ({
        type: 'Found',
        message: { key, record: { ...record, status: 'failed' }, gas, sinceMs, trades },
      }))
      return undefined
    }
    if (state.failing.get(key) === one.attempt + 1) {
      return refuse(state, one, reject('OVERLOADED'), context)
    }
    moveTo(one, 'examine')
    step(one, { name: 'examine', work: state.ports.examine(operation) }, context, (found) => ({
      type: 'Examined',
      message: { key, found },
    }))
    return undefined
  },

  Examined(state, { key, found }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined) return undefined
    if (isRejection(found)) return refuse(state, one, found, context)
    if (found.doneBy !== undefined) {
      context.emit({ type: 'unneeded', kind: one.operation.kind, txHash: found.doneBy })
      leave(state, one, { txHash: found.doneBy, status: 'confirmed' }, context)
      return undefined
    }
    // The owner's rate is charged only after the signature check: until then, the request may come from another
    // account.
    const limited = drawFor(state, one.operation.owner, found, context.nowMs)
    if (limited !== undefined) return refuse(state, one, limited, context)
    one.examination = found
    if (found.guard === undefined) return tryOut(state, one, found, context)
    moveTo(one, 'hold')
    one.isHolding = true
    const work = state.ports.hold(key, one.operation.owner, found.guard.holds)
    step(one, { name: 'hold', work }, context, (needs) => ({
      type: 'Held',
      message: { key, needs },
    }))
    return undefined
  },

  Held(state, { key, needs }, context) {
    const one = state.underway.get(key)
    if (one?.examination?.guard === undefined || one.stage !== 'hold') return undefined
    if (isRejection(needs)) return refuse(state, one, needs, context)
    const flaw = needsFlaw(one.examination.guard, needs)
    if (flaw !== undefined) return refuse(state, one, flaw, context)
    return tryOut(state, one, one.examination, context)
  },

  Tried(state, { key, trial }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined) return undefined
    if (isRejection(trial)) return refuse(state, one, trial, context)
    const settling = settlingAnswer(state, one)
    if (settling !== undefined) {
      leave(state, one, settling, context)
      return undefined
    }
    const { operation, examination } = one
    const asked = { ...operation, ...(examination ?? NOTHING) }
    const overspent = budgetFlaw(state, asked, trial.gas, context.nowMs)
    if (overspent !== undefined) return refuse(state, one, overspent, context)
    spend(state, operation, trial.gas, context.nowMs)
    one.trial = trial
    one.gas += trial.gas
    moveTo(one, 'open')
    const { chainId, kind, owner } = operation
    const claims = examination?.claims ?? []
    const opened = {
      ...{ key, chainId, kind, owner, attempt: one.attempt + 1 },
      ...{ gas: trial.gas, claims, atMs: context.nowMs },
    }
    step(
      one,
      { name: 'open', work: state.ports.open(opened) },
      context,
      ({ record, opened: isNew }) => ({
        type: 'Opened',
        message: { key, record, opened: isNew },
      }),
    )
    return undefined
  },

  Opened(state, { key, record, opened }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined || one.trial === undefined) return undefined
    if (!opened) {
      // The row exists already. Only this thread opens rows of its chain, so an earlier `open` of this thread succeeded
      // and its answer was lost.
      const isSent = record.txHash !== '' && record.status !== 'failed'
      const wanted = isSent ? answerOf(record) : reject('OUTCOME_UNKNOWN')
      spend(state, one.operation, -one.trial.gas, context.nowMs)
      leave(state, one, wanted, context)
      return undefined
    }
    const { trial } = one
    one.attempt = record.attempt
    one.gas = record.gas
    moveTo(one, 'send')
    one.lane = trial.lane
    const reference = referenceOf(one)
    const lane = state.lanes.get(trial.lane)
    lane?.waiting.set(reference, context.nowMs)
    lane?.open.add(reference)
    step(one, { name: 'send', work: state.ports.send(trial, reference) }, context, (sent) => ({
      type: 'Sent',
      message: { key, sent },
    }))
    return undefined
  },

  Sent(state, { key, sent }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined || one.lane === undefined) return undefined
    moveTo(one, 'follow')
    one.txHash = sent.txHash
    one.nonce = sent.nonce
    const { kind } = one.operation
    const tookMs = context.nowMs - one.beganAtMs
    context.emit({ type: 'sent', kind, lane: one.lane, txHash: sent.txHash, tookMs })
    for (const ticket of one.tickets.splice(0)) context.answer(ticket, answerOf(one))
    // If the operation has claims, write its hash at once, because clients list claims with their hashes. Otherwise
    // delay the write: most operations are mined soon, and then one write is enough. The journal has the hash in any
    // case.
    if ((one.examination?.claims.length ?? 0) > 0) submitted(state, one, context)
    else context.after(SUBMITTED_AFTER_MS, { type: 'Write', message: submission(one, context) })
    pollLane(state, one.lane, context)
    return undefined
  },

  Failed(state, { key, step: at, trouble }, context) {
    context.emit({ type: 'trouble', where: at, trouble })
    const one = state.underway.get(key)
    if (one === undefined || one.stage === 'follow') return undefined
    const gas = one.trial?.gas ?? 0
    if (one.operation !== undefined) spend(state, one.operation, -gas, context.nowMs)
    if (at === 'open' || at === 'send') {
      // If `send` failed, nothing was sent, so mark the current attempt as failed. If `open` failed, the database may
      // still have stored the row of the next attempt, so mark the next attempt as failed.
      const attempt = at === 'open' && one.trial !== undefined ? one.attempt + 1 : one.attempt
      const lane = one.lane === undefined ? undefined : state.lanes.get(one.lane)
      lane?.waiting.delete(referenceOf(one))
      lane?.open.delete(referenceOf(one))
      const reason = `${NEVER_SENT}: ${trouble.message}`
      const rest = { reason, gas: one.gas - gas }
      writeFailure(state, changeOf({ key, attempt, status: 'failed', ...rest }, context), context)
    }
    return refuse(state, one, rejectionOf(trouble), context)
  },

  Poll(state, { lane, turn }, context) {
    if (state.lanes.get(lane)?.turn === turn) pollLane(state, lane, context)
    return undefined
  },

  Polled(state, { lane, news }, context) {
    polled(state, lane, context)
    for (const one of news) hear(state, one, context)
    return undefined
  },

  PollFailed(state, { lane, trouble }, context) {
    polled(state, lane, context)
    context.emit({ type: 'trouble', where: 'poll', trouble })
    return undefined
  },

  Write(state, writing, context) {
    const { change, turn } = writing
    // Skip a change if the operation has a newer change.
    if (turn !== 0 && state.underway.get(change.key)?.turn !== turn) return undefined
    write(state, writing, context)
    return undefined
  },

  Written(state, writing, context) {
    if (isFailure(writing)) state.failing.delete(writing.change.key)
    release(state, writing, context)
    return undefined
  },

  Unwritten(state, { trouble, ...writing }, context) {
    context.emit({ type: 'trouble', where: 'write', trouble })
    if (trouble.retryable) context.after(AGAIN_MS, { type: 'Write', message: writing })
    // The database refuses this change permanently, so do not retry it. End the operation. Its transaction stays open
    // in the journal until the next start.
    else if (isFailure(writing)) state.failing.delete(writing.change.key)
    else if (writing.transaction !== undefined) release(state, writing, context)
    return undefined
  },

  Weigh(state, _message, context) {
    weigh(state, context)
    return undefined
  },

  Weighed(state, { balances }, context) {
    for (const { lane: address, wei } of balances) {
      const lane = state.lanes.get(address)
      if (lane === undefined) continue
      lane.balance = BigInt(wei)
      lane.isLow = lane.balance < state.rules.balanceLow
      context.emit({ type: 'weighed', lane: address, wei: lane.balance, isLow: lane.isLow })
    }
    context.after(state.rules.weighMs, { type: 'Weigh', message: {} })
    return undefined
  },

  Missed(_state, { what, trouble, again }, context) {
    context.emit({ type: 'trouble', where: what, trouble })
    context.after(AGAIN_MS, { type: again, message: {} })
    return undefined
  },
}

/** Ends an operation after the end of its transaction was written to the database. */
function release(state: RelayerState, { change, transaction }: Writing, context: RelayerContext) {
  const one = state.underway.get(change.key)
  if (transaction === undefined || one?.attempt !== change.attempt) return
  const lane = state.lanes.get(transaction.lane)
  lane?.open.delete(referenceOf(one))
  lane?.waiting.delete(referenceOf(one))
  forget(state, one, context)
}

/** Simulates the call from the key that would send it. */
function tryOut(
  state: RelayerState,
  one: Underway,
  examination: RelayExamination,
  context: RelayerContext,
): undefined {
  const { key, operation } = one
  if (operation === undefined) return undefined
  const lanes = lanesByPreference(state, context.nowMs)
  if (lanes.length === 0) return refuse(state, one, unfunded(state), context)
  moveTo(one, 'try')
  const work = state.ports.attempt(operation, examination, lanes)
  step(one, { name: 'try', work }, context, (trial) => ({
    type: 'Tried',
    message: { key, trial },
  }))
  return undefined
}

/** Makes market threads refuse orders again for an operation that an earlier process sent, until the operation ends. */
function holdAgain(
  state: RelayerState,
  one: Underway,
  { kind, owner }: Pick<RelayRecord, 'kind' | 'owner'>,
  context: RelayerContext,
): void {
  const orders = heldAgain(kind)
  if (orders === undefined) return
  one.isHolding = true
  const { key } = one
  step(one, { name: 'hold', work: state.ports.hold(key, owner, orders) }, context, (needs) => ({
    type: 'Held',
    message: { key, needs },
  }))
}
