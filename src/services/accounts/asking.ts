/** Answers requests for an account: at once if its funds are known, otherwise after a read of the chain. */

import { outcomeToken } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import { isPrice, isShares } from '#domain/money.ts'
import { BUY } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { FundsView, Granted, ReserveOrder } from '#protocol/accounts.ts'
import type { Deferred } from '#runtime/actor.ts'
import { accountOf, holdingOf, unuse, use } from './account.ts'
import { readNext } from './funds-reading.ts'
import { closedBecause, judge } from './judge.ts'
import { otherPermitFlaw, promise, promiseAgain } from './promises.ts'
import type { Account, AccountsContext, AccountsState, Asker, ChainAccounts } from './state.ts'
import { viewOf } from './view.ts'

const GRANTED: Granted = { granted: true }

type Asked = {
  readonly order: ReserveOrder
  readonly deadlineAtMs: number
  readonly promises: boolean
}

export function askFor(
  state: AccountsState,
  asked: Asked,
  context: AccountsContext,
): Granted | Rejection | Deferred {
  const { order, deadlineAtMs } = asked
  const { orderHash } = order
  // An order that its market already knows, or an invalid order, is granted without a reservation. The market itself
  // answers the order.
  const isKnown =
    state.orders.has(orderHash) || state.ended.has(orderHash) || state.endedBefore.has(orderHash)
  if (isKnown || !isPrice(order.price) || !isShares(order.size)) return GRANTED
  const chain = state.chains.get(order.chainId)
  const closed = notHere(state, chain, order.trader, context.nowMs)
  if (chain === undefined || closed !== undefined) return refused(closed, context)
  const other = otherPermitFlaw(state, order)
  if (other !== undefined) return refused(other, context)
  if (asked.promises && promiseAgain(state, orderHash, deadlineAtMs)) return GRANTED
  if (state.promises.has(orderHash)) return GRANTED
  const account = accountOf(state, chain, order.trader)
  if (account.uses === 0) touch(account)
  const answer = answerTo(state, account, asked)
  if (answer === undefined) return wait(state, account, asked, context)
  return isRejection(answer) ? refused(answer, context) : answer
}

export function viewFor(
  state: AccountsState,
  asked: { readonly chainId: number; readonly trader: Address; readonly deadlineAtMs: number },
  context: AccountsContext,
): FundsView | Rejection | Deferred {
  const chain = state.chains.get(asked.chainId)
  const closed = notHere(state, chain, asked.trader, context.nowMs)
  if (chain === undefined || closed !== undefined) return closed ?? reject('INTERNAL')
  const account = accountOf(state, chain, asked.trader)
  if (account.uses === 0) touch(account)
  if (account.block >= account.wantBlock) return viewOf(account)
  const { deadlineAtMs } = asked
  return wait(state, account, { order: undefined, promises: false, deadlineAtMs }, context)
}

/** Returns the rejection if this thread cannot answer the request now, otherwise undefined. */
function notHere(
  state: AccountsState,
  chain: ChainAccounts | undefined,
  trader: Address,
  nowMs: number,
): Rejection | undefined {
  if (chain === undefined) {
    return reject(
      'CHAIN_UNAVAILABLE',
      undefined,
      'this exchange does not read the balances of traders on this chain',
    )
  }
  if (!state.rules.isMine(trader)) return reject('INTERNAL')
  return closedBecause(state, chain, nowMs)
}

function refused(rejection: Rejection | undefined, context: AccountsContext): Rejection {
  const answer = rejection ?? reject('INTERNAL')
  context.emit({ type: 'Refused', code: answer.rejected })
  return answer
}

/** Moves an idle account to the end of the list, so that it is removed from memory last. */
function touch(account: Account): void {
  account.chain.idle.delete(account)
  account.chain.idle.add(account)
}

/** Returns the answer to a request; undefined if the chain must be read first. */
function answerTo(
  state: AccountsState,
  account: Account,
  { order, deadlineAtMs, promises }: Asked,
): Granted | Rejection | undefined {
  const judged = judge(state, account, order)
  if (judged === undefined || isRejection(judged)) return judged
  if (!promises) return GRANTED
  if (state.promises.size >= state.rules.promisesMax) {
    return reject(
      'OVERLOADED',
      undefined,
      'the exchange is processing too many orders: retry shortly',
    )
  }
  promise(state, order, { account, ...judged }, deadlineAtMs)
  return GRANTED
}

