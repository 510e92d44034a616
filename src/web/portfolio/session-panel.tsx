/** Creates and revokes the session key of this browser, and shows the key's limits. */

import { type Signal, useSignal } from '@preact/signals'
import { money, shares } from '../format.ts'
import { changing, createSessionKey, revokeSessionKey, sessionKey } from '../state/session-key.ts'
import { showError } from '../state/toasts.ts'

export function SessionPanel() {
  return (
    <section class="panel permissions" aria-labelledby="session-key">
      <div>
        <h2 id="session-key">Session key</h2>
        {sessionKey.value === undefined ? (
          <p class="quiet">
            Sign once with your wallet; your orders then need no more wallet signatures. The key
            stays in this browser. It can trade for you within its limits, but it cannot move,
            approve or redeem anything.{' '}
          </p>
        ) : (
          <Allowed />
        )}
      </div>
      <span class="space" />
      {sessionKey.value === undefined ? <Create /> : <Revoke />}
    </section>
  )
}

function Allowed() {
  const used = sessionKey.value
  if (used === undefined) return null
  const { maxOrderSize, maxOpenNotional } = used
  return (
    <p class="quiet">
      Signs your orders in all markets until {new Date(used.until * 1_000).toLocaleString()}: up to{' '}
      {maxOrderSize === 0 ? 'any number of' : shares(maxOrderSize)} shares each,{' '}
      {maxOpenNotional === 0 ? 'any amount' : money(maxOpenNotional)} open at once. It cannot move,
      approve or redeem anything.
    </p>
  )
}

function Create() {
  const hours = useSignal('24')
  const maxOrderSize = useSignal('100')
  const maxOpenNotional = useSignal('500')
  const isBusy = changing.value !== undefined
  return (
    <>
      <Amount label="Hours" size={4} text={hours} />
      <Amount label="Shares per order" size={6} text={maxOrderSize} />
      <Amount label="Dollars open" size={6} text={maxOpenNotional} />
      <button
        type="button"
        disabled={isBusy || !(Number(hours.value) > 0)}
        onClick={() =>
          void createSessionKey({
            hours: Number(hours.value),
            maxOrderSize: maxOrderSize.value.trim(),
            maxOpenNotional: maxOpenNotional.value.trim(),
          }).catch(showError)
        }
      >
        {isBusy ? 'Waiting …' : 'Create a session key'}
      </button>
    </>
  )
}

type AmountProps = {
  readonly label: string
  readonly size: number
  readonly text: Signal<string>
}

function Amount({ label, size, text }: AmountProps) {
  return (
    <label>
      {label}
      <input
        inputMode="decimal"
        size={size}
        value={text}
        onInput={(event) => {
          text.value = event.currentTarget.value
        }}
      />
    </label>
  )
}

function Revoke() {
  const isBusy = changing.value !== undefined
  return (
    <button
      type="button"
      disabled={isBusy}
      onClick={() => void revokeSessionKey().catch(showError)}
    >
      {isBusy ? 'Waiting …' : 'Revoke'}
    </button>
  )
}
