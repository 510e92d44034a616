/** Lists the threads of an exchange, each after the threads on which it depends. Some threads share one worker. */

import type { Settings } from '#config/settings-schema.ts'
import {
  isPublic,
  relayedChains,
  reserves,
  resolvedChains,
  settledChains,
  type ThreadData,
} from '#config/thread-data.ts'
import {
  accountsThreadName,
  CHAIN_WORKER,
  frontThreadName,
  MARKET_YOUNG_MB,
  marketThreadName,
  PRICES_THREAD,
  relayerThreadName,
  resolutionThreadName,
  SETTLEMENT_THREAD,
  TRANSPARENCY_THREAD,
} from '#config/topology.ts'
import type { ThreadSpec, WorkerSpec } from '#runtime/host.ts'

export function threadSpecs(
  settings: Settings,
  cores: number,
  common: Omit<ThreadData, 'name' | 'index' | 'settings'>,
): ThreadSpec[] {
  const marketNames = numbers(settings.markets.threads).map(marketThreadName)
  const relayerNames = relayedChains(settings).map(({ chainId }) => relayerThreadName(chainId))
  const resolutionNames = resolvedChains(settings).map(({ chainId }) =>
    resolutionThreadName(chainId),
  )
  const priceNames = settings.feeds.live ? [PRICES_THREAD] : []
  const indexerNames = settings.chains.some(({ rpcUrls }) => rpcUrls.length > 0) ? ['indexer'] : []
  const accountsNames = reserves(settings)
    ? numbers(settings.risk.threads).map(accountsThreadName)
    : []
  const settlementNames = settledChains(settings).length > 0 ? [SETTLEMENT_THREAD] : []
  const spec = (kind: string, name: string, index: number, links: readonly string[]) => ({
    ...workerSpec(kind, name),
    kind,
    data: { ...common, name, index, settings } satisfies ThreadData,
    links,
    terminable: kind !== 'front',
  })
  const waiting = (kind: string, names: readonly string[], links: readonly string[]) =>
    names.map((name, index) => ({
      ...spec(kind, name, index, links),
      ...workerSpec('chain', name),
      // Trading continues without a chain and without prices, so the threads for chains and prices are optional.
      optional: true,
      ...(sharesWorker(settings, cores) ? { host: CHAIN_WORKER } : {}),
    }))
  const writers = [...marketNames, 'store']
  return [
    ...marketNames.map((name, index) => spec('market', name, index, [])),
    spec('store', 'store', 0, marketNames),
    ...waiting('indexer', indexerNames, writers),
    ...waiting('relayer', relayerNames, writers),
    ...waiting('resolution', resolutionNames, ['store']),
    ...waiting('settlement', settlementNames, writers),
    ...accountsNames.map((name, index) => spec('accounts', name, index, marketNames)),
    ...waiting('prices', priceNames, writers),
    // The transparency thread is busy when many orders arrive, so it shares no worker.
    ...(isPublic(settings)
      ? [{ ...spec('transparency', TRANSPARENCY_THREAD, 0, ['store']), optional: true }]
      : []),
    ...numbers(settings.front.threads).map((index) =>
      spec('front', frontThreadName(index), index, [
        ...writers,
        ...indexerNames,
        ...relayerNames,
        ...accountsNames,
        ...priceNames,
      ]),
    ),
  ]
}

/**
 * Returns the workers that are created first, so that they load their modules while the main thread does other work.
 * These are the workers that every run has. If the run has a chain, they include the shared chain worker.
 */
export function workersAhead(settings: Settings, cores: number): WorkerSpec[] {
  const { chains, chainRpc, devnet } = settings
  const hasChain =
    devnet.enabled || chainRpc.length > 0 || chains.some(({ rpcUrls }) => rpcUrls.length > 0)
  return [
    ...numbers(settings.markets.threads).map((index) =>
      workerSpec('market', marketThreadName(index)),
    ),
    workerSpec('store', 'store'),
    ...(hasChain && sharesWorker(settings, cores) ? [workerSpec('chain', CHAIN_WORKER)] : []),
    ...numbers(settings.front.threads).map((index) => workerSpec('front', frontThreadName(index))),
  ]
}

export function workerSpec(entry: string, name: string): WorkerSpec {
  return {
    name,
    entry: new URL(`../../workers/${entry}.ts`, import.meta.url),
    ...(entry === 'market' ? { youngMb: MARKET_YOUNG_MB } : {}),
  }
}

function sharesWorker({ supervisor }: Settings, cores: number): boolean {
  return cores < supervisor.shareBelowCores
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index)
}
