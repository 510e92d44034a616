/**
 * Compares the accounts' sums with a fresh computation from the database and the logs. Promises and funds are not
 * derived from them and not compared.
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

/** `events`: those after the checkpoints of the load, up to the position that the accounts have read. */
export function auditAccounts(
  state: AccountsState,
  loaded: LoadedAccounts,
  events: readonly MarketEvent[],
): AccountsDifference[] {
  const fresh = newAccounts(state.ports, state.rules)
  take(fresh, loaded)
  for (const event of events) fold(fresh, event)
  // No event contains the details of reverted trades, so they are taken from the accounts' own state.
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
    const is = told(kept.get(what))
    const should = told(expected.get(what))
    if (is === should || differences.length >= DIFFERENCES_MAX) continue
    differences.push({ what, kept: is, expected: should })
  }
  return differences
}

/** An account's needs for one token; `allowance` counts those that need an allowance. */
type Needs = {
  readonly account: Account
  readonly what: FundsToken | 'allowance'
  open: bigint
  pending: bigint
}

function told({ open, pending }: Pick<Needs, 'open' | 'pending'> = { open: 0n, pending: 0n }) {
  return `${open} for open orders, ${pending} for pending trades`
}

/** Returns the sums by owner and token, with exactly the pending trades. */
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
      // The log does not know which permits count, so needs with a permit are left out of the allowance here.
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

/** A trade's market and the chain may differ in whether it is settled; the audit follows the market. */
function missing({ confirmed }: TradeNeed, isCounted: boolean): bigint {
  if (confirmed === !isCounted) return 0n
  return isCounted ? -1n : 1n
}

export function nameOf({ chain, trader }: Account, what: string): string {
  return `${what} of ${trader} on chain ${chain.chainId}`
}
