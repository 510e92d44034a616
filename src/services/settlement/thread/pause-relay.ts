/**
 * Passes the pauses of traders between the market threads. Each of them knows at once of the failures that
 * it logs itself; settlement hears of them with the answers to its reports. A market thread that is linked
 * is told all pauses and asked for its own, which it has from its log, so that after a restart of any
 * thread, or of all, each of them soon knows what one of them knows.
 */

import { isRejection } from '#domain/rejection.ts'
import { type TraderPause, TraderPauses } from '#domain/trader-pauses.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'

type MarketRef = Ref<MarketThreadProtocol>

/** About what a pause takes on the way. */
const PAUSE_BYTES = 128

type PauseRelay = {
  /** A market thread was linked, or has lost what it was told. */
  linked(market: MarketRef): void
  /** What the answer to a report said. */
  heard(pauses: readonly TraderPause[]): void
  /** To be called now and then: asks those again that have not answered, and forgets what is over. */
  tick(nowMs: number): void
}

export function makePauseRelay(
  markets: readonly MarketRef[],
  terms: { readonly firstMs: number; readonly maxMs: number },
): PauseRelay {
  const known = new TraderPauses(terms)
  const unasked = new Set<MarketRef>()

  function tell(market: MarketRef, pauses: readonly TraderPause[]): void {
    market.tell('TradersPaused', { pauses }, PAUSE_BYTES * (1 + pauses.length))
  }

  function heard(pauses: readonly TraderPause[]): void {
    const news = known.merge(pauses)
    if (news.length === 0) return
    for (const market of markets) tell(market, news)
  }

  async function ask(market: MarketRef): Promise<void> {
    const answer = await market.ask('PausedTraders', {})
    // A rejection is not in the protocol's table: the thread is full, or its log is away.
    if (isUnanswered(answer) || isRejection(answer)) unasked.add(market)
    else heard(answer.pauses)
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
      tell(market, known.all())
      unasked.add(market)
      askAll()
    },
    heard,
    tick(nowMs) {
      known.sweep(nowMs)
      askAll()
    },
  }
}
