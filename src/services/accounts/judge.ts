/**
 * Decides whether a trader’s funds cover a new order in addition to all open, pending and reserved needs. An order’s
 * need is the amount that the order takes: dollars for a buy, shares for a sale.
 */

import { needOf, outcomeToken } from '#domain/funds.ts'
import type { Uint64 } from '#domain/ids.ts'
import { BUY, YES } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { ReserveOrder } from '#protocol/accounts.ts'
import { dropClosed, holdingOf } from './account.ts'
import { permitNonceFlaw } from './permits.ts'
import type { Account, AccountsState, ChainAccounts, Holding, Sums } from './state.ts'
import { hasUnreadMatch } from './trades.ts'

/** Returns why no order is accepted on this chain at present; undefined if funds can be reserved. */
export function closedBecause(
  state: AccountsState,
  chain: ChainAccounts,
  nowMs: number,
): Rejection | undefined {
  const starting = startingBecause(state)
  if (starting !== '') return reject('OVERLOADED', undefined, starting)
  const { trouble, place, steppedAtMs } = chain
  if (place === undefined || nowMs - steppedAtMs >= state.rules.staleMs) {
    const why = trouble === '' ? 'the chain has not answered in time' : trouble
    return reject('CHAIN_UNAVAILABLE', undefined, `funds cannot be read from the chain now: ${why}`)
  }
  if (chain.isOpen) return undefined
  return reject(
    'OVERLOADED',
    undefined,
    'the exchange is still reading the trades that the chain has settled: retry shortly',
  )
}

/** Returns why the needs of orders and trades are not completely known yet; empty if they are. */
export function startingBecause(state: AccountsState): string {
  if (state.phase !== 'loaded' || state.caughtUpMs === 0)
    return 'the exchange has restarted and is still reading reserved funds: retry shortly'
  if (state.caughtUpMs < state.startedAtMs + state.rules.quietMs) {
    return 'the exchange has restarted and waits for orders that were accepted before the restart: retry shortly'
  }
  if (state.reverted.size > 0)
    return 'the exchange is still reading the trades that a chain reorg has undone: retry shortly'
  return ''
}

/**
 * Result of judging an order: the holding of the token to sell (undefined for a buy), and the amount that the order
 * needs.
 */
type Judged = { readonly holding: Holding | undefined; readonly need: bigint }

/** Judges an order. Returns the order's holding and need, or a rejection; undefined if the chain must be read first. */
export function judge(
  state: AccountsState,
  account: Account,
  order: ReserveOrder,
): Judged | Rejection | undefined {
  const judged = compared(state, account, order)
  if (judged === undefined || !isRejection(judged) || !hasUnreadMatch(state, account)) return judged
  // The chain has settled a trade of this owner before this thread has read the trade from the log. That trade may
  // explain the missing amount, so the client must retry.
  return reject(
    'OVERLOADED',
    undefined,
    'the exchange is still reading the trades that the chain has settled: retry shortly',
  )
}

function compared(
  state: AccountsState,
  account: Account,
  order: ReserveOrder,
): Judged | Rejection | undefined {
  if (account.block < account.wantBlock) return undefined
  const buys = order.side === BUY
  const holding = buys ? undefined : holdingOf(account, outcomeToken(order.marketId, order.outcome))
  const held = holding === undefined ? account.balance : holding.held
  if (held === undefined) return undefined
  const flaw = order.permit === undefined ? undefined : permitFlaw(state, account, order.permit)
  if (buys && flaw !== undefined) return flaw
  const need = BigInt(needOf(order, order.size))
  const narrow = buys ? permitValueFlaw(state, account, order, need) : undefined
  if (narrow !== undefined) return narrow
  const sums = holding ?? account.cash
  const name = buys
    ? 'the stablecoin'
    : `${order.outcome === YES ? 'YES' : 'NO'} shares of this market`
  if (lacks(state, account, { sums, has: held, need })) {
    return reject(
      'INSUFFICIENT_FUNDS',
      undefined,
      words({ name, from: 'the trader has', sums, has: held, need }),
    )
  }
  if (!buys && !account.isApproved) {
    return reject(
      'INSUFFICIENT_ALLOWANCE',
      undefined,
      `the order needs ${need} millionths of ${name}, and the trader has not approved the settlement contract to move them: ` +
        'sign the approval first',
    )
  }
  const { unpermitted, allowance } = account
  if (
    buys &&
    order.permit === undefined &&
    lacks(state, account, { sums: unpermitted, has: allowance, need })
  ) {
    const all = { name, from: 'the allowance is', sums: unpermitted, has: allowance, need }
    return reject('INSUFFICIENT_ALLOWANCE', undefined, words(all))
  }
  return { holding, need }
}

function permitFlaw(state: AccountsState, account: Account, permit: Uint64): Rejection | undefined {
  if (permitNonceFlaw(account, permit) === undefined) return undefined
  // Orders of a closed market may still use permit nonces: remove these orders and check again.
  dropClosed(state, account)
  return permitNonceFlaw(account, permit)
}

/**
 * Rejects a permit that follows other open permits, if its value does not cover all payments of the trader. Each permit
 * replaces the allowance of the one before, and any account may submit a permit. If each later permit covers all
 * payments, settlement can send all permits together. Otherwise it would have to wait for the block of each permit.
 * During these waits, the trader could make the last trade fail.
 */
function permitValueFlaw(
  state: AccountsState,
  account: Account,
  { permitValue }: ReserveOrder,
  need: bigint,
): Rejection | undefined {
  const isFirst = account.permitsEnd === account.nonce
  if (permitValue === undefined || isFirst) return undefined
  if (!lacks(state, account, { sums: account.cash, has: BigInt(permitValue), need })) {
    return undefined
  }
  const field = 'permitSignature.value'
  const others = reserved(account.cash)
  const why = "this permit replaces the allowance of the trader's earlier permits"
  const detail =
    `${field} must be at least ${others + need}: ${why}, so it must cover ${others} for other buys and ${need} ` +
    'for this order'
  return reject('INVALID_PERMIT', field, detail)
}

function lacks(
  state: AccountsState,
  account: Account,
  { sums, has, need }: { readonly sums: Sums; readonly has: bigint; readonly need: bigint },
): boolean {
  if (reserved(sums) + need <= has) return false
  // Orders of a closed market may still be part of the sums: remove these orders and compare again.
  dropClosed(state, account)
  return reserved(sums) + need > has
}

function reserved({ open, promised, pending }: Sums): bigint {
  return open + promised + pending
}

function words(all: {
  readonly name: string
  /** Words that introduce the available amount in the message: `the trader has` or `the allowance is`. */
  readonly from: string
  readonly sums: Sums
  readonly has: bigint
  readonly need: bigint
}): string {
  const { name, from, sums, has, need } = all
  const missing = reserved(sums) + need - has
  return (
    `the order needs ${need} millionths of ${name}, but ${missing} are missing: ${from} ${has}, open orders reserve ` +
    `${sums.open + sums.promised}, and unsettled trades reserve ${sums.pending}`
  )
}
