/** Returns the configuration of the exchange that clients may read. */

import type { ChainFacts, ConfigFacts } from '#api/service/config.ts'
import { DEVNET_CHAIN_ID } from '#config/devnet.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf, quickChain, relayedChains, stablecoinOf } from '#config/thread-data.ts'
import { MALFORMED_MAX, WINDOW_MS } from '#stream/frame-gate.ts'

export function serviceFacts(
  settings: Settings,
  version: string,
  assets: readonly string[],
): ConfigFacts {
  const { service, auth, front, limits, stream, chains, relayer, quick, risk, settlement } =
    settings
  return {
    name: service.name,
    version,
    bearer: auth.bearer,
    singleUse: auth.singleUseNonce,
    deadlineMs: front.deadlineMs,
    risk,
    settleSec: settlement.maxLagSeconds,
    rates: limits.enabled
      ? { ...limits, connectionsPerIpMax: front.connectionsPerIpMax }
      : undefined,
    stream: { ...stream, malformedMax: MALFORMED_MAX, windowMs: WINDOW_MS },
    chains: chains.map(chainFacts),
    relayer: relayedChains(settings).length === 0 ? undefined : relayer,
    quickMarkets: {
      assets,
      ...(quickChain(settings) === undefined ? {} : { intervalSeconds: quick.intervalSeconds }),
    },
  }
}

/**
 * Returns the facts of a chain. The URL of its Ethereum node is included only on the devnet, because elsewhere it may
 * be private to the operator.
 */
function chainFacts(chain: Settings['chains'][number]): ChainFacts {
  const { chainId, role, rpcUrls, blockExplorer } = chain
  return {
    chainId,
    role,
    ...(chainId === DEVNET_CHAIN_ID && rpcUrls[0] !== undefined ? { rpcUrl: rpcUrls[0] } : {}),
    ...(blockExplorer === '' ? {} : { blockExplorer }),
    contracts: contractsOf(chain),
    stablecoin: { ...chain.stablecoin, ...stablecoinOf(chain) },
  }
}
