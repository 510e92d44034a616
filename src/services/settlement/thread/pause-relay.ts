/**
 * Shares the pauses of traders among the market threads. A paused trader cannot place orders for a while. Each market
 * thread finds pauses in its own log, and returns them with its answers to reports. When a market thread is linked, the
 * relay sends it all pauses that the relay knows, and requests the pauses in that thread's log. So after any restart,
 * every market thread soon has all pauses.
 */

import { isRejection } from '#domain/rejection.ts'
import { type TraderPause, TraderPauses } from '#domain/trader-pauses.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'

type MarketRef = Ref<MarketThreadProtocol>

/** Approximate number of bytes of one pause in a message. */
const PAUSE_BYTES = 128

type PauseRelay = {
  /**
   * Sends all pauses to a market thread that was linked or has lost messages, and requests the pauses of that thread.
   */
  linked(market: MarketRef): void
  /** Adds pauses from the answer to a report. */
  received(pauses: readonly TraderPause[]): void
  /** Repeats requests for pauses that got no answer, and drops expired pauses. Must be called every second. */
  tick(nowMs: number): void
}

export function makePauseRelay(
  markets: readonly MarketRef[],
  terms: { readonly firstMs: number; readonly maxMs: number },
): PauseRelay {
  const known = new TraderPauses(terms)
  const unasked = new Set<MarketRef>()

  function send(market: MarketRef, pauses: readonly TraderPause[]): void {
    market.tell('TradersPaused', { pauses }, PAUSE_BYTES * (1 + pauses.length))
  }

  function received(pauses: readonly TraderPause[]): void {
    const changed = known.merge(pauses)
    if (changed.length === 0) return
    for (const market of markets) send(market, changed)
  }

  async function ask(market: MarketRef): Promise<void> {
    const answer = await market.ask('PausedTraders', {})
    // A market thread that is overloaded, or has no log, rejects the request for its pauses. The request is then
    // repeated.
    if (isUnanswered(answer) || isRejection(answer)) unasked.add(market)
    else received(answer.pauses)
  }

  function askAll(): void {
    for (const market of [...unasked]) {
      unasked.delete(market)
      void ask(market)
    }
  }

  return {
    linked(market) {
      if (terms.firstMs === 0) return
      send(market, known.all())
      unasked.add(market)
      askAll()
    },
    received,
    tick(nowMs) {
      known.sweep(nowMs)
      askAll()
    },
  }
}
