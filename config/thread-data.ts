/** What the main thread hands to each worker, and what all channels of the exchange have in common. */

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
  /** Which of its kind it is. */
  readonly index: number
  readonly settings: Settings
  readonly isTerminal: boolean
  readonly version: string
  /** The port that all fronts share, once main has claimed it. */
  readonly port: number
  readonly startedAtMs: number
  /** How far the exchange's time is ahead of the machine's: `runThread` follows it. */
  readonly clock: ClockMemory
  /** Memory that all fronts share: which tokens were used, and who may send how much. */
  readonly nonces: SharedTableMemory
  readonly buckets: SharedTableMemory
  /** … and how many streams each address has open. */
  readonly streams: ConnectionCountMemory
  /** How often each accounts thread has begun. */
  readonly accountsBegun: Int32Array<SharedArrayBuffer>
}

/** To be handed to all of them, so that one that is started again knows that it is. */
export function makeAccountsBegun({ risk }: Settings): ThreadData['accountsBegun'] {
  return new Int32Array(new SharedArrayBuffer(risk.threads * Int32Array.BYTES_PER_ELEMENT))
}

/** What fronts ask the main thread for: the files of the trading page. */
export const PAGE = 'page'

export function channelOptions(settings: Settings): ChannelOptions {
  return {
    inFlightMax: CHANNEL_IN_FLIGHT_MAX,
    batchMax: CHANNEL_BATCH_MAX,
    deadlineMs: settings.front.deadlineMs,
  }
}

/** For how long a chain that fails is asked again, where a request with a deadline waits for it. */
export function chainBudgetMs({ front }: Settings): number {
  return Math.min(4_000, Math.floor(front.deadlineMs / 2))
}

export function topologyOf({ markets }: Settings): Topology {
  return { partitions: markets.partitions, marketThreads: markets.threads, pins: markets.pins }
}

/** Whether this process is one of several that are an exchange together. */
export function isNode({ cluster }: Settings): boolean {
  return !cluster.roles.includes('all')
}

/** SQLite in the data folder unless the settings name a database. */
export function databaseUrlOf({ database, data }: Settings): string {
  return database.url === '' ? `sqlite:${data.dir}/sibyl.db` : database.url
}

/** Where the log is archived: in the data folder unless the settings name another. */
export function archiveDirOf({ log, data }: Settings): string {
  return log.archiveDir === '' ? `${data.dir}/archive` : log.archiveDir
}

/** The contracts of a chain, as the exchange knows addresses. */
export function contractsOf({ contracts }: Settings['chains'][number]): Contracts {
  const addresses = Object.entries(contracts).map(([name, text]) => [name, toAddress(text)])
  return Object.fromEntries(addresses) as Contracts
}

/** The stablecoin of a chain, with what its permits are signed for. */
export function stablecoinOf({ contracts, stablecoin }: Settings['chains'][number]): Stablecoin {
  return {
    address: toAddress(contracts.stablecoin),
    domainName: stablecoin.domainName ?? 'USD Coin',
    domainVersion: stablecoin.domainVersion ?? '1',
  }
}

/** The chain that quick markets are on: the first that can be reached, where the operator has a key. */
export function quickChain(settings: Settings): Settings['chains'][number] | undefined {
  const { quick, feeds, keys, chains } = settings
  if (!quick.enabled || !feeds.live || keys.operator === '') return undefined
  return chains.find(({ rpcUrls }) => rpcUrls.length > 0)
}

/** The chains whose operations are relayed: those that can be reached, where there is a key. */
export function relayedChains({ chains, keys }: Settings): Settings['chains'] {
  return keys.relayer.length === 0 ? [] : chains.filter(({ rpcUrls }) => rpcUrls.length > 0)
}

/** The chains whose resolutions are settled by the exchange itself. */
export function resolvedChains({ chains, keys, resolution }: Settings): Settings['chains'] {
  if (!resolution.autoSettle || keys.resolution === '') return []
  return chains.filter(({ rpcUrls }) => rpcUrls.length > 0)
}

/** Whether an order needs its funds reserved before it is matched. */
export function reserves({ risk }: Settings): boolean {
  return risk.funds === 'reserve'
}

/** How long a trader pauses after a fault, at first and at most; 0 where no trader does. */
export function pauseTermsOf({ risk }: Settings): { firstMs: number; maxMs: number } {
  return { firstMs: risk.cooldownSeconds * 1_000, maxMs: risk.cooldownSecondsMax * 1_000 }
}

export function spendingLimitsOf({ risk }: Settings): SpendingLimits {
  const { fillsPerDay, gasPerDay, failedGasPerDay, exemptTraders } = risk
  return { fillsPerDay, gasPerDay, failedGasPerDay, exempt: new Set(exemptTraders.map(toAddress)) }
}

/** The chains whose trades are settled: those that can be reached, where there is a key. */
export function settledChains({ chains, keys, settlement }: Settings): Settings['chains'] {
  if (!settlement.enabled || keys.settlement === '') return []
  return chains.filter(({ rpcUrls }) => rpcUrls.length > 0)
}
