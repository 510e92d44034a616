/** Serves the trading page. The main thread builds the page on the first visit. */

import { DEVNET_CHAIN_ID } from '#config/devnet.ts'
import type { Settings } from '#config/settings-schema.ts'
import { PAGE } from '#config/thread-data.ts'
import type { AnswerRoute } from '#http/route.ts'
import { type PageFiles, type PagePreviews, page } from '#http/routes/page.ts'
import type { RemoteSupervisor } from '#runtime/thread.ts'

export function pageRoutes(
  { web, chains }: Settings,
  supervisor: RemoteSupervisor,
  previews: PagePreviews,
): AnswerRoute[] {
  if (!web.enabled) return []
  // On the devnet, the page may connect to the chain’s Ethereum node, which signs for the demo traders.
  const nodes = chains
    .filter(({ chainId }) => chainId === DEVNET_CHAIN_ID)
    .flatMap(({ rpcUrls }) => rpcUrls.slice(0, 1))
  return page({
    load: async () => (await supervisor.made(PAGE)) as PageFiles,
    reload: web.reload,
    previews,
    connects: nodes.map((url) => new URL(url).origin),
  })
}
