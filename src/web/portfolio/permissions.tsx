/**
 * Shows which permissions the account has given to the exchange. Missing permissions can be granted here before the
 * first trade.
 */

import { chain } from '../state/exchange.ts'
import { funds } from '../state/funds.ts'
import { asking, ensureShares, ensureStablecoin } from '../state/permissions.ts'
import { showError } from '../state/toasts.ts'

/** Allowance that an account without dollars requests: 10,000 dollars. */
const ALLOWANCE_OF_EMPTY = 10_000_000_000n

export function Permissions() {
  const has = funds.value
  if (has === undefined) return null
  const wanted = has.stablecoin > 0n ? has.stablecoin : ALLOWANCE_OF_EMPTY
  const isSpendable = has.allowance >= wanted
  if (isSpendable && has.sharesApproved) return null
  const symbol = chain.value?.stablecoin.symbol ?? 'stablecoin'
  return (
    <section class="panel permissions" aria-labelledby="permissions">
      <div>
        <h2 id="permissions">Before your first trade</h2>
        <p class="quiet">Each permission is one signature of your wallet. It costs no gas.</p>
      </div>
      <span class="space" />
      {isSpendable ? null : (
        <button
          type="button"
          disabled={asking.value !== undefined}
          onClick={() => void ensureStablecoin(wanted).catch(showError)}
        >
          {asking.value === 'stablecoin' ? 'Waiting …' : `Let the exchange take ${symbol}`}
        </button>
      )}
      {has.sharesApproved ? null : (
        <button
          type="button"
          disabled={asking.value !== undefined}
          onClick={() => void ensureShares().catch(showError)}
        >
          {asking.value === 'shares' ? 'Waiting …' : 'Let the exchange move shares'}
        </button>
      )}
    </section>
  )
}
