/**
 * The relayer's keys, each with its own queue of transactions (lane). Reads balances, chooses the next key, and polls
 * the transactions.
 */

import type { Address } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Lane, RelayerContext, RelayerState } from './state.ts'
import { troubleOf } from './trouble.ts'

export function newLane(address: Address): Lane {
  return {
    address,
    balance: undefined,
    isLow: false,
    waiting: new Map(),
    open: new Set(),
    isPolling: false,
    turn: 0,
  }
}

export function pollLane(state: RelayerState, address: Address, context: RelayerContext): void {
  const lane = state.lanes.get(address)
  if (lane === undefined || lane.isPolling) return
  lane.isPolling = true
  lane.turn++
  context.pipe(
    state.ports.poll(address),
    (news) => ({ type: 'Polled', message: { lane: address, news } }),
    (error) => ({ type: 'PollFailed', message: { lane: address, trouble: troubleOf(error) } }),
  )
}

export function polled(state: RelayerState, address: Address, context: RelayerContext): void {
  const lane = state.lanes.get(address)
  if (lane === undefined) return
  lane.isPolling = false
  const { pollMs, idlePollMs } = state.rules
  const turn = ++lane.turn
  const delayMs = lane.open.size > 0 ? pollMs : idlePollMs
  context.after(delayMs, { type: 'Poll', message: { lane: address, turn } })
}

export function weigh(state: RelayerState, context: RelayerContext): void {
  context.pipe(
    state.ports.balances(),
    (balances) => ({ type: 'Weighed', message: { balances } }),
    (error) => missed('Weigh', 'the balances of the relayer keys could not be read', error),
  )
}

export function missed(again: 'Begin' | 'Weigh', what: string, error: unknown) {
  return { type: 'Missed', message: { what, trouble: troubleOf(error), again } } as const
}

/**
 * Returns the keys whose balance is sufficient or not known yet. Keys without a stuck transaction come first; among
 * equal keys, those with fewer open transactions come first.
 */
export function lanesByPreference(state: RelayerState, nowMs: number): Address[] {
  const { balanceMin, stuckAfterMs } = state.rules
  const isStuck = ({ waiting }: Lane): number => {
    const [oldest] = waiting.values()
    return oldest !== undefined && nowMs - oldest >= stuckAfterMs ? 1 : 0
  }
  return [...state.lanes.values()]
    .filter(({ balance }) => balance === undefined || balance >= balanceMin)
    .sort((a, b) => isStuck(a) - isStuck(b) || a.open.size - b.open.size)
    .map(({ address }) => address)
}

export function unfunded(state: RelayerState): Rejection {
  const { chainId } = state.rules
  const detail = `the relayer of chain ${chainId} has no ether left for gas: its operator must send it some`
  return reject('RELAYER_UNAVAILABLE', undefined, detail)
}