function wait(
  state: AccountsState,
  account: Account,
  asked: Omit<Asked, 'order'> & { readonly order: ReserveOrder | undefined },
  context: AccountsContext,
): Deferred | Rejection {
  const { waitingMax, waitingPerOwnerMax } = state.rules
  // Anyone may read a trader’s funds. To keep room for orders, requests that reserve nothing may fill only half of the
  // queue.
  const share = asked.promises ? 1 : 0.5
  const isFull =
    state.waiting >= share * waitingMax || account.waiting.length >= share * waitingPerOwnerMax
  if (isFull) {
    const detail = 'too many requests wait for funds to be read from the chain: retry shortly'
    return refused(reject('OVERLOADED', undefined, detail), context)
  }
  const { order } = asked
  // Include the balance of the order’s token in the account’s next read.
  if (order !== undefined && order.side !== BUY) {
    holdingOf(account, outcomeToken(order.marketId, order.outcome))
  }
  const ticket = context.defer()
  account.waiting.push({ ticket, ...asked })
  state.waiting++
  use(account)
  account.chain.asked.add(account)
  state.waitedFor.add(account)
  readNext(account.chain, context)
  return ticket
}

/** Answers the requests that wait for the account, after its funds were read. */
export function answerWaiting(
  state: AccountsState,
  account: Account,
  context: AccountsContext,
): void {
  if (account.waiting.length === 0) return
  const { chain } = account
  const closed = closedBecause(state, chain, context.nowMs)
  const waiting = account.waiting.splice(0)
  for (const asker of waiting) {
    const answer = closed ?? answerNow(state, account, asker)
    if (answer === undefined) account.waiting.push(asker)
    else answered(state, account, { asker, answer }, context)
  }
  if (account.waiting.length > 0) chain.asked.add(account)
  else notWaitedFor(state, account)
}

function answerNow(
  state: AccountsState,
  account: Account,
  { order, deadlineAtMs, promises }: Asker,
): Granted | FundsView | Rejection | undefined {
  if (order === undefined) {
    return account.block < account.wantBlock ? undefined : viewOf(account)
  }
  const { orderHash } = order
  if (state.orders.has(orderHash)) return GRANTED
  const other = otherPermitFlaw(state, order)
  if (other !== undefined) return other
  if (promises && promiseAgain(state, orderHash, deadlineAtMs)) return GRANTED
  return answerTo(state, account, { order, deadlineAtMs, promises })
}

/** Refuses the requests that wait for the account. */
export function refuseWaiting(
  state: AccountsState,
  account: Account,
  answer: Rejection,
  context: AccountsContext,
): void {
  notWaitedFor(state, account)
  for (const asker of account.waiting.splice(0)) {
    answered(state, account, { asker, answer }, context)
  }
}

function answered(
  state: AccountsState,
  account: Account,
  { asker, answer }: { asker: Asker; answer: Granted | FundsView | Rejection },
  context: AccountsContext,
): void {
  state.waiting--
  if (isRejection(answer) && asker.order !== undefined) {
    context.emit({ type: 'Refused', code: answer.rejected })
  }
  context.answer(asker.ticket, answer)
  unuse(state, account)
}

/** Refuses waiting requests whose deadline has passed. */
export function expireWaiting(state: AccountsState, context: AccountsContext): void {
  const answer = reject(
    'CHAIN_UNAVAILABLE',
    undefined,
    'the funds of the trader could not be read from the chain in time: retry shortly',
  )
  for (const account of state.waitedFor) {
    for (const asker of account.waiting.splice(0)) {
      if (asker.deadlineAtMs > context.nowMs) account.waiting.push(asker)
      else answered(state, account, { asker, answer }, context)
    }
    if (account.waiting.length === 0) notWaitedFor(state, account)
  }
}

function notWaitedFor(state: AccountsState, account: Account): void {
  account.chain.asked.delete(account)
  state.waitedFor.delete(account)
}
