/** The demo markets of the devnet. */

import { demoMarkets } from '#config/demo-markets.ts'
import type { Settings } from '#config/settings-schema.ts'
import { toAddress } from '#domain/ids.ts'
import type { MarketThread } from '../host/market-host.ts'
import type { Commands } from './commands.ts'

/** Opens the demo markets of this thread's partitions, unless an earlier start has opened them. */
export function openDemoMarkets(
  thread: MarketThread,
  settings: Settings,
  { hear, partitionOf }: Commands,
  { own, nowMs }: { readonly own: readonly number[]; readonly nowMs: number },
): void {
  const [chain] = settings.chains
  if (!settings.demoMarkets || chain === undefined) return
  const maker = toAddress(chain.contracts.settlement)
  const nowSec = Math.floor(nowMs / 1_000)
  for (const market of demoMarkets(chain.chainId, maker, nowSec, settings.demoMarketsMore)) {
    if (thread.markets.has(market.id) || !own.includes(partitionOf(market.id))) continue
    hear('OpenMarket', { market }, 0, undefined)
  }
}
