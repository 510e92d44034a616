/**
 * Accounts: one per trader and chain. An account holds the trader's funds on the chain and the sums of the trader's
 * needs. Needs are the amounts that open orders, unsettled trades and granted reservations take. All changes of needs
 * go through this file, so the sums are always current and never need to be recomputed.
 */

import {
  type FundsToken,
  type NeedsOrder,
  type NeedsTrade,
  needMinOf,
  needOf,
  outcomeToken,
} from '#domain/funds.ts'
import type { Address, OrderHash, Uint64 } from '#domain/ids.ts'
import type { Shares } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import { buyerAmount, buyerLeg, sellerAmount, sellerLeg } from '#domain/trade-legs.ts'
import { addAllowed, dropPermit, holdPermit, newSums } from './permits.ts'
import type {
  Account,
  AccountsState,
  ChainAccounts,
  Holding,
  MarketNeeds,
  OrderNeed,
  Promised,
  Sums,
  TradeNeed,
} from './state.ts'

/**
 * Maximum number of idle tokens per account. No order or trade needs these tokens, but their balances are still read. A
 * new order for an idle token then does not have to wait for the chain.
 */
export const IDLE_TOKENS_MAX = 16

/** Maximum number of hashes in each of the two sets of recently ended orders (new and old). */
const ENDED_MAX = 50_000

/** Returns the account; creates and watches it if it does not exist. */
export function accountOf(state: AccountsState, chain: ChainAccounts, trader: Address): Account {
  const known = chain.accounts.get(trader)
  if (known !== undefined) return known
  const account: Account = {
    trader,
    chain,
    cash: newSums(),
    unpermitted: newSums(),
    permits: new Map(),
    nonces: new Map(),
    permitsFrom: 0n,
    permitsEnd: 0n,
    holdings: new Map(),
    block: -1,
    balance: 0n,
    allowance: 0n,
    nonce: 0n,
    isApproved: false,
    wantBlock: chain.place?.block ?? 0,
    orders: new Set(),
    settled: new Set(),
    waiting: [],
    uses: 0,
    reading: false,
    changed: false,
    sales: 0,
    namedAtMs: 0,
  }
  chain.accounts.set(trader, account)
  chain.watched.add(trader)
  chain.idle.add(account)
  if (chain.stepping) chain.unseen.add(account)
  forgetIdle(state, chain)
  return account
}

export function holdingOf(account: Account, token: FundsToken): Holding {
  let holding = account.holdings.get(token)
  if (holding === undefined) {
    holding = { token, held: undefined, ...newSums() }
    account.holdings.set(token, holding)
  }
  return holding
}

/** Counts one more use of the account. An idle account becomes busy. */
export function use(account: Account): void {
  if (account.uses++ > 0) return
  account.chain.idle.delete(account)
  account.chain.busy.add(account)
}

export function unuse(state: AccountsState, account: Account): void {
  if (--account.uses > 0) return
  const { chain } = account
  chain.busy.delete(account)
  chain.short.delete(account)
  chain.idle.add(account)
  forgetIdle(state, chain)
}

/** If too many accounts are idle, removes the least recently used one. At least one idle account stays. */
function forgetIdle(state: AccountsState, chain: ChainAccounts): void {
  if (chain.idle.size <= Math.max(1, state.rules.idleMax)) return
  for (const oldest of chain.idle) {
    forget(oldest)
    break
  }
}

/** Removes an idle account from memory. The next request for the account reads the chain again. */
export function forget(account: Account): void {
  const { chain, trader } = account
  chain.idle.delete(account)
  chain.accounts.delete(trader)
  chain.watched.delete(trader)
  chain.unseen.delete(account)
  chain.toRead.delete(account)
}

/** Adds the account to the list of accounts that the current message changed. */
export function changed(state: AccountsState, account: Account): void {
  if (account.changed) return
  account.changed = true
  state.changed.push(account)
}

type NewOrder = Pick<OrderNeed, 'orderHash' | 'side' | 'price' | 'placedAtMs'> &
  Pick<NeedsOrder, 'permit'>

export function openOrder(
  state: AccountsState,
  market: MarketNeeds,
  owner: { readonly trader: Address; readonly token: FundsToken },
  { orderHash, side, price, permit, placedAtMs }: NewOrder,
): OrderNeed {
  const account = accountOf(state, market.chain, owner.trader)
  const order: OrderNeed = {
    orderHash,
    account,
    market,
    holding: side === SELL ? holdingOf(account, owner.token) : undefined,
    side,
    price,
    permit: side === BUY ? holdPermit(account, orderHash, permit) : undefined,
    placedAtMs,
    need: 0n,
    needMin: 0n,
    namedAtMs: 0,
  }
  state.orders.set(orderHash, order)
  market.orders.add(order)
  account.orders.add(order)
  if (side === SELL) account.sales++
  use(account)
  return order
}

