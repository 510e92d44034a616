/**
 * The price providers of the devnet: where the settings do not ask for the real ones and there is a
 * local chain, a simulator of them is started, and the settings of the feeds lead there.
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
  // Loading it costs 30 ms, which an exchange with real providers has no use for.
  const { startPriceServer } = await import('#devnet/price-server.ts')
  const server = await startPriceServer({ ...simulator, assets, clock })
  return {
    settings: { ...settings, feeds: { ...feeds, ...server.feeds, live: true } },
    end: () => server.close(),
  }
}
