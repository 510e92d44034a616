/** A button for irreversible actions. It explains the effect of the action and asks for confirmation. */

import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'

export function ConfirmButton(props: {
  /** Text of the button before it is pressed. */
  readonly name: string
  /** Texts of the two buttons that appear after the first press: one confirms the action, one cancels it. */
  readonly confirm: string
  readonly keep: string
  readonly isDisabled: boolean
  readonly onConfirm: () => void
  /** Information for the user before confirming. */
  readonly children?: ComponentChildren
}) {
  const isAsking = useSignal(false)
  if (!isAsking.value || props.isDisabled) {
    return (
      <button
        type="button"
        class="small"
        disabled={props.isDisabled}
        onClick={() => {
          isAsking.value = true
        }}
      >
        {props.name}
      </button>
    )
  }
  return (
    <div class="confirm" role="alertdialog" aria-label={props.name}>
      {props.children}
      <div class="row">
        <button
          type="button"
          class="small"
          onClick={() => {
            isAsking.value = false
            props.onConfirm()
          }}
        >
          {props.confirm}
        </button>
        <button
          type="button"
          class="plain small"
          onClick={() => {
            isAsking.value = false
          }}
        >
          {props.keep}
        </button>
      </div>
    </div>
  )
}