/** Sets the open size of the order. A size of 0 ends the order. */
export function setRemaining(state: AccountsState, order: OrderNeed, remaining: number): void {
  const need = remaining === 0 ? 0n : BigInt(needOf(order, remaining as Shares))
  const needMin = remaining === 0 ? 0n : BigInt(needMinOf(order, remaining as Shares))
  const { account, holding } = order
  const more = need - order.need
  const moreMin = needMin - order.needMin
  if (more > 0n) state.grown.push(order)
  addOpen(holding ?? account.cash, more, moreMin)
  if (holding === undefined) {
    addAllowed(account, order.permit, { open: more, openMin: moreMin })
  }
  order.need = need
  order.needMin = needMin
  changed(state, account)
  if (remaining === 0) removeOrder(state, order)
}

function addOpen(sums: Sums, more: bigint, moreMin: bigint): void {
  sums.open += more
  sums.openMin += moreMin
}

function removeOrder(state: AccountsState, order: OrderNeed): void {
  const { account, market, orderHash } = order
  state.orders.delete(orderHash)
  market.orders.delete(order)
  account.orders.delete(order)
  dropPermit(account, order.permit)
  if (order.side === SELL) account.sales--
  unuse(state, account)
}

/**
 * Removes one account's orders of closed markets at once. Orders of other accounts in these markets are removed later,
 * in several steps.
 */
export function dropClosed(state: AccountsState, account: Account): void {
  if (state.closing.length === 0) return
  for (const order of account.orders) if (order.market.closed) setRemaining(state, order, 0)
}

/**
 * Remembers the hash of an ended order. If a client sends the order again, this thread grants it without a reservation,
 * and its market answers it.
 */
export function noteEnded(state: AccountsState, orderHash: OrderHash): void {
  if (state.ended.size >= ENDED_MAX) {
    state.endedBefore = state.ended
    state.ended = new Set()
  }
  state.ended.add(orderHash)
}

export function countBuyer(state: AccountsState, need: TradeNeed, counted: boolean): void {
  const { buyer, trade } = need
  if (buyer === undefined || need.isBuyerCounted === counted) return
  const { side, outcome } = buyerLeg(trade)
  if (side === BUY) need.permit = countPaid(buyer, need.permit, paidByBuyer(trade), counted)
  else countDelivered(state, buyer, { ...trade, outcome }, counted)
  need.isBuyerCounted = counted
  changed(state, buyer)
}

/** Payment of collateral by one side of a trade: the order of that side, the order's permit, and the amount. */
type Paid = {
  readonly orderHash: OrderHash
  readonly permit: Uint64 | undefined
  readonly cost: bigint
}

function paidByBuyer(trade: NeedsTrade): Paid {
  const { buyOrderHash: orderHash, permit } = trade
  return { orderHash, permit, cost: BigInt(buyerAmount(trade)) }
}

function paidBySeller(trade: NeedsTrade): Paid {
  const { sellOrderHash: orderHash, sellPermit: permit } = trade
  return { orderHash, permit, cost: BigInt(sellerAmount(trade)) }
}

/**
 * Adds the paid collateral to the account’s needs, or subtracts it if `counted` is false. Returns the permit that the
 * payment now uses; undefined if it uses none.
 */
function countPaid(
  account: Account,
  before: TradeNeed['permit'],
  { orderHash, permit, cost }: Paid,
  counted: boolean,
): TradeNeed['permit'] {
  const more = counted ? cost : -cost
  account.cash.pending += more
  const held = counted ? holdPermit(account, orderHash, permit) : before
  addAllowed(account, held, { pending: more })
  if (counted) return held
  dropPermit(account, held)
  return undefined
}

function countDelivered(
  state: AccountsState,
  account: Account,
  { marketId, outcome, size }: Pick<NeedsTrade, 'marketId' | 'outcome' | 'size'>,
  counted: boolean,
): void {
  const holding = holdingOf(account, outcomeToken(marketId, outcome))
  const need = BigInt(size)
  holding.pending += counted ? need : -need
  // Add the need to `grown`, so that `coverChanged` compares it with the funds. A sell order that is filled at once
  // never rests in a book, so nothing else adds it. Its reservation may have been granted before a reorg, so the funds
  // may no longer suffice.
  if (counted) state.grown.push({ account, holding, need })
}

export function countSeller(state: AccountsState, need: TradeNeed, counted: boolean): void {
  const { seller, trade } = need
  if (seller === undefined || need.isSellerCounted === counted) return
  const { side, outcome } = sellerLeg(trade)
  if (side === BUY)
    need.sellPermit = countPaid(seller, need.sellPermit, paidBySeller(trade), counted)
  else countDelivered(state, seller, { ...trade, outcome }, counted)
  need.isSellerCounted = counted
  changed(state, seller)
}

export function addPromise(state: AccountsState, promised: Promised): void {
  const { account, holding, need, permit, orderHash } = promised
  state.promises.set(orderHash, promised)
  const sums = holding ?? account.cash
  sums.promised += need
  if (holding === undefined) addAllowed(account, permit, { promised: need })
  use(account)
  changed(state, account)
}

export function removePromise(state: AccountsState, promised: Promised): void {
  const { account, holding, need, permit, orderHash } = promised
  state.promises.delete(orderHash)
  const sums = holding ?? account.cash
  sums.promised -= need
  if (holding === undefined) addAllowed(account, permit, { promised: -need })
  dropPermit(account, permit)
  changed(state, account)
  unuse(state, account)
}
