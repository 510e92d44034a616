/** Metrics and log lines of settlement events. */

import { Counter, Gauge, Histogram } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import { statusOf } from './lag.ts'
import type { SettlementEvent, SettlementState } from './state.ts'

export function settlementMeters(
  { registry, log }: ThreadContext,
  states: () => Iterable<readonly [chain: number, state: SettlementState]>,
) {
  const registers = [registry]
  const counter = (name: string, help: string, ...labels: string[]) =>
    new Counter({ name, help, labelNames: ['chain', ...labels], registers })
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, labelNames: ['chain'], buckets, registers })
  const gauge = (name: string, help: string, value: (state: SettlementState) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['chain'],
      registers,
      collect() {
        for (const [chain, state] of states()) this.set({ chain }, value(state))
      },
    })

  gauge(
    'sibyl_settlement_queued_trades',
    'Trades that wait to be sent',
    (state) => statusOf(state).queued,
  )
  gauge(
    'sibyl_settlement_in_flight_trades',
    'Trades that are sent and not decided',
    (state) => statusOf(state).inFlight,
  )
  gauge(
    'sibyl_settlement_waiting_trades',
    'Trades that wait for their market to be on chain, or for older trades of the same trader',
    (state) => statusOf(state).waiting,
  )
  gauge(
    'sibyl_settlement_set_back_trades',
    'Trades that are retried, because they did not settle and neither side was at fault',
    (state) => statusOf(state).retrying,
  )
  gauge(
    'sibyl_settlement_unreported_trades',
    'Trades whose market has not acknowledged the settlement report yet',
    (state) => statusOf(state).unreported,
  )
  gauge(
    'sibyl_settlement_oldest_seconds',
    'Age of the oldest trade that has not settled, whatever it waits for',
    (state) => state.lag.oldestMs / 1_000,
  )
  gauge(
    'sibyl_settlement_behind',
    '1 while the markets of the chain accept cancels only',
    (state) => (state.lag.behind ? 1 : 0),
  )
  const batchTrades = histogram(
    'sibyl_settlement_batch_trades',
    'Trades of one transaction',
    [1, 2, 5, 10, 20, 45, 100],
  )
  const gasPerTrade = histogram(
    'sibyl_settlement_gas_per_trade',
    'Gas of a transaction per trade that it settled',
    [60_000, 80_000, 100_000, 120_000, 150_000, 200_000, 400_000],
  )
  const seconds = histogram(
    'sibyl_settlement_seconds',
    'Time from the match of a trade to the confirmation of its settlement',
    [0.5, 1, 2, 5, 10, 30, 60, 300, 900],
  )
  const trades = counter('sibyl_settlement_trades_total', 'Trades that were decided', 'status')
  const failures = counter(
    'sibyl_settlement_failures_total',
    'Trades that failed, by the reason and the side at fault',
    'reason',
    'fault',
  )
  const failedGas = counter(
    'sibyl_settlement_failed_gas_total',
    'Gas spent on trades that failed: their share of the gas of their transactions',
  )
  const transactions = counter(
    'sibyl_settlement_transactions_total',
    'Settlement transactions, by how they ended',
    'outcome',
  )
  const gas = counter('sibyl_settlement_gas_total', 'Gas of settlement transactions')
  const reorgs = counter('sibyl_settlement_reorgs_total', 'Settlements that a reorg removed')
  const contradictions = counter(
    'sibyl_settlement_contradictions_total',
    'Trades for which the chain and a market have different results',
  )
  const overdue = counter(
    'sibyl_settlement_overdue_trades_total',
    'Trades that failed because they had not settled by their deadline',
  )
  const stepFailures = counter('sibyl_settlement_step_failures_total', 'Failed steps', 'step')
  const rpcErrors = counter(
    'sibyl_settlement_rpc_errors_total',
    'Requests that an Ethereum node did not answer',
  )

  return {
    record(chain: number, event: SettlementEvent): void {
      switch (event.type) {
        case 'BatchSent':
          batchTrades.observe({ chain }, event.trades)
          break
        case 'BatchEnded':
          transactions.inc({ chain, outcome: event.outcome })
          gas.inc({ chain }, event.gasUsed)
          if (event.settled > 0) gasPerTrade.observe({ chain }, event.gasUsed / event.settled)
          if (event.outcome !== 'succeeded')
            log.warn({ chain, ...event }, 'a settlement transaction did not succeed')
          break
        case 'TradeEnded':
          trades.inc({ chain, status: event.status })
          if (event.status === 'confirmed') {
            seconds.observe({ chain }, event.waitedMs / 1_000)
          } else {
            const { reason, fault, wastedGas } = event
            failures.inc({ chain, reason: reason.split(':')[0] ?? '', fault })
            failedGas.inc({ chain }, wastedGas)
          }
          break
        case 'BatchVanished':
          reorgs.inc({ chain })
          log.warn({ chain, ...event }, 'a reorg removed a settlement')
          break
        case 'BatchReverts':
          log.warn({ chain, ...event }, 'a settlement transaction would revert as a whole')
          break
        case 'Contradiction':
          contradictions.inc({ chain })
          log.error({ chain, ...event }, 'the chain and a market disagree about a trade')
          break
        case 'TradeOverdue':
          overdue.inc({ chain })
          log.error({ chain, ...event }, 'a trade failed: it had not settled by its deadline')
          break
        case 'StepFailed':
          stepFailures.inc({ chain, step: event.step })
          log.warn({ chain, ...event }, 'a step of settlement failed; it is retried')
          break
        case 'Stalled':
          log.warn({ chain, ...event }, `no trade has settled or failed for a while: ${event.why}`)
          break
        case 'LagChanged':
          log.error(
            { chain, ...event },
            event.behind ? 'settlement is behind' : 'settlement caught up',
          )
          break
      }
    },
    unanswered(chainId: number, trouble: { readonly host: string; readonly why: string }): void {
      rpcErrors.inc({ chain: chainId })
      const { host, why } = trouble
      log.debug({ chainId, host, why }, 'the chain did not answer')
    },
  }
}
