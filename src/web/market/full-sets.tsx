/** Lets the account split a dollar into one YES share and one NO share, or merge both shares back into a dollar. */

import { useSignal } from '@preact/signals'
import { useId } from 'preact/hooks'
import { money, shares } from '../format.ts'
import { freeStablecoin, funds } from '../state/funds.ts'
import { showError, showToast } from '../state/toasts.ts'
import { mergeShares, splitShares } from '../state/transactions.ts'
import type { MarketModel } from './market-model.ts'
import { readDollars } from './ticket-text.ts'

type Deed = 'split' | 'merge'

export function FullSets({ model }: { readonly model: MarketModel }) {
  const id = useId()
  const text = useSignal('')
  const doing = useSignal<Deed | undefined>(undefined)
  const read = readDollars(text.value)
  const amount = 'value' in read ? BigInt(read.value) : undefined
  const most = { split: dollarsOf(), merge: setsOf(model) }
  const can = (deed: Deed) =>
    doing.value === undefined && amount !== undefined && amount <= most[deed]
  const run = async (deed: Deed) => {
    if (amount === undefined) return
    doing.value = deed
    try {
      await (deed === 'split' ? splitShares : mergeShares)(model.marketId, amount)
      showToast('done', doneWords(deed, amount))
      text.value = ''
    } catch (error) {
      showError(error)
    } finally {
      doing.value = undefined
      model.refresh()
    }
  }
  return (
    <details class="sets">
      <summary>Split and merge</summary>
      <p class="quiet">
        Splitting $1 gives one YES share and one NO share. Merging one of each gives $1 back. Your
        wallet sends the transaction and pays its gas.{' '}
      </p>
      <div class="row">
        <label for={id}>Dollars</label>
        <input
          id={id}
          class="num sets-amount"
          inputMode="decimal"
          autocomplete="off"
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value
          }}
        />
        {(['split', 'merge'] as const).map((deed) => (
          <button key={deed} type="button" disabled={!can(deed)} onClick={() => void run(deed)}>
            {doing.value === deed ? 'Waiting …' : deed === 'split' ? 'Split' : 'Merge'}
          </button>
        ))}
      </div>
      <p class="quiet num" role="status">
        {text.value !== '' && 'error' in read
          ? read.error
          : `You can split up to ${money(most.split)} and merge up to ${money(most.merge)}.`}
      </p>
    </details>
  )
}

/**
 * Returns the account's dollars that are not reserved for orders. If the exchange does not reserve funds, returns all
 * dollars.
 */
function dollarsOf(): bigint {
  const has = funds.value?.stablecoin ?? 0n
  const free = freeStablecoin.value ?? has
  return free < has ? free : has
}

function setsOf({ position }: MarketModel): bigint {
  return BigInt(Math.min(position.value?.yesShares ?? 0, position.value?.noShares ?? 0))
}

function doneWords(deed: Deed, amount: bigint): string {
  return deed === 'split'
    ? `${money(amount)} became ${shares(amount)} YES and ${shares(amount)} NO.`
    : `${shares(amount)} YES and ${shares(amount)} NO became ${money(amount)}.`
}
