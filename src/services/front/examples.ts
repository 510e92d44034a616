/**
 * Makes executable examples for the OpenAPI document. Examples exist only on the devnet, because the private keys of
 * its demo traders are public. Each example is signed at the time of the request, for a market that is open then.
 */

import { DEVNET_CHAIN_ID } from '#config/devnet.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf } from '#config/thread-data.ts'
import type { Market } from '#domain/market.ts'
import type { LiveExamples } from '#http/openapi.ts'
import type { MarketBoard } from '#live/market-board.ts'

/** Index of the demo trader who signs these examples: the last one, which no other example uses. */
const TRADER = 19
const TTL_SEC = 3_600

export function liveExamples(
  { chains, devnet: { enabled } }: Settings,
  board: MarketBoard,
  nowMs: () => number,
): { readonly liveExamples?: () => Promise<LiveExamples> } {
  const devnet = chains.find(({ chainId }) => chainId === DEVNET_CHAIN_ID)
  if (!enabled || devnet === undefined) return {}
  const { chainId } = devnet
  const { settlement: verifyingContract } = contractsOf(devnet)
  return {
    async liveExamples() {
      const nowSec = Math.floor(nowMs() / 1_000)
      const market = lastingMarket(board, chainId)
      if (market === undefined || market.expiration <= nowSec + TTL_SEC) return {}
      const [{ buildOrder }, { signOrder }, { devnetKey }] = await Promise.all([
        import('#client/build-order.ts'),
        import('#client/sign-order.ts'),
        import('#devnet/accounts.ts'),
      ])
      const wanted = { side: 'buy', outcome: 'YES', price: '0.2', size: '10' } as const
      const draft = buildOrder({ marketId: market.id, ...wanted, ttlSeconds: TTL_SEC, nowSec })
      const value = await signOrder(draft, devnetKey(TRADER), { chainId, verifyingContract })
      const summary = `10 YES at 0.20 by demo trader ${TRADER}, signed for an hour: “${market.question}”`
      const signed = { 'signed just now': { summary, value } }
      return {
        placeOrder: signed,
        validateOrder: signed,
        placeOrders: { 'signed just now': { summary, value: { orders: [value] } } },
      }
    },
  }
}

/** Returns the open market that ends last. */
function lastingMarket(board: MarketBoard, chainId: number): Market | undefined {
  let last: Market | undefined
  for (const { market, closed } of board.markets.values()) {
    if (closed !== undefined || market.chainId !== chainId) continue
    if (last === undefined || market.expiration > last.expiration) last = market
  }
  return last
}
