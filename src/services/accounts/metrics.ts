/** Metrics of accounts: reservations, refusals, withdrawals. */

import { Counter, Gauge } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { AccountsEvent, AccountsState, AccountsStatus } from './state.ts'
import { statusOf } from './view.ts'

export function accountsMeters(
  { registry, log, clock }: ThreadContext,
  state: () => AccountsState | undefined,
) {
  const registers = [registry]
  const rpcErrors = new Counter({
    name: 'sibyl_accounts_rpc_errors_total',
    help: 'Failed requests that read funds from a chain, including those that another RPC URL then answered',
    labelNames: ['chain', 'host'],
    registers,
  })
  const refused = new Counter({
    name: 'sibyl_orders_refused_for_funds_total',
    help: 'Orders that were refused because their funds could not be reserved',
    labelNames: ['code'],
    registers,
  })
  const withdrawn = new Counter({
    name: 'sibyl_orders_withdrawn_for_funds_total',
    help: 'Orders that were withdrawn because the trader no longer had enough funds',
    labelNames: ['chain'],
    registers,
  })
  const gauge = (name: string, help: string, value: (status: AccountsStatus) => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        const current = state()
        if (current !== undefined) this.set(value(statusOf(current, clock.nowMs())))
      },
    })
  gauge('sibyl_accounts', 'Traders whose funds are in memory', ({ accounts }) => accounts)
  gauge('sibyl_accounts_orders', 'Open orders with funds reserved', ({ orders }) => orders)
  gauge('sibyl_accounts_trades', 'Unsettled trades with funds reserved', ({ trades }) => trades)
  gauge('sibyl_accounts_promises', 'Orders being placed with funds reserved', (s) => s.promises)
  gauge('sibyl_accounts_waiting', 'Requests that wait for the chain to be read', (s) => s.waiting)

  /** True if the funds of every chain were read at least once. */
  let hasRead = false

  return {
    unanswered(chainId: number, trouble: { readonly host: string; readonly why: string }): void {
      const { host, why } = trouble
      rpcErrors.inc({ chain: chainId, host })
      log.debug({ chainId, host, why }, 'reading funds from the chain failed')
    },
    said(said: AccountsEvent): void {
      if (said.type === 'Refused') refused.inc({ code: said.code })
      else if (said.type === 'Withdrawn' && !said.again) {
        withdrawn.inc({ chain: said.chainId }, said.orderHashes.length)
      }
    },
    /**
     * Returns why the thread is not ready to reserve funds; empty if it is ready. After the first read of every chain's
     * funds, an unavailable chain no longer makes the thread unready. New orders for that chain are refused, but
     * cancels and reads must still reach the exchange.
     */
    why(): string {
      const current = state()
      if (current === undefined) return 'starting'
      const { why, chainWhy } = statusOf(current, clock.nowMs())
      if (why !== '') return why
      hasRead ||= chainWhy === ''
      return hasRead ? '' : chainWhy
    },
  }
}
