/**
 * Selects the orders to cancel if a trader’s funds do not cover open orders and pending trades. Only orders that need
 * the missing token are selected, the newest first, and no more than necessary.
 *
 * The reserved need of an order contains extra units for rounding (`funds.ts`). The check uses the minimum need,
 * without these units. The order’s own fills may have used them up, and an order must not be cancelled because it
 * traded. Promises (reservations for orders in progress) are not part of the check. Their orders are checked once they
 * are in the log.
 */

import type { OrderHash } from '#domain/ids.ts'
import { BUY, byAge } from '#domain/order.ts'
import { dropClosed } from './account.ts'
import type {
  Account,
  AccountsContext,
  AccountsState,
  MarketNeeds,
  OrderNeed,
  Sums,
} from './state.ts'
import { hasUnreadMatch } from './trades.ts'

/**
 * Emits `Withdrawn` for orders of the account that its funds do not cover. Does nothing while its funds or
 * needs are not completely known.
 */
export function cover(state: AccountsState, account: Account, context: AccountsContext): void {
  const { chain } = account
  const isKnown = state.caughtUpMs > 0 && chain.isOpen && account.block >= account.wantBlock
  if (!isKnown || account.orders.size === 0) return
  if (isShort(account)) dropClosed(state, account)
  if (!isShort(account)) {
    chain.short.delete(account)
    return
  }
  chain.short.add(account)
  // The chain may have settled a trade of this account before this thread has read the trade from the log. That trade
  // may explain the missing tokens, so nothing is cancelled now. The account is checked again with each change and
  // tick.
  if (hasUnreadMatch(state, account)) return
  account.namedAtMs = context.nowMs
  name(state, account, uncovered(account), context)
}

/**
 * Checks the account again after `nameAgainMs`, so that `Withdrawn` is emitted again for orders that are
 * still in their books.
 */
export function coverAgain(state: AccountsState, account: Account, context: AccountsContext): void {
  if (context.nowMs - account.namedAtMs >= state.rules.nameAgainMs) cover(state, account, context)
}

/**
 * Checks accounts that the current message changed, because their funds may no longer cover their orders. There are
 * three possible reasons: new orders without a reservation (promise), changed funds, or fills that cost more than was
 * reserved, because of rounding.
 */
export function coverChanged(state: AccountsState, context: AccountsContext): void {
  const doubtful = new Set<Account>()
  for (const account of state.changed) {
    if (isCashShort(account) || account.chain.short.has(account)) doubtful.add(account)
  }
  for (const { account, holding, need } of state.grown) {
    if (need === 0n || holding === undefined) continue
    if (holding.held === undefined) account.chain.toRead.add(account)
    else if (!account.isApproved || lack(holding, holding.held) > 0n) doubtful.add(account)
  }
  state.grown.length = 0
  for (const account of doubtful) cover(state, account, context)
}

function isCashShort({ cash, unpermitted, balance, allowance }: Account): boolean {
  if (cash.openMin > 0n && lack(cash, balance) > 0n) return true
  return unpermitted.openMin > 0n && lack(unpermitted, allowance) > 0n
}

function isShort(account: Account): boolean {
  if (account.sales > 0 && !account.isApproved) return true
  if (isCashShort(account)) return true
  if (account.sales === 0) return false
  for (const holding of account.holdings.values()) {
    if (holding.openMin === 0n || holding.held === undefined) continue
    if (lack(holding, holding.held) > 0n) return true
  }
  return false
}

function lack({ openMin, pending }: Sums, has: bigint): bigint {
  return openMin + pending - has
}

/**
 * Compares two orders of an account by their turn to be cancelled. Orders that are already being cancelled come first,
 * so that no other order is cancelled in their place. The other orders follow, the newest first.
 */
function byTurn(a: OrderNeed, b: OrderNeed): number {
  if (a.namedAtMs > 0 !== b.namedAtMs > 0) return a.namedAtMs > 0 ? -1 : 1
  return byAge(b, a)
}

function uncovered(account: Account): OrderNeed[] {
  const found: OrderNeed[] = []
  let balance = lack(account.cash, account.balance)
  let allowance = lack(account.unpermitted, account.allowance)
  const lacks = new Map<Sums, bigint>()
  for (const order of [...account.orders].sort(byTurn)) {
    const { holding, needMin } = order
    const isPermitted = order.permit?.counts === true
    if (order.side === BUY) {
      if (balance <= 0n && (isPermitted || allowance <= 0n)) continue
      balance -= needMin
      if (!isPermitted) allowance -= needMin
      found.push(order)
    } else if (!account.isApproved) found.push(order)
    else if (holding?.held !== undefined) {
      const lacking = lacks.get(holding) ?? lack(holding, holding.held)
      if (lacking <= 0n) continue
      lacks.set(holding, lacking - needMin)
      found.push(order)
    }
  }
  return found
}

type Named = { readonly first: OrderHash[]; readonly again: OrderHash[] }

/**
 * Emits one `Withdrawn` per market with the orders to cancel. Skips orders that an earlier `Withdrawn` named less than
 * `nameAgainMs` ago.
 */
function name(
  state: AccountsState,
  account: Account,
  orders: readonly OrderNeed[],
  context: AccountsContext,
): void {
  const { nowMs } = context
  const { chain, trader } = account
  const markets = new Map<MarketNeeds, Named>()
  for (const order of orders) {
    if (order.namedAtMs > 0 && nowMs - order.namedAtMs < state.rules.nameAgainMs) continue
    let named = markets.get(order.market)
    if (named === undefined) {
      named = { first: [], again: [] }
      markets.set(order.market, named)
    }
    if (order.namedAtMs === 0) named.first.push(order.orderHash)
    else named.again.push(order.orderHash)
    order.namedAtMs = nowMs
  }
  for (const [{ marketId }, { first, again }] of markets) {
    const head = { type: 'Withdrawn', chainId: chain.chainId, marketId, trader } as const
    if (first.length > 0) context.emit({ ...head, orderHashes: first, again: false })
    if (again.length > 0) context.emit({ ...head, orderHashes: again, again: true })
  }
}
