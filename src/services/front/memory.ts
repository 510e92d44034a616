/** The memory of a front and its links to other threads. Both exist before the front listens. */

import type { ThreadData } from '#config/thread-data.ts'
import { makeAuthenticator } from '#http/auth.ts'
import { makeFairTurns } from '#http/fair-turns.ts'
import { makeNonceLedger } from '#http/nonce-ledger.ts'
import { makeSseHub } from '#http/sse.ts'
import { makeBoard } from '#live/market-board.ts'
import { makePriceBoard } from '#live/price-board.ts'
import { makeSeqWaiters } from '#live/seq-waiters.ts'
import { systemClock } from '#runtime/clock.ts'
import { openLimiter } from '#services/kit/draws.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { LateParts } from './link-ports.ts'
import { linkFront } from './links.ts'
import { openTokenClaims } from './tokens.ts'

export type FrontMemory = ReturnType<typeof openMemory>

export function openMemory(data: ThreadData, kit: ThreadContext, late: LateParts) {
  const { settings } = data
  const { log } = kit
  const board = makeBoard(
    { isWhole: () => links.isWhole(), isCurrent: (marketId) => links.isCurrent(marketId) },
    {
      followed(shown, event) {
        if (event.type === 'TradeFailed') late.figures?.touched(event.marketId)
        late.hub?.followed(shown, event)
        waiters.advanced(shown)
      },
      loaded(shown, missed, dozed) {
        if (missed) late.figures?.touched(shown.market.id)
        late.hub?.loaded(shown, missed, dozed)
        waiters.advanced(shown)
      },
      forgotten(marketId) {
        late.figures?.forgotten(marketId)
        late.hub?.forgotten(marketId)
      },
    },
  )
  const waiters = makeSeqWaiters(() => board, systemClock, {
    need: (marketId) => links.use?.need(marketId),
    needThese: (markets) => links.use?.needThese(markets) ?? true,
  })
  const sse = makeSseHub(
    {
      ...settings.sse,
      ...(settings.limits.enabled
        ? {
            readersPerIpMax: settings.front.connectionsPerIpMax,
            siteTimes: settings.limits.siteTimes,
          }
        : {}),
    },
    systemClock,
  )
  /** Assets with prices; empty if no price provider is used. */
  const assets = settings.feeds.live ? settings.feeds.assets : []
  const priceBoard = makePriceBoard(
    { assets, replayEvents: settings.sse.replayEvents },
    {
      priced: (asset, event) => late.hub?.priced(asset, event),
      streamed: (asset, text) => sse.publish(asset, text),
      quickMarket: (asset, event) => late.hub?.quickMarket(asset, event),
    },
  )
  const findKey = async (id: string) => late.pools?.findKey(id)
  const tokens = openTokenClaims(settings, systemClock, kit, data.nonces.secret)
  const authenticator = makeAuthenticator({
    findKey,
    nonces: makeNonceLedger(data.nonces),
    claim: tokens?.claim,
    singleUse: settings.auth.singleUseNonce,
    clock: systemClock,
    startedAtMs: data.startedAtMs,
  })
  const limits = openLimiter(data, kit)
  const turns = limits.limiter === undefined ? undefined : makeFairTurns()
  const links = linkFront(settings, {
    ...{ board, priceBoard, authenticator, late, log, meters: kit.links },
    woken() {
      late.hub?.woken()
      waiters.woken()
    },
  })
  return {
    ...{ board, waiters, sse, assets, priceBoard, findKey, tokens, authenticator },
    ...{ limits, turns, links },
  }
}
