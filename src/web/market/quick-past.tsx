/** Shows an asset's ended quick markets, each with its outcome and the prices that decided it. */

import { useSignal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { QuickMarketEvidence } from '#client/prices.ts'
import type { PriceObservation, QuickMarket } from '#protocol/shapes/prices.ts'
import { assetPrice, NOTHING, signedDifference } from '../format.ts'
import { reader } from '../state/exchange.ts'
import { marketLink } from '../state/router.ts'
import { showError } from '../state/toasts.ts'
import { type Column, Table } from '../table.tsx'
import { type EvidenceRow, evidenceRows, evidenceWords } from './evidence-rows.ts'
import type { QuickModel } from './quick-model.ts'
import { TransactionLink } from './transaction-link.tsx'

/** Number of rows shown at first, and number of rows added by each click. */
const LISTED = 8

const ended = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  hour12: false,
})

export function QuickPast({ quick }: { readonly quick: QuickModel }) {
  const [count, setCount] = useState(LISTED)
  const asset = quick.market.value?.asset
  const past = quick.past.value
  if (asset === undefined) return null
  return (
    <section class="panel quick-past" aria-labelledby="quick-past-title">
      <div class="panel-head">
        <h2 id="quick-past-title">Past {asset} markets</h2>
        <span class="space" />
        <span class="quiet quick-hint">Open one to see its evidence</span>
      </div>
      {past.length === 0 ? <p class="empty">None has ended yet.</p> : null}
      {past.slice(0, count).map((market) => (
        <PastMarket key={market.id} market={market} isThis={market.id === quick.market.value?.id} />
      ))}
      {past.length > count ? (
        <button type="button" class="plain show-more" onClick={() => setCount(count + LISTED)}>
          Show more
        </button>
      ) : null}
    </section>
  )
}

function PastMarket({
  market,
  isThis,
}: {
  readonly market: QuickMarket
  readonly isThis: boolean
}) {
  const evidence = useSignal<QuickMarketEvidence | undefined>(undefined)
  const { startPrice, endTime } = market
  const endPrice = market.endPrice ?? undefined
  const outcome = market.outcome ?? undefined
  const colour = outcome === undefined ? '' : outcome === 0 ? 'up' : 'down'
  // On the page of an ended market, the row of that market is open at first, so its evidence is shown.
  const [isOpen, setOpen] = useState(isThis)
  const { asset, id, verdict } = market
  useEffect(() => {
    if (!isOpen) return
    reader.quickMarkets.evidence(asset, id).then((found) => {
      evidence.value = found
    }, showError)
    // The effect depends on the verdict, so that the evidence is read again when the verdict changes.
    void verdict
  }, [isOpen, asset, id, verdict, evidence])
  return (
    <details
      class="quick-row"
      open={isOpen}
      onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
    >
      <summary class="num">
        <span>{ended.format(endTime * 1_000)}</span>
        <span class="quick-prices">
          {assetPrice(startPrice)} → {endPrice === undefined ? NOTHING : assetPrice(endPrice)}
        </span>
        <span class={colour}>
          {endPrice === undefined ? NOTHING : signedDifference(endPrice - startPrice)}
        </span>
        <Verdict market={market} />
      </summary>
      {evidence.value === undefined ? (
        <p class="empty">Loading …</p>
      ) : (
        <Evidence evidence={evidence.value} isThis={isThis} />
      )}
    </details>
  )
}

function Verdict({ market: { outcome, verdict } }: { readonly market: QuickMarket }) {
  if (outcome == null) {
    return (
      <span class="badge badge-warn">{verdict === 'contested' ? 'contested' : 'undecided'}</span>
    )
  }
  return (
    <span class={`badge ${outcome === 0 ? 'badge-up' : 'badge-down'}`}>
      {outcome === 0 ? 'YES won' : 'NO won'}
    </span>
  )
}

const COLUMNS: readonly Column<EvidenceRow>[] = [
  {
    name: 'Source',
    cell: ({ source, decided }) => (
      <>
        {source} {decided ? <span class="badge badge-up">decided</span> : null}
      </>
    ),
  },
  { name: 'At the start', isNumber: true, cell: ({ start }) => <Report report={start} /> },
  { name: 'At the end', isNumber: true, cell: ({ end }) => <Report report={end} /> },
  {
    name: 'Move',
    isNumber: true,
    tone: ({ moveBps }) => (moveBps === null ? '' : moveBps >= 0 ? 'up' : 'down'),
    cell: ({ moveBps }) =>
      moveBps === null ? NOTHING : `${moveBps > 0 ? '+' : ''}${(moveBps / 100).toFixed(3)}%`,
  },
  {
    name: 'Vote',
    isWide: true,
    cell: ({ counted, moveBps }) =>
      counted && moveBps !== null ? (moveBps >= 0 ? 'up' : 'down') : 'none',
  },
]

function Report({ report }: { readonly report: PriceObservation | null }) {
  if (report === null) return <>{NOTHING}</>
  return <span title={report.report}>{assetPrice(report.price)}</span>
}

const second = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', hour12: false })

/** Replaces Unix seconds in a sentence by local times. */
function withTimes(text: string): string {
  return text.replace(/\b[12][0-9]{9}\b/g, (seconds) => second.format(Number(seconds) * 1_000))
}

function Evidence(props: { readonly evidence: QuickMarketEvidence; readonly isThis: boolean }) {
  const { evidence } = props
  return (
    <div class="quick-evidence">
      <p>{evidenceWords(evidence)}</p>
      <Table
        caption="Reports of the price sources"
        rows={evidenceRows(evidence)}
        columns={COLUMNS}
        keyOf={({ source }) => source}
        empty="No source has reported the end yet."
      />
      <p class="quiet">{withTimes(evidence.rule)}.</p>
      <p class="row">
        <TransactionLink txHash={evidence.createTxHash}>
          {evidence.createTxHash === '' ? null : 'Created'}
        </TransactionLink>
        <TransactionLink txHash={evidence.reportTxHash}>
          {evidence.reportTxHash === '' ? null : 'Reported'}
        </TransactionLink>
        {props.isThis ? null : (
          <a class="quick-next" href={marketLink(evidence.quickMarket.marketId)}>
            The market
          </a>
        )}
      </p>
    </div>
  )
}
