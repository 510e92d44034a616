/** A button for what cannot be undone: it asks once more, with what it would do. */

import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'

export function ConfirmButton(props: {
  /** Before anything is asked. */
  readonly name: string
  /** The button that goes on, and the one that does not. */
  readonly confirm: string
  readonly keep: string
  readonly isDisabled: boolean
  readonly onConfirm: () => void
  /** What the user should know before going on. */
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
