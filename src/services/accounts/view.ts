/** Views of accounts for other services: the funds of one trader, and the state of the whole service. */

import { STABLECOIN } from '#domain/funds.ts'
import type { FundsView, TokenFunds } from '#protocol/accounts.ts'
import { closedBecause, startingBecause } from './judge.ts'
import type { Account, AccountsState, AccountsStatus, Holding, Sums } from './state.ts'

export function viewOf(account: Account): FundsView {
  const { chain, trader, block, cash, unpermitted, balance, allowance } = account
  const tokens: TokenFunds[] = [
    tokenFunds(STABLECOIN, cash, {
      held: balance,
      allowed: allowance,
      free: least(balance - reserved(cash), allowance - reserved(unpermitted)),
    }),
  ]
  for (const holding of account.holdings.values()) {
    if (holding.held === undefined || isEmpty(holding)) continue
    const allowed = account.isApproved ? holding.held : 0n
    const free = allowed - reserved(holding)
    tokens.push(tokenFunds(holding.token, holding, { held: holding.held, allowed, free }))
  }
  return { chainId: chain.chainId, trader, blockNumber: block, tokens }
}

function tokenFunds(
  token: TokenFunds['token'],
  { open, promised, pending }: Sums,
  { held, allowed, free }: { held: bigint; allowed: bigint; free: bigint },
): TokenFunds {
  return {
    token,
    held: String(held),
    allowed: String(allowed),
    reservedOpen: String(open + promised),
    reservedPending: String(pending),
    free: String(free > 0n ? free : 0n),
  }
}

function isEmpty(holding: Holding): boolean {
  return holding.held === 0n && reserved(holding) === 0n
}

function reserved({ open, promised, pending }: Sums): bigint {
  return open + promised + pending
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b
}

export function statusOf(state: AccountsState, nowMs: number): AccountsStatus {
  const why = state.trouble === '' ? startingBecause(state) : state.trouble
  let accounts = 0
  for (const chain of state.chains.values()) accounts += chain.accounts.size
  const reasons = [...state.chains.values()].map(
    (chain) => closedBecause(state, chain, nowMs)?.detail,
  )
  return {
    why,
    accounts,
    orders: state.orders.size,
    trades: state.trades.size,
    promises: state.promises.size,
    waiting: state.waiting,
    chainWhy: reasons.find(Boolean) ?? '',
  }
}
