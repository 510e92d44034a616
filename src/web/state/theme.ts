/** Dark or light mode. The page follows the system until the user chooses a mode. */

import { effect, signal } from '@preact/signals'

type Theme = 'system' | 'dark' | 'light'

const PLACE = 'sibyl theme'
const ORDER: readonly Theme[] = ['system', 'dark', 'light']

export const theme = signal<Theme>('system')

export function nextTheme(): void {
  theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length] ?? 'system'
}

export function startTheme(): void {
  const kept = localStorage.getItem(PLACE)
  theme.value = ORDER.find((one) => one === kept) ?? 'system'
  effect(() => {
    localStorage.setItem(PLACE, theme.value)
    document.documentElement.dataset.theme = theme.value
  })
}
