/** Which marks count: the strike of a market that opens, and how one that is over ends. */

import type { PriceSource } from '#domain/asset-price.ts'
import {
  endSecOf,
  type Mark,
  outcomeOf,
  type QuickMarket,
  type QuickResolution,
} from '#domain/quick-market.ts'
import { reliable } from './marks.ts'
import type { AssetState, QuickContext, QuickMarketsState } from './state.ts'

/** The mark of whoever speaks; after a while, of the first other source that has one. */
export function strikeOf(
  state: QuickMarketsState,
  known: AssetState,
  speaker: PriceSource,
  startSec: number,
  context: QuickContext,
): Mark | undefined {
  // Whoever speaks has been compared with the others a moment ago, and a start waits for nobody.
  const own = reliable(state, known, { source: speaker, boundarySec: startSec }, context, {
    aloneAfterMs: 0,
  })
  const isLate = context.nowMs >= startSec * 1_000 + state.options.graceMs
  if (own !== undefined || !isLate) return own
  const others = state.options.sources.filter((source) => source !== speaker)
  for (const source of others) {
    const mark = reliable(state, known, { source, boundarySec: startSec }, context)
    if (mark !== undefined) return mark
  }
  // Better a strike that is late by some seconds than no market; it says so itself.
  const { graceMs } = state.options
  for (const source of [speaker, ...others]) {
    const asked = { source, boundarySec: startSec }
    const mark = reliable(state, known, asked, context, { inexactAfterMs: 2 * graceMs })
    if (mark !== undefined) return mark
  }
  return undefined
}

/** How the market ends, as far as the sources can tell by now. */
export function resolutionOf(
  state: QuickMarketsState,
  quickMarket: QuickMarket,
  context: QuickContext,
): QuickResolution | undefined {
  const known = state.assets.get(quickMarket.asset)
  if (known === undefined) return undefined
  const { strike, startSec } = quickMarket
  const endSec = endSecOf(quickMarket)
  const { sources, ownMs } = state.options
  const markAt = (source: PriceSource, boundarySec: number): Mark | undefined =>
    reliable(state, known, { source, boundarySec }, context)
  const own = markAt(strike.source, endSec)
  if (own !== undefined) return resolved(strike, own)
  if (context.nowMs < endSec * 1_000 + ownMs) return undefined
  for (const source of sources) {
    if (source === strike.source) continue
    // Both are asked for at once, whichever of them is missing.
    const start = markAt(source, startSec)
    const end = markAt(source, endSec)
    if (start !== undefined && end !== undefined) return resolved(start, end)
  }
  return undefined
}

function resolved(start: Mark, end: Mark): QuickResolution {
  return { source: end.source, start, end, outcome: outcomeOf(start.price, end.price) }
}
