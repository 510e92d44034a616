/**
 * Compares what accounts have kept with what the database and the logs add up to afresh. Promises and funds
 * are not derived from them, and not compared.
 */

import { outcomeToken } from '#domain/funds.ts'
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

/** The most differences that are told; a reader needs no more. */
const DIFFERENCES_MAX = 1_000

/** `events` are those behind the load's checkpoints, up to what the accounts have read. */
export function auditAccounts(
  state: AccountsState,
  loaded: LoadedAccounts,
  events: readonly MarketEvent[],
): AccountsDifference[] {
  const fresh = newAccounts(state.ports, state.rules)
  take(fresh, loaded)
  for (const event of events) fold(fresh, event)
  // Those that came back have their details in no event; what is kept of them is all there is.
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

type Needs = { open: bigint; pending: bigint }

function told({ open, pending }: Needs = { open: 0n, pending: 0n }): string {
  return `${open} for open orders, ${pending} for pending trades`
}

/** By owner and token: the sums as they are kept, with every trade that is pending and no other. */
function needsOf({ chains, trades }: AccountsState): Map<string, Needs> {
  const needs = new Map<string, Needs>()
  const of = (name: string): Needs => {
    const known = needs.get(name) ?? { open: 0n, pending: 0n }
    needs.set(name, known)
    return known
  }
  const add = (name: string, { open, pending }: Sums): void => {
    const sums = of(name)
    sums.open += open
    sums.pending += pending
  }
  for (const { accounts } of chains.values()) {
    for (const account of accounts.values()) {
      add(nameOf(account, 'stablecoin'), account.cash)
      add(nameOf(account, 'allowance'), account.unpermitted)
      for (const holding of account.holdings.values()) add(nameOf(account, holding.token), holding)
    }
  }
  for (const need of trades.values()) {
    const { trade, buyer, seller } = need
    if (buyer !== undefined) {
      const more = missing(need, need.isBuyerCounted) * BigInt(costCeil(trade.price, trade.size))
      of(nameOf(buyer, 'stablecoin')).pending += more
      if (!trade.permit) of(nameOf(buyer, 'allowance')).pending += more
    }
    if (seller !== undefined) {
      const token = outcomeToken(trade.marketId, trade.outcome)
      const more = missing(need, need.isSellerCounted) * BigInt(trade.size)
      of(nameOf(seller, token)).pending += more
    }
  }
  return needs
}

/** The chain may be ahead of a trade's market, or behind it; here the market is what counts. */
function missing({ confirmed }: TradeNeed, isCounted: boolean): bigint {
  if (confirmed === !isCounted) return 0n
  return isCounted ? -1n : 1n
}

function nameOf({ chain, trader }: Account, what: string): string {
  return `${what} of ${trader} on chain ${chain.chainId}`
}
