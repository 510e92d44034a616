/** Shows short messages at the edge of the page. */

import { closeToast, toasts } from '../state/toasts.ts'

export function ToastStack() {
  return (
    <div class="toasts" role="log" aria-live="polite" aria-label="Messages">
      {toasts.value.map(({ id, kind, text }) => (
        <div key={id} class={`toast toast-${kind}`}>
          <span>{text}</span>
          <button
            type="button"
            class="plain"
            aria-label="Close message"
            onClick={() => closeToast(id)}
          >
            ×
          </button>
        </div>
      ))}
    </div>
  )
}
