/**
 * Manages traders' funds and reservations: an order is accepted only if its funds are available. An accounts thread
 * reads the logs of all markets, and promises (reserves) funds to new orders for a short time. Markets do not wait for
 * this thread, and it does not wait for markets.
 *
 * 1. Start: the thread loads the needs (amounts that orders and trades take) from the database. It reads the logs from
 *    the database's checkpoints on, and asks the chains which pending trades have settled. It grants nothing before
 *    these steps are complete.
 * 2. `Reserve` compares an order's need with the funds at the last block, less open, pending and promised needs. If the
 *    order is granted, its need becomes a promise, which is stored under the order's hash.
 * 3. The market places the order. The order's events turn the promise into an open need, a pending need, or both.
 * 4. A regular read of a chain's new blocks (a step) reports settled trades and accounts whose funds may have changed.
 *    The thread reads these funds again. It emits `Withdrawn` for orders that the funds no longer cover.
 *
 * Example: a trader has 10 dollars and an allowance for all of them. The order BUY 10 at 0.42 is promised 4.21, of
 * which 0.01 is for rounding (`funds.ts`). It matches 4 shares at 0.40: 1.60 is pending, 2.53 is open for the other 6
 * shares, 5.87 is free. The trade is mined in block 7, and the funds are read at that block: 8.40 is held, 2.53 is
 * open, nothing is pending, 5.87 is free. These amounts do not depend on whether the market knows of block 7 yet.
 */

import { type Rejection, reject } from '#domain/rejection.ts'
import type { Behaviour } from '#runtime/actor.ts'
import { answerWaiting, askFor, expireWaiting, refuseWaiting, viewFor } from './asking.ts'
import { auditAccounts } from './audit.ts'
import { cover, coverAgain, coverChanged } from './cover.ts'
import { dropSome, fold, forgetOver, take } from './fold.ts'
import {
  applyFundsStep,
  askAfterStep,
  askNext,
  doubt,
  isUnread,
  readNext,
  step,
  stepFailed,
  sweep,
  takeFunds,
  whyOf,
} from './funds-reading.ts'
import { expirePromises, releasePromise } from './promises.ts'
import type { AccountsContext, AccountsEvent, AccountsProtocol, AccountsState } from './state.ts'
import { addTrade, confirmTrade, markSettled } from './trades.ts'

/** Pause before a failed read of the database is repeated. */
const AGAIN_MS = 1_000
/** Maximum number of trades whose details one read returns. */
const TRADES_READ_MAX = 500

