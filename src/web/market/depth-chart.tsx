/**
 * Depth chart of the chosen outcome's book, with bids on the left and asks on the right. The pointer selects a price.
 */

import { useSignal } from '@preact/signals'
import { cents, decimal, money } from '../format.ts'
import { type Depth, depthAt, depthOf, depthPath, depthWords } from './depth-steps.ts'
import type { MarketModel } from './market-model.ts'

const BOX = { width: 1_000, height: 500 }

export function DepthChart({ model }: { readonly model: MarketModel }) {
  /** Position of the pointer, as a fraction of the width. */
  const pointed = useSignal<number | undefined>(undefined)
  const outcome = model.outcome.value
  const frame = model.book.value
  if (frame === undefined) return <p class="chart-place empty">Loading …</p>
  const depth = depthOf(frame.bids, frame.asks)
  const words = depthWords(outcome, depth)
  if (depth === undefined) return <p class="chart-place empty">{words}</p>
  const middle = (depth.low + depth.high) / 2
  return (
    <div class="chart-place depth">
      <div
        class="depth-field"
        aria-hidden="true"
        onPointerMove={(event) => {
          const { left, width } = event.currentTarget.getBoundingClientRect()
          pointed.value = (event.clientX - left) / width
        }}
        onPointerLeave={() => {
          pointed.value = undefined
        }}
      >
        <svg viewBox={`0 0 ${BOX.width} ${BOX.height}`} preserveAspectRatio="none">
          <title>Depth of the book</title>
          <path class="depth-bids" d={depthPath(depth, 'bids', BOX)} />
          <path class="depth-asks" d={depthPath(depth, 'asks', BOX)} />
        </svg>
        {pointed.value === undefined ? (
          <span class="depth-largest quiet num">{decimal(depth.largest, 0)} shares</span>
        ) : null}
        <Pointed depth={depth} part={pointed.value} />
      </div>
      <div class="depth-axis quiet num" aria-hidden="true">
        {[depth.low, (depth.low + middle) / 2, middle, (middle + depth.high) / 2, depth.high].map(
          (price, at) => (
            <span key={at}>{cents(Math.round(price / 1_000) * 1_000)}</span>
          ),
        )}
      </div>
      <p class="hidden-text">{words}</p>
    </div>
  )
}

/** Shows a line at the pointer, with the size and value of an order that would trade up to that price. */
function Pointed({ depth, part }: { readonly depth: Depth; readonly part: number | undefined }) {
  if (part === undefined) return null
  const found = depthAt(depth, depth.low + part * (depth.high - depth.low))
  return (
    <>
      <span class="depth-line" style={{ left: `${part * 100}%` }} />
      {found === undefined ? null : (
        <span class="depth-read num">
          {found.side === 'bid' ? 'Sell down to' : 'Buy up to'} {cents(found.point.price)}:{' '}
          {decimal(found.point.total, 0)} shares for {money(found.point.value)}
        </span>
      )}
    </>
  )
}
