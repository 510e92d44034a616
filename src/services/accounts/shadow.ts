/**
 * Computes the needs of traders (amounts that their orders and trades take) a second time, from the database and the
 * logs only. The result is called a shadow. The audit compares it with the needs in a running exchange. A shadow reads
 * no chain, so it cannot know whether a trade that was sent to the chain is settled. The running exchange may or may
 * not count such a trade.
 */

import assert from 'node:assert/strict'
import type { FundsToken } from '#domain/funds.ts'
import type { Address, TradeId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { nameOf, needsOf, sidesOf } from './audit.ts'
import { dropSome, fold, take } from './fold.ts'
import { newAccounts } from './new-accounts.ts'
import type { AccountsState, LoadedAccounts } from './state.ts'

/** Amounts of one token that a trader’s orders and trades require, computed from the database and the logs. */
export type ShadowNeeds = {
  readonly chainId: number
  readonly trader: Address
  readonly token: FundsToken
  readonly open: bigint
  readonly pending: bigint
  /** Part of `pending` that the chain may have settled. */
  readonly sent: bigint
}

export type Shadow = {
  fold(events: readonly MarketEvent[]): void
  /** Returns the needs, keyed by owner and token. */
  needs(): Map<string, ShadowNeeds>
}

export function makeShadow(chainIds: Iterable<number>, loaded: LoadedAccounts): Shadow {
  const state = emptyState(chainIds)
  const sentIds = new Set<TradeId>()
  for (const { tradeId, sent } of loaded.trades) if (sent === true) sentIds.add(tradeId)
  take(state, loaded)
  return {
    fold(events) {
      for (const event of events) {
        if (event.type === 'TradeSubmitted') sentIds.add(event.tradeId)
        fold(state, event)
      }
      // A shadow reports no changes, so discard them.
      for (const account of state.changed.splice(0)) account.changed = false
      state.grown.length = 0
    },
    needs() {
      while (dropSome(state));
      const sent = sentNeeds(state, sentIds)
      const byName = new Map<string, ShadowNeeds>()
      for (const [name, { account, what, open, pending }] of needsOf(state)) {
        if (what === 'allowance') continue
        const { chain, trader } = account
        const owner = { chainId: chain.chainId, trader, token: what }
        byName.set(name, { ...owner, open, pending, sent: sent.get(name) ?? 0n })
      }
      return byName
    },
  }
}

function sentNeeds({ trades }: AccountsState, sentIds: ReadonlySet<TradeId>): Map<string, bigint> {
  const needs = new Map<string, bigint>()
  for (const need of trades.values()) {
    if (need.confirmed || !sentIds.has(need.trade.tradeId)) continue
    for (const { account, token, amount } of sidesOf(need)) {
      const name = nameOf(account, token)
      needs.set(name, (needs.get(name) ?? 0n) + BigInt(amount))
    }
  }
  return needs
}

/** Creates the empty state of an accounts service that never reads a chain. */
function emptyState(chainIds: Iterable<number>): AccountsState {
  const never = (): never =>
    assert.fail('the audit must not read a chain: it counts funds from the database and the logs')
  return newAccounts(
    {
      load: never,
      chains: [...chainIds].map((chainId) => ({ chainId, step: never, read: never })),
      tradeKeyOf: never,
      areSettled: never,
      readTrades: never,
    },
    {
      isMine: () => true,
      stepEveryMs: 0,
      staleMs: 0,
      sweepMs: 0,
      graceMs: 0,
      quietMs: 0,
      nameAgainMs: 0,
      closedMs: 0,
      idleMax: Number.POSITIVE_INFINITY,
      promisesMax: 0,
      waitingMax: 0,
      waitingPerOwnerMax: 0,
    },
  )
}
