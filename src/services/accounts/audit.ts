/**
 * Compares the accounts' sums with a fresh computation from the database and the logs. Reservations (promises) and
 * funds are not compared, because the database and the logs do not contain them.
 */

import { type FundsToken, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { BUY } from '#domain/order.ts'
import { buyerAmount, buyerLeg, sellerAmount, sellerLeg } from '#domain/trade-legs.ts'
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
 * The needs of an account for one token. If `what` is `allowance`, the amounts are the stablecoin needs that require an
 * allowance.
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
      // The log does not show which permits the token would accept. So the audit leaves all orders with a permit out of
      // the allowance needs.
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
    for (const { account, isCounted, token, amount, permit } of sidesOf(need)) {
      const more = missing(need, isCounted) * BigInt(amount)
      of(account, token).pending += more
      if (token === STABLECOIN && permit === undefined) of(account, 'allowance').pending += more
    }
  }
  return needs
}

/**
 * One side of a trade, for a trader with an account in this thread. The side needs `amount` of `token`; `permit` is the
 * permit of the side's order.
 */
type TradeSide = {
  readonly account: Account
  readonly isCounted: boolean
  readonly token: FundsToken
  readonly amount: number
  readonly permit: TradeNeed['trade']['permit']
}

/**
 * Returns the sides of a trade, without a side whose trader has no account in this thread. A buying side needs dollars,
 * a selling side needs shares.
 */
export function sidesOf(need: TradeNeed): TradeSide[] {
  const { trade, buyer, seller, isBuyerCounted, isSellerCounted } = need
  const needed = (
    { side, outcome }: ReturnType<typeof buyerLeg>,
    paid: number,
  ): Pick<TradeSide, 'token' | 'amount'> =>
    side === BUY
      ? { token: STABLECOIN, amount: paid }
      : { token: outcomeToken(trade.marketId, outcome), amount: trade.size }
  const sides: TradeSide[] = []
  if (buyer !== undefined) {
    const needs = needed(buyerLeg(trade), buyerAmount(trade))
    sides.push({ account: buyer, isCounted: isBuyerCounted, permit: trade.permit, ...needs })
  }
  if (seller !== undefined) {
    const needs = needed(sellerLeg(trade), sellerAmount(trade))
    sides.push({ account: seller, isCounted: isSellerCounted, permit: trade.sellPermit, ...needs })
  }
  return sides
}

/**
 * Returns the sign with which a trade's amount corrects the accounts' sum to the audit's sum: 1 adds the amount, -1
 * subtracts it, 0 changes nothing. The audit counts a trade until its market confirms the trade. The accounts count it
 * until the owner's funds, as read from the chain, include its settlement.
 */
function missing({ confirmed }: TradeNeed, isCounted: boolean): bigint {
  if (confirmed === !isCounted) return 0n
  return isCounted ? -1n : 1n
}

export function nameOf({ chain, trader }: Account, what: string): string {
  return `${what} of ${trader} on chain ${chain.chainId}`
}
