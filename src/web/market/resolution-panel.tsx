/** Shows the rules of the market, the progress of its resolution, and the actions that are possible now. */

import type { Market } from '#protocol/shapes/markets.ts'
import { assetPrice, money, timeLeft } from '../format.ts'
import { nowSec, secondsUntil } from '../state/clock.ts'
import type { MarketModel } from './market-model.ts'
import type { QuickModel } from './quick-model.ts'
import { goesToOracle } from './quick-standing.ts'
import { ResolutionDeed } from './resolution-deed.tsx'
import { deedOf, resolutionSteps, type Step } from './resolution-steps.ts'

const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'short' })

type Props = {
  readonly model: MarketModel
  readonly market: Market
  readonly quick: QuickModel
}

export function Rules({ market, quick }: Omit<Props, 'model'>) {
  const running = quick.market.value
  return (
    <section class="panel" aria-labelledby="rules-title">
      <div class="panel-head">
        <h2 id="rules-title">Rules</h2>
      </div>
      <div class="rules">
        <p>
          {running === undefined
            ? market.description
            : `YES wins if the price of ${running.asset} at the end is at or above the strike of ` +
              `${assetPrice(running.startPrice)}; otherwise NO wins.`}
        </p>
        <dl class="figures">
          <div>
            <dt>Ends</dt>
            <dd>{full.format(market.expiration * 1_000)}</dd>
          </div>
          <div>
            <dt>Decided by</dt>
            <dd>
              {running === undefined
                ? 'Proposal with a bond, open to dispute'
                : `The price of ${running.asset} at the end, source ${running.priceSource}`}
            </dd>
          </div>
          <div>
            <dt>Each share pays</dt>
            <dd>$1 if its outcome wins, otherwise nothing </dd>
          </div>
          <div>
            <dt>Fees</dt>
            <dd>No fees; the exchange pays the gas of trades and redemptions</dd>
          </div>
          <div>
            <dt>Contract</dt>
            <dd class="hash">{market.contractAddress}</dd>
          </div>
        </dl>
      </div>
    </section>
  )
}

const STEP_WORDS: Readonly<Record<Step['name'], string>> = {
  open: 'Open',
  expired: 'Expired',
  proposed: 'Proposed',
  disputed: 'Disputed',
  settled: 'Settled',
  redeem: 'Redeem',
}

const STATE_WORDS = { done: 'done', now: 'now', later: 'to come' } as const

export function Resolution({ model, market, quick }: Props) {
  const status = model.resolution.value
  const isReported = market.quick && !goesToOracle(quick.market.value)
  const held = model.position.value
  const standing = {
    status,
    expiration: market.expiration,
    nowSec: nowSec.value,
    quick: isReported,
    hasShares: held !== undefined && held.yesShares + held.noShares > 0,
  }
  const winner = status?.winningOutcome
  return (
    <section class="panel" aria-labelledby="resolution-title">
      <div class="panel-head">
        <h2 id="resolution-title">Resolution</h2>
        <span class="space" />
        {winner === undefined ? null : (
          <span class={`badge ${winner === 0 ? 'badge-up' : 'badge-down'}`}>
            {winner === 0 ? 'YES' : 'NO'} has won
          </span>
        )}
      </div>
      <ol class="steps">
        {resolutionSteps(standing).map(({ name, state }) => (
          <li
            key={name}
            class={`step step-${state}`}
            aria-current={state === 'now' ? 'step' : undefined}
          >
            {STEP_WORDS[name]}
            <span class="hidden-text">, {STATE_WORDS[state]}</span>
          </li>
        ))}
      </ol>
      <div class="rules">
        <Standing model={model} market={market} isReported={isReported} />
        <ResolutionDeed model={model} market={market} deed={deedOf(standing)} />
      </div>
    </section>
  )
}

/** Describes the state. */
function Standing(props: {
  readonly model: MarketModel
  readonly market: Market
  /** True if the exchange reports the outcome, so that no trader has to propose it. */
  readonly isReported: boolean
}) {
  const { model, market, isReported } = props
  const status = model.resolution.value
  const left = secondsUntil(market.expiration)
  const assertion = status?.assertion
  if (status?.resolved === true) {
    return (
      <p>The market is settled: each {status.winningOutcome === 0 ? 'YES' : 'NO'} share pays $1.</p>
    )
  }
  if (assertion !== undefined) {
    const outcome = assertion.proposedOutcome ? 'YES' : 'NO'
    const window = secondsUntil(assertion.expirationTime)
    const bond = money(BigInt(assertion.bondAmount))
    if (assertion.disputed) return <p>{outcome} was proposed and disputed. The oracle decides.</p>
    if (window <= 0)
      return <p>{outcome} was proposed and not disputed. The market can be settled.</p>
    return (
      <p>
        {outcome} was proposed with a bond of {bond}. The proposal can be disputed for another{' '}
        <span class="num">{timeLeft(window)}</span>.
      </p>
    )
  }
  if (left > 0 && status?.expired !== true) {
    return (
      <p class="quiet">
        Trading continues for <span class="num">{timeLeft(left)}</span>.
      </p>
    )
  }
  return isReported ? (
    <p>Trading has ended. The exchange reports the outcome to the chain.</p>
  ) : (
    <p>Trading has ended. Anyone who knows the outcome can propose it.</p>
  )
}
