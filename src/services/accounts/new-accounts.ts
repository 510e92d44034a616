/** Creates empty accounts. */

import type { AccountsPorts, AccountsRules, AccountsState, ChainAccounts } from './state.ts'

export function newAccounts(ports: AccountsPorts, rules: AccountsRules): AccountsState {
  return {
    ports,
    rules,
    chains: new Map(ports.chains.map((port) => [port.chainId, newChain(port)])),
    markets: new Map(),
    orders: new Map(),
    trades: new Map(),
    pairs: new Map(),
    promises: new Map(),
    ended: new Set(),
    endedBefore: new Set(),
    reverted: new Map(),
    readingTrades: false,
    nextTradesMs: 0,
    phase: 'new',
    nextLoadMs: 0,
    startedAtMs: 0,
    caughtUp: new Map(),
    caughtUpMs: 0,
    closing: [],
    looking: undefined,
    waiting: 0,
    waitedFor: new Set(),
    changed: [],
    grown: [],
    trouble: '',
  }
}

function newChain(port: ChainAccounts['port']): ChainAccounts {
  return {
    chainId: port.chainId,
    port,
    accounts: new Map(),
    watched: new Set(),
    busy: new Set(),
    idle: new Set(),
    unseen: new Set(),
    toRead: new Set(),
    asked: new Set(),
    sweeping: undefined,
    reads: 0,
    epoch: 0,
    place: undefined,
    firstSteppedMs: 0,
    hasAskedAll: false,
    steppedAtMs: 0,
    stepping: false,
    nextStepMs: 0,
    failures: 0,
    trouble: '',
    toAsk: new Set(),
    asking: [],
    isAsking: false,
    isOpen: false,
    short: new Set(),
    settled: new Set(),
    over: new Map(),
    overBefore: new Map(),
    early: new Map(),
  }
}
