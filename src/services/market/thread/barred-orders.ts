/** Removes from every book the orders of traders whose failed fills have used up their daily budget. */

import type { Address, MarketId } from '#domain/ids.ts'
import type { ReplyChannel } from '#runtime/serve.ts'
import type { MarketThread } from '../host/market-host.ts'
import { booksOf } from '../host/open-orders.ts'

type Hear = (type: string, message: unknown, replyTo: number, channel: ReplyChannel) => void

export function withdrawBarred(thread: MarketThread, hear: Hear): void {
  for (const { chainId, trader } of thread.barred.splice(0)) {
    const marketIds = new Set<MarketId>()
    for (const { marketId } of booksOf(thread, { trader, chainId })) marketIds.add(marketId)
    for (const marketId of marketIds) withdraw(marketId, trader, hear)
  }
}

function withdraw(marketId: MarketId, trader: Address, hear: Hear): void {
  const reply = (_: number, answer: unknown): void => {
    if ((answer as { more?: true }).more === true) withdraw(marketId, trader, hear)
  }
  hear('CancelOrders', { marketId, trader, reason: 'unfunded' }, 1, { reply })
}
