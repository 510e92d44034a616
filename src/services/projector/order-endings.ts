/**
 * Ends orders in the database that were open when their market closed. A market may have a million such
 * orders, so they are ended in short steps, separately from the projector. At the start, the actor also scans
 * all markets, in steps, for orders that an earlier process left open. No client waits for these steps, and
 * repeating a step changes nothing.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import type { Behaviour, Context } from '#runtime/actor.ts'

export type OrderEndingsProtocol = {
  /** Starts the scan of all markets for closed markets with open orders. */
  Start: { takes: object; answers: undefined }
  /** Markets have closed in the database. */
  MarketsClosed: { takes: { marketIds: readonly MarketId[] }; answers: undefined }
  Found: {
    takes: { marketIds: readonly MarketId[]; next: MarketId | undefined }
    answers: undefined
  }
  Stepped: { takes: { marketId: MarketId; more: boolean }; answers: undefined }
  /** The step for this market failed. If `marketId` is undefined, the scan of all markets failed. */
  Failed: {
    takes: { marketId: MarketId | undefined; why: string; retry: boolean }
    answers: undefined
  }
  Again: { takes: object; answers: undefined }
  /** Stops further steps. */
  Stop: { takes: object; answers: undefined }
}

/**
 * Emitted if the database refuses a write, so the market's orders stay open in the database. If `marketId` is
 * undefined, the scan of all markets was refused, and orders of markets that were not scanned yet stay open.
 */
export type OrderEndingsEvent = {
  readonly type: 'OrdersNotEnded'
  readonly marketId: MarketId | undefined
  readonly why: string
}

export type OrderEndingsPorts = {
  /** Ends some orders of a closed market in the database; returns whether more may be open. */
  end(marketId: MarketId): Promise<boolean>
  /** Returns some closed markets that still have open orders. `after` is the last market of the previous page. */
  find(
    after: MarketId | undefined,
  ): Promise<{ readonly marketIds: readonly MarketId[]; readonly next: MarketId | undefined }>
}

export type OrderEndingsState = {
  readonly ports: OrderEndingsPorts
  /** Closed markets that may have open orders. */
  readonly closed: Set<MarketId>
  /** Position of the scan of all markets; undefined when the scan has ended. */
  look: { readonly after: MarketId | undefined } | undefined
  underway: boolean
  stopped: boolean
}

/** Pause before a failed step is retried. */
const RETRY_MS = 500

export function newOrderEndings(ports: OrderEndingsPorts): OrderEndingsState {
  return { ports, closed: new Set(), look: undefined, underway: false, stopped: false }
}

type EndingsContext = Context<OrderEndingsProtocol, OrderEndingsEvent>

export const orderEndings: Behaviour<OrderEndingsState, OrderEndingsProtocol, OrderEndingsEvent> = {
  Start(state, _message, context) {
    state.look = { after: undefined }
    proceed(state, context)
    return undefined
  },

  MarketsClosed(state, { marketIds }, context) {
    for (const marketId of marketIds) state.closed.add(marketId)
    proceed(state, context)
    return undefined
  },

  Found(state, { marketIds, next }, context) {
    state.underway = false
    state.look = next === undefined ? undefined : { after: next }
    return orderEndings.MarketsClosed(state, { marketIds }, context)
  },

  Stepped(state, { marketId, more }, context) {
    state.underway = false
    if (!more) state.closed.delete(marketId)
    proceed(state, context)
    return undefined
  },

  Failed(state, { marketId, why, retry }, context) {
    state.underway = false
    if (retry) {
      // Retry the other markets first, because the failure may concern only this market.
      if (marketId !== undefined && state.closed.delete(marketId)) state.closed.add(marketId)
      if (!state.stopped) context.after(RETRY_MS, { type: 'Again', message: {} })
      return undefined
    }
    // Give up this market, or the whole scan, until the next start. The orders stay open in the database. Reads do not
    // show them as open, because reads also check whether the market is closed.
    if (marketId === undefined) state.look = undefined
    else state.closed.delete(marketId)
    context.emit({ type: 'OrdersNotEnded', marketId, why })
    proceed(state, context)
    return undefined
  },

  Again(state, _message, context) {
    proceed(state, context)
    return undefined
  },

  Stop(state) {
    state.stopped = true
    return undefined
  },
}

function proceed(state: OrderEndingsState, context: EndingsContext): void {
  const { ports, closed, look } = state
  if (state.underway || state.stopped) return
  const [marketId] = closed
  const failed = (error: unknown) => {
    const retry = error instanceof Fault && error.retryable
    return { type: 'Failed' as const, message: { marketId, why: String(error), retry } }
  }
  if (marketId !== undefined) {
    state.underway = true
    const stepped = (more: boolean) => {
      return { type: 'Stepped' as const, message: { marketId, more } }
    }
    context.pipe(ports.end(marketId), stepped, failed)
  } else if (look !== undefined) {
    state.underway = true
    context.pipe(
      ports.find(look.after),
      ({ marketIds, next }) => ({ type: 'Found', message: { marketIds, next } }),
      failed,
    )
  }
}