export const accounts: Behaviour<AccountsState, AccountsProtocol, AccountsEvent> = {
  Reserve(state, { order, deadlineAtMs }, context) {
    const answer = askFor(state, { order, deadlineAtMs, promises: true }, context)
    emitChanges(state, context)
    return answer
  },

  Release(state, { orderHash }, context) {
    releasePromise(state, orderHash)
    emitChanges(state, context)
    return undefined
  },

  Check(state, { order, deadlineAtMs }, context) {
    return askFor(state, { order, deadlineAtMs, promises: false }, context)
  },

  Funds(state, asked, context) {
    return viewFor(state, asked, context)
  },

  Audit(state, { loaded, events }) {
    return auditAccounts(state, loaded, events)
  },

  Tick(state, _message, context) {
    if (state.phase !== 'loaded') {
      load(state, context)
      return undefined
    }
    expirePromises(state)
    expireWaiting(state, context)
    readTrades(state, context)
    forgetOver(state, context.nowMs)
    // The chains are read only after all logs were read to their end: before that, it is not known which accounts to
    // read.
    if (state.caughtUpMs > 0) {
      for (const chain of state.chains.values()) {
        step(chain, state, context)
        for (const account of chain.short) coverAgain(state, account, context)
      }
    }
    emitChanges(state, context)
    return undefined
  },

  Loaded(state, { loaded }, context) {
    state.phase = 'loaded'
    state.trouble = ''
    take(state, loaded)
    state.grown.length = 0
    const { checkpoints } = loaded
    for (const { partition } of checkpoints) state.caughtUp.set(partition, 0)
    context.emit({ type: 'CheckpointsLoaded', checkpoints })
    emitChanges(state, context)
    return undefined
  },

  LoadFailed(state, { why }, context) {
    state.phase = 'new'
    state.trouble = why
    state.nextLoadMs = context.nowMs + AGAIN_MS
    context.emit({ type: 'Trouble', what: 'load', why })
    return undefined
  },

  Logged(state, { partition, events, caughtUpAtMs }, context) {
    const wasClosing = state.closing.length > 0
    for (const event of events) fold(state, event)
    if (caughtUpAtMs !== undefined) catchUp(state, partition, caughtUpAtMs)
    if (!wasClosing && state.closing.length > 0) drop(state, context)
    emitChanges(state, context)
    return undefined
  },

  Continue(state, _message, context) {
    drop(state, context)
    emitChanges(state, context)
    return undefined
  },

  Stepped(state, { chainId, step: fundsStep, begunAtMs }, context) {
    const chain = state.chains.get(chainId)!
    chain.steppedAtMs = begunAtMs
    applyFundsStep(state, chain, fundsStep, context.nowMs)
    sweep(chain, state)
    askAfterStep(state, chain, context)
    readNext(chain, context)
    emitChanges(state, context)
    return undefined
  },

  StepFailed(state, { chainId, why }, context) {
    stepFailed(state.chains.get(chainId)!, why, context.nowMs)
    context.emit({ type: 'Trouble', what: `new blocks of chain ${chainId}`, why })
    return undefined
  },

  FundsRead(state, { chainId, epoch, owners, read }, context) {
    const chain = state.chains.get(chainId)!
    chain.reads--
    for (const owner of owners) {
      const account = chain.accounts.get(owner)
      if (account !== undefined) account.reading = false
    }
    for (const funds of epoch === chain.epoch ? read : []) {
      const account = chain.accounts.get(funds.owner)
      if (account === undefined) continue
      takeFunds(state, account, funds)
      cover(state, account, context)
    }
    for (const owner of owners) {
      const account = chain.accounts.get(owner)
      if (account === undefined) continue
      answerWaiting(state, account, context)
      if (account.uses > 0 && isUnread(account)) chain.toRead.add(account)
    }
    readNext(chain, context)
    emitChanges(state, context)
    return undefined
  },

  FundsUnread(state, { chainId, owners, why }, context) {
    const chain = state.chains.get(chainId)!
    chain.reads--
    const answer = unavailable(why)
    for (const owner of owners) {
      const account = chain.accounts.get(owner)
      if (account === undefined) continue
      account.reading = false
      refuseWaiting(state, account, answer, context)
      if (account.uses > 0) chain.toRead.add(account)
    }
    context.emit({ type: 'Trouble', what: `funds of chain ${chainId}`, why })
    return undefined
  },

  SettledRead(state, { chainId, epoch, at, tradeIds, settled }, context) {
    const chain = state.chains.get(chainId)!
    if (epoch !== chain.epoch) return undefined
    chain.isAsking = false
    for (const [index, tradeId] of tradeIds.entries()) {
      const need = state.trades.get(tradeId)
      if (need === undefined || need.settledBlock !== undefined) continue
      if (settled[index] === true) markSettled(state, need, at.block)
      // The chain has not settled this trade. The trade is not checked again, unless its market considers it settled.
      // In that case, each step checks it again until the chain agrees.
      else if (!need.confirmed) chain.toAsk.delete(need)
    }
    askNext(state, chain, context)
    readNext(chain, context)
    emitChanges(state, context)
    return undefined
  },

  SettledUnread(state, { chainId, epoch, why }, context) {
    const chain = state.chains.get(chainId)!
    context.emit({ type: 'Trouble', what: `settled trades of chain ${chainId}`, why })
    if (epoch !== chain.epoch) return undefined
    // Reading a part of the trades failed. The next step checks all trades of `toAsk` again.
    chain.isAsking = false
    chain.asking = []
    return undefined
  },

  TradesRead(state, { tradeIds, trades }, context) {
    state.readingTrades = false
    for (const trade of trades) {
      const chain = state.markets.get(trade.marketId)?.chain
      const isConfirmed = state.reverted.get(trade.tradeId)
      if (chain === undefined || isConfirmed === undefined) continue
      const need = addTrade(state, chain, trade)
      if (need === undefined) continue
      if (need.settledBlock === undefined) doubt(chain, need)
      if (isConfirmed) confirmTrade(state, trade.tradeId)
    }
    for (const tradeId of tradeIds) state.reverted.delete(tradeId)
    for (const chain of state.chains.values()) {
      if (chain.asking.length > 0) askNext(state, chain, context)
    }
    readTrades(state, context)
    emitChanges(state, context)
    return undefined
  },

  TradesUnread(state, { why }, context) {
    state.readingTrades = false
    state.nextTradesMs = context.nowMs + AGAIN_MS
    context.emit({ type: 'Trouble', what: 'trades', why })
    return undefined
  },
}

function unavailable(why: string): Rejection {
  return reject('CHAIN_UNAVAILABLE', undefined, `funds cannot be read from the chain now: ${why}`)
}

function load(state: AccountsState, context: AccountsContext): void {
  if (state.phase === 'loading' || context.nowMs < state.nextLoadMs) return
  if (state.startedAtMs === 0) state.startedAtMs = context.nowMs
  state.phase = 'loading'
  context.pipe(
    state.ports.load(),
    (loaded) => ({ type: 'Loaded', message: { loaded } }),
    (error) => ({ type: 'LoadFailed', message: { why: whyOf(error) } }),
  )
}

/** Reads details of reverted trades that are no longer in memory. */
function readTrades(state: AccountsState, context: AccountsContext): void {
  if (state.readingTrades || state.reverted.size === 0 || context.nowMs < state.nextTradesMs) return
  state.readingTrades = true
  const tradeIds = [...state.reverted.keys()].slice(0, TRADES_READ_MAX)
  context.pipe(
    state.ports.readTrades(tradeIds),
    (trades) => ({ type: 'TradesRead', message: { tradeIds, trades } }),
    (error) => ({ type: 'TradesUnread', message: { why: whyOf(error) } }),
  )
}

function catchUp(state: AccountsState, partition: number, atMs: number): void {
  state.caughtUp.set(partition, Math.max(state.caughtUp.get(partition) ?? 0, atMs))
  let least = Number.POSITIVE_INFINITY
  for (const caughtUpMs of state.caughtUp.values()) least = Math.min(least, caughtUpMs)
  state.caughtUpMs = least
}

function drop(state: AccountsState, context: AccountsContext): void {
  if (dropSome(state)) context.after(0, { type: 'Continue', message: {} })
}

/**
 * Checks whether the funds of changed accounts still cover their orders, and emits `FundsChanged` for each account that
 * the current message changed.
 */
function emitChanges(state: AccountsState, context: AccountsContext): void {
  coverChanged(state, context)
  for (const account of state.changed) {
    account.changed = false
    const { chain, trader } = account
    context.emit({ type: 'FundsChanged', chainId: chain.chainId, trader })
  }
  state.changed.length = 0
}
