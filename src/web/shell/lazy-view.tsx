/** A view that is loaded when it is first shown. */

import { signal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { showError } from '../state/toasts.ts'

export function lazyView<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
): ComponentType<Props> {
  const view = signal<ComponentType<Props> | 'waiting' | 'loading' | 'failed'>('waiting')

  function start(): void {
    view.value = 'loading'
    load().then(
      (loaded) => {
        view.value = loaded
      },
      (error: unknown) => {
        view.value = 'failed'
        showError(error)
      },
    )
  }

  return function LazyView(props: Props) {
    const View = view.value
    if (View === 'waiting') queueMicrotask(start)
    if (View === 'failed') {
      return (
        <p class="empty">
          This part of the page could not be loaded. The exchange may have a newer version.{' '}
          <button type="button" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      )
    }
    if (typeof View === 'string') return <p class="empty">Loading …</p>
    return <View {...props} />
  }
}
