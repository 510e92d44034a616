/** Data that the main thread passes to each worker, and values that several services derive from the settings. */

import { type Address, toAddress } from '#domain/ids.ts'
import { CHANNEL_BATCH_MAX, CHANNEL_IN_FLIGHT_MAX } from '#domain/limits.ts'
import type { SpendingLimits } from '#domain/trader-spending.ts'
import type { Stablecoin } from '#domain/typed-data.ts'
import type { SharedTableMemory } from '#http/shared-table.ts'
import type { ChannelOptions } from '#runtime/channel.ts'
import type { ClockMemory } from '#runtime/clock.ts'
import type { ConnectionCountMemory } from '#stream/connection-count.ts'
import type { Settings } from './settings-schema.ts'
import type { Topology } from './topology.ts'

type Contracts = Readonly<Record<keyof Settings['chains'][number]['contracts'], Address>>

export type ThreadData = {
  readonly name: string
  /** Index of the thread among the threads of its kind, from 0. */
  readonly index: number
  readonly settings: Settings
  readonly isTerminal: boolean
  readonly version: string
  /** The port that all fronts share. The main thread has checked that no other process uses the port. */
  readonly port: number
  readonly startedAtMs: number
  /** Shared memory with the offset of the exchange's clock from the machine's clock; `runThread` applies the offset. */
  readonly clock: ClockMemory
  /** Memory that all fronts share: `nonces` records used tokens, `buckets` the state of rate limits. */
  readonly nonces: SharedTableMemory
  readonly buckets: SharedTableMemory
  /** Number of open streams per range of IP addresses, shared by all fronts. */
  readonly streams: ConnectionCountMemory
  /** Number of starts of each accounts thread. */
  readonly accountsBegun: Int32Array<SharedArrayBuffer>
}

/**
 * Makes the start counters, one per accounts thread. The counters outlive the threads, so a thread can tell a restart
 * from its first start.
 */
export function makeAccountsBegun({ risk }: Settings): ThreadData['accountsBegun'] {
  return new Int32Array(new SharedArrayBuffer(risk.threads * Int32Array.BYTES_PER_ELEMENT))
}

/** Name of the request with which a front gets the files of the trading page from the main thread. */
export const PAGE = 'page'

export function channelOptions(settings: Settings): ChannelOptions {
  return {
    inFlightMax: CHANNEL_IN_FLIGHT_MAX,
    batchMax: CHANNEL_BATCH_MAX,
    deadlineMs: settings.front.deadlineMs,
  }
}

/** Returns the maximum time in milliseconds for retries of a chain request while a client waits for a response. */
export function chainBudgetMs({ front }: Settings): number {
  return Math.min(4_000, Math.floor(front.deadlineMs / 2))
}

export function topologyOf({ markets }: Settings): Topology {
  return { partitions: markets.partitions, marketThreads: markets.threads, pins: markets.pins }
}

/** Returns whether this process is a node of a cluster. */
export function isNode({ cluster }: Settings): boolean {
  return !cluster.roles.includes('all')
}

/** Returns the URL of the database; by default, an SQLite file in the data folder. */
export function databaseUrlOf({ database, data }: Settings): string {
  return database.url === '' ? `sqlite:${data.dir}/sibyl.db` : database.url
}

/** Returns the folder of the log's archive: in the data folder by default. */
export function archiveDirOf({ eventLog, data }: Settings): string {
  return eventLog.archiveDir === '' ? `${data.dir}/archive` : eventLog.archiveDir
}

/** True if the log is public. */
export function isPublic({ transparency }: Settings): boolean {
  return transparency.mode === 'on'
}

/** Returns the identity of a public log: its address without the scheme. */
export function originOf({ transparency }: Settings, logId: string, partition: number): string {
  return `${transparency.host}/log/${logId}/p${partition}`
}

/** Returns the contracts of a chain as addresses. */
export function contractsOf({ contracts }: Settings['chains'][number]): Contracts {
  const addresses = Object.entries(contracts).map(([name, text]) => [name, toAddress(text)])
  return Object.fromEntries(addresses) as Contracts
}

/** Returns the stablecoin of a chain, with the EIP-712 domain of its permits. */
export function stablecoinOf({ contracts, stablecoin }: Settings['chains'][number]): Stablecoin {
  return {
    address: toAddress(contracts.stablecoin),
    domainName: stablecoin.domainName ?? 'USD Coin',
    domainVersion: stablecoin.domainVersion ?? '1',
  }
}

/**
 * Returns the chain of quick markets: the first chain with an RPC address. Returns undefined if quick markets or price
 * feeds are off, or if there is no operator key.
 */
export function quickChain(settings: Settings): Settings['chains'][number] | undefined {
  const { quick, feeds, keys, chains } = settings
  if (!quick.enabled || !feeds.live || keys.operator === '') return undefined
  return chains.find(({ rpcUrls }) => rpcUrls.length > 0)
}

/** Returns chains with a relayer: every chain with an RPC address, or none if there is no relayer key. */
export function relayedChains({ chains, keys }: Settings): Settings['chains'] {
  return keys.relayer.length === 0 ? [] : chains.filter(({ rpcUrls }) => rpcUrls.length > 0)
}

/** Returns chains on which the exchange settles resolutions itself. */
export function resolvedChains({ chains, keys, resolution }: Settings): Settings['chains'] {
  if (!resolution.autoSettle || keys.resolution === '') return []
  return chains.filter(({ rpcUrls }) => rpcUrls.length > 0)
}

/** Returns whether an order needs its funds reserved before it is matched. */
export function reserves({ risk }: Settings): boolean {
  return risk.funds === 'reserve'
}

/**
 * Returns how long a trader cannot place orders after causing a trade to fail, in milliseconds: the first pause, and
 * the longest one. If `firstMs` is 0, traders are never paused.
 */
export function pauseTermsOf({ risk }: Settings): { firstMs: number; maxMs: number } {
  return { firstMs: risk.cooldownSeconds * 1_000, maxMs: risk.cooldownSecondsMax * 1_000 }
}

export function spendingLimitsOf({ risk }: Settings): SpendingLimits {
  const { fillsPerDay, gasPerDay, failedGasPerDay, exemptTraders } = risk
  return { fillsPerDay, gasPerDay, failedGasPerDay, exempt: new Set(exemptTraders.map(toAddress)) }
}

/** Returns chains with settlement: every chain with an RPC address, or none if settlement is off or has no key. */
export function settledChains({ chains, keys, settlement }: Settings): Settings['chains'] {
  if (!settlement.enabled || keys.settlement === '') return []
  return chains.filter(({ rpcUrls }) => rpcUrls.length > 0)
}
