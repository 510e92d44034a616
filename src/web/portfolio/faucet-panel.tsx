/** Offers test money if the account has almost none. Otherwise nothing is shown. */

import { money } from '../format.ts'
import { askFaucet, FAUCET_DOLLARS, isPouring, needsFaucet } from '../state/faucet.ts'

export function FaucetPanel() {
  if (!needsFaucet.value) return null
  return (
    <section class="panel notice" aria-label="Test money">
      <p>This account has no dollars yet.</p>
      <span class="space" />
      <button
        type="button"
        class="main"
        disabled={isPouring.value}
        onClick={() => void askFaucet()}
      >
        {isPouring.value ? 'Waiting for the chain …' : `Get ${money(FAUCET_DOLLARS, 0)} to test`}
      </button>
    </section>
  )
}
