/**
 * Assigns markets to log partitions, and partitions to threads. The partition of a market must never change while its
 * history is kept; the thread of a partition may change at every start.
 */

import type { Address, MarketId } from '#domain/ids.ts'

export type Topology = {
  readonly partitions: number
  readonly marketThreads: number
  readonly pins: Readonly<Record<string, number>>
}

/** Returns the partition of a market. A market id is already a hash, so its last 32 bits serve as the hash. */
export function partitionOf(marketId: MarketId, topology: Topology): number {
  const pinned = topology.pins[marketId]
  if (pinned !== undefined) return pinned
  return Number.parseInt(marketId.slice(-8), 16) % topology.partitions
}

export function threadOf(partition: number, topology: Topology): number {
  return partition % topology.marketThreads
}

/** Returns the index of the thread that runs a market. */
export function threadOfMarket(marketId: MarketId, topology: Topology): number {
  return threadOf(partitionOf(marketId, topology), topology)
}

export function partitionsOf(thread: number, topology: Topology): number[] {
  const owned: number[] = []
  for (let partition = 0; partition < topology.partitions; partition++) {
    if (threadOf(partition, topology) === thread) owned.push(partition)
  }
  return owned
}

/** Returns the default numbers of threads: fronts and markets get a quarter of the cores each, accounts an eighth. */
export function threadsFor(
  cores: number,
): Record<'front' | 'market' | 'verify' | 'accounts', number> {
  const quarter = Math.min(16, Math.max(1, Math.floor(cores / 4)))
  return {
    front: quarter,
    market: quarter,
    verify: Math.min(2, Math.max(1, cores)),
    accounts: Math.ceil(quarter / 2),
  }
}

/**
 * Size in MB of a market thread's heap for new objects, twice the default. Under load, thousands of commands are in
 * progress at once. In a smaller heap, the garbage collector would copy each command before it is answered.
 */
export const MARKET_YOUNG_MB = 96

export function marketThreadName(thread: number): string {
  return `market-${thread}`
}

export function frontThreadName(thread: number): string {
  return `front-${thread}`
}

/**
 * Returns whether this is the name of a front. Only the form of the name counts, because another machine may run more
 * fronts than this one.
 */
export function isFrontThread(name: string): boolean {
  return /^front-\d+$/.test(name)
}

/** The thread of prices and quick markets; at most one. */
export const PRICES_THREAD = 'prices'

/** The thread that settles trades on the chain; at most one. */
export const SETTLEMENT_THREAD = 'settlement'

/** The thread that publishes the log; there is one at most. */
export const TRANSPARENCY_THREAD = 'transparency'

/** Threads of a cluster node: the link to other nodes, the copy of the log, and the operators' port. */
export const BRIDGE_THREAD = 'bridge'
export const LOG_COPY_THREAD = 'log-copy'
export const ADMIN_THREAD = 'admin'

/**
 * Name of the shared worker for chains and prices. On a machine with few cores, all threads for chains and prices run
 * in this one worker, because they mostly wait.
 */
export const CHAIN_WORKER = 'chain'

/** Returns the name of an accounts thread, which reserves funds for a part of the traders. */
export function accountsThreadName(thread: number): string {
  return `accounts-${thread}`
}

export function isAccountsThread(name: string): boolean {
  return /^accounts-\d+$/.test(name)
}

/**
 * Returns the index of the accounts thread that serves a trader. The last digits of an address are spread evenly, like
 * those of a hash.
 */
export function accountsThreadOf(trader: Address, threads: number): number {
  return threads === 1 ? 0 : Number.parseInt(trader.slice(-6), 16) % threads
}

export function relayerThreadName(chainId: number): string {
  return `relayer-${chainId}`
}

export function resolutionThreadName(chainId: number): string {
  return `resolution-${chainId}`
}
