/**
 * Checks each trader's funds in the exchange. The reservations must equal what the trader's open orders and pending
 * trades need. The holdings must equal those on the chain.
 */

import type { FundsToken } from '#domain/funds.ts'
import { needMinOf, needOf, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import { costCeil, type Shares } from '#domain/money.ts'
import { BUY } from '#domain/order.ts'
import type { FundsView } from '#protocol/accounts.ts'
import type { SimulatedChain } from './chain/chain.ts'
import type { KnownTrade } from './market-model.ts'
import type { Oracle } from './oracle.ts'

type NeedRules = {
  /** Returns whether an undecided trade still needs funds of its traders. If undefined, every undecided trade does. */
  readonly isPending?: (trade: KnownTrade) => boolean
  readonly needOpen?: typeof needOf
}

/** Returns the amounts that a trader's open orders and pending trades need, by token, computed from the log. */
function needsOf(
  oracle: Oracle,
  trader: Address,
  { isPending = () => true, needOpen = needOf }: NeedRules = {},
): Map<FundsToken, [open: bigint, pending: bigint]> {
  const needs = new Map<FundsToken, [bigint, bigint]>()
  const add = (token: FundsToken, at: 0 | 1, amount: number) => {
    const sums = needs.get(token) ?? [0n, 0n]
    sums[at] += BigInt(amount)
    needs.set(token, sums)
  }
  for (const model of oracle.markets.values()) {
    for (const orderHash of model.openOrders(trader)) {
      const { order } = model.orders.get(orderHash)!
      const remaining = model.remainingOf(orderHash) as Shares
      const token = order.side === BUY ? STABLECOIN : outcomeToken(order.marketId, order.outcome)
      add(token, 0, needOpen(order, remaining))
    }
    for (const trade of model.undecided) {
      if (!isPending(trade)) continue
      const { buy, sell, price, size } = trade
      if (buy.trader === trader) add(STABLECOIN, 1, costCeil(price, size))
      if (sell.trader === trader) add(outcomeToken(sell.marketId, sell.outcome), 1, size)
    }
  }
  return needs
}

/**
 * Describes the first wrong amount in the view: a reservation, or the trader's holding of a token. Returns undefined if
 * every amount is right.
 */
export function reservationFlaw(
  view: FundsView,
  oracle: Oracle,
  chain: SimulatedChain,
): string | undefined {
  const { trader, blockNumber } = view
  const needs = needsOf(oracle, trader)
  const wallet = chain.blocks[blockNumber]?.wallets.get(trader)
  const tokens = new Map(view.tokens.map((funds) => [funds.token, funds]))
  for (const [token, [open, pending]] of needs) {
    const { reservedOpen = '0', reservedPending = '0' } = tokens.get(token) ?? {}
    if (reservedOpen !== String(open) || reservedPending !== String(pending)) {
      return `${trader} ${token}: ${reservedOpen} and ${reservedPending}, not ${open} and ${pending}`
    }
  }
  for (const { token, held, reservedOpen, reservedPending } of view.tokens) {
    if (!needs.has(token) && (reservedOpen !== '0' || reservedPending !== '0')) {
      return `${trader} ${token}: ${reservedOpen} and ${reservedPending} for nothing`
    }
    const has = token === STABLECOIN ? wallet?.dollars : wallet?.shares.get(token)
    if (held !== String(has ?? 0n)) return `${trader} ${token}: holds ${held}, not ${has}`
  }
  return undefined
}

/**
 * Returns a description of a token that is overdrawn: the trader's open orders and unsettled trades need more of the
 * token than the trader has. Undefined if no token is overdrawn.
 */
export function overdrawn(
  oracle: Oracle,
  trader: Address,
  chain: SimulatedChain,
): string | undefined {
  const wallet = chain.head.wallets.get(trader)
  const isPending = (trade: KnownTrade) => !chain.hasSettled(trade)
  for (const [token, [open, pending]] of needsOf(oracle, trader, {
    isPending,
    needOpen: needMinOf,
  })) {
    const has = (token === STABLECOIN ? wallet?.dollars : wallet?.shares.get(token)) ?? 0n
    if (open + pending > has) return `${trader} ${token}: ${open} and ${pending} of ${has}`
  }
  return undefined
}
