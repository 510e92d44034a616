/**
 * Starts the simulated price providers of the devnet, and points the feeds at them. The simulator runs with a local
 * chain, unless the settings ask for the real providers.
 */

import type { Settings } from '#config/settings-schema.ts'
import type { Clock } from '#runtime/clock.ts'

type SimulatedPrices = { readonly settings: Settings; end(): Promise<void> }

export async function simulatePrices(settings: Settings, clock: Clock): Promise<SimulatedPrices> {
  const { feeds, devnet, chains } = settings
  const hasChain = chains.some(({ rpcUrls }) => rpcUrls.length > 0)
  if (feeds.live || !devnet.enabled || !hasChain || feeds.assets.length === 0) {
    return { settings, end: async () => undefined }
  }
  const { assets, simulator } = feeds
  // The simulator is loaded on demand: loading takes 30 ms, and an exchange with real providers does not need the
  // simulator.
  const { startPriceServer } = await import('#devnet/price-server.ts')
  const server = await startPriceServer({ ...simulator, assets, clock })
  return {
    settings: { ...settings, feeds: { ...feeds, ...server.feeds, live: true } },
    end: () => server.close(),
  }
}
