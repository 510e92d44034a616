/**
 * Compares the accounts' sums with a fresh computation from the database and the logs. Reservations (promises) and
 * funds are not compared, because the database and the logs do not contain them.
 */

import { type FundsToken, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { costCeil } from '#domain/money.ts'
import { dropSome, fold, take } from './fold.ts'
import { newAccounts } from './new-accounts.ts'
import type {
  Account,
  AccountsDifference,
  AccountsState,
  LoadedAccounts,
  Sums,
  TradeNeed,
} from './state.ts'
import { addTrade, confirmTrade } from './trades.ts'

/** Maximum number of reported differences. */
const DIFFERENCES_MAX = 1_000

/**
 * Returns the differences between the accounts’ sums and sums computed anew from `loaded` and `events`. The events
 * begin after the checkpoints of `loaded` and end with the last event that the accounts thread has read.
 */
export function auditAccounts(
  state: AccountsState,
  loaded: LoadedAccounts,
  events: readonly MarketEvent[],
): AccountsDifference[] {
  const fresh = newAccounts(state.ports, state.rules)
  take(fresh, loaded)
  for (const event of events) fold(fresh, event)
  // The log does not contain the details of reverted trades, so they are taken from the accounts' own state.
  for (const [tradeId, isConfirmed] of fresh.reverted) {
    const known = state.trades.get(tradeId)
    const chain = known && fresh.chains.get(known.chain.chainId)
    if (known === undefined || chain === undefined) continue
    addTrade(fresh, chain, known.trade)
    if (isConfirmed) confirmTrade(fresh, tradeId)
  }
  for (const one of [state, fresh]) while (dropSome(one));
  const kept = needsOf(state)
  const expected = needsOf(fresh)
  const differences: AccountsDifference[] = []
  for (const what of new Set([...kept.keys(), ...expected.keys()])) {
    const is = describe(kept.get(what))
    const should = describe(expected.get(what))
    if (is === should || differences.length >= DIFFERENCES_MAX) continue
    differences.push({ what, kept: is, expected: should })
  }
  return differences
}

/**
 * An account's needs for one token, or, as `allowance`, the part of its stablecoin needs that requires an allowance.
 */
type Needs = {
  readonly account: Account
  readonly what: FundsToken | 'allowance'
  open: bigint
  pending: bigint
}

function describe({ open, pending }: Pick<Needs, 'open' | 'pending'> = { open: 0n, pending: 0n }) {
  return `${open} for open orders, ${pending} for pending trades`
}

/**
 * Returns the needs by owner and token. A trade counts as pending until its market confirms it, even if the chain has
 * settled it.
 */
export function needsOf({ chains, trades }: AccountsState): Map<string, Needs> {
  const needs = new Map<string, Needs>()
  const of = (account: Account, what: Needs['what']): Needs => {
    const name = nameOf(account, what)
    const known = needs.get(name) ?? { account, what, open: 0n, pending: 0n }
    needs.set(name, known)
    return known
  }
  const add = (account: Account, what: Needs['what'], { open, pending }: Sums): void => {
    const sums = of(account, what)
    sums.open += open
    sums.pending += pending
  }
  for (const { accounts } of chains.values()) {
    for (const account of accounts.values()) {
      add(account, STABLECOIN, account.cash)
      add(account, 'allowance', account.unpermitted)
      // The log does not show which permits the token would accept. So here the allowance needs leave out all orders
      // with a permit.
      for (const { counts, needs: permitted } of account.permits.values()) {
        if (counts) continue
        const sums = of(account, 'allowance')
        sums.open -= permitted.open
        sums.pending -= permitted.pending
      }
      for (const holding of account.holdings.values()) add(account, holding.token, holding)
    }
  }
  for (const need of trades.values()) {
    const { trade, buyer, seller } = need
    if (buyer !== undefined) {
      const more = missing(need, need.isBuyerCounted) * BigInt(costCeil(trade.price, trade.size))
      of(buyer, STABLECOIN).pending += more
      if (trade.permit === undefined) of(buyer, 'allowance').pending += more
    }
    if (seller !== undefined) {
      const token = outcomeToken(trade.marketId, trade.outcome)
      of(seller, token).pending += missing(need, need.isSellerCounted) * BigInt(trade.size)
    }
  }
  return needs
}

/**
 * Returns the factor (-1, 0 or 1) with which a trade corrects a sum. The audit counts a trade until its market confirms
 * it; the accounts count the trade until the chain settles it.
 */
function missing({ confirmed }: TradeNeed, isCounted: boolean): bigint {
  if (confirmed === !isCounted) return 0n
  return isCounted ? -1n : 1n
}

export function nameOf({ chain, trader }: Account, what: string): string {
  return `${what} of ${trader} on chain ${chain.chainId}`
}
