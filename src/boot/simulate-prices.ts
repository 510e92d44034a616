/**
 * Starts simulated price providers for a devnet, and returns settings in which the price feeds read from them. They
 * start only if a local chain runs and the settings do not ask for the real providers.
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
