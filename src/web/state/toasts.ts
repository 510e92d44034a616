/** Short messages at the edge of the page. They disappear after some seconds, or when the user closes them. */

import { signal } from '@preact/signals'
import { wordsOf } from '../error-words.ts'

type Toast = {
  readonly id: number
  readonly kind: 'done' | 'error' | 'news'
  readonly text: string
}

const TOASTS_MAX = 4
const SHOWN_MS = 6_000
/** Time for which an error is shown. An error takes longer to read than a success message. */
const ERROR_SHOWN_MS = 12_000

export const toasts = signal<readonly Toast[]>([])
let ids = 0

export function showToast(kind: Toast['kind'], text: string): void {
  // A repeated message replaces the earlier one with the same text.
  const others = toasts.value.filter((one) => one.text !== text)
  const toast = { id: ++ids, kind, text }
  toasts.value = [...others, toast].slice(-TOASTS_MAX)
  setTimeout(() => closeToast(toast.id), kind === 'error' ? ERROR_SHOWN_MS : SHOWN_MS)
}

/** Shows an error in words. */
export function showError(error: unknown): void {
  showToast('error', wordsOf(error))
}

export function closeToast(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id)
}
