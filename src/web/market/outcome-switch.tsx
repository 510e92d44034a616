/** Chooses the outcome for the book, the candles and the ticket: YES or NO. */

import type { MarketModel } from './market-model.ts'

export function OutcomeSwitch({ model }: { readonly model: MarketModel }) {
  return (
    <fieldset class="switch">
      <legend class="hidden-text">Outcome</legend>
      {(['YES', 'NO'] as const).map((one) => (
        <button
          key={one}
          type="button"
          class={`small ${one === 'YES' ? 'switch-yes' : 'switch-no'}`}
          aria-pressed={model.outcome.value === one}
          onClick={() => {
            model.outcome.value = one
          }}
        >
          {one}
        </button>
      ))}
    </fieldset>
  )
}
