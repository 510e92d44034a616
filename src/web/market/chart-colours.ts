/** Reads the colours of the page for a canvas, because a canvas does not support CSS variables. */

const NAMES = ['panel', 'line', 'quiet', 'text', 'up', 'down', 'accent'] as const

export type ChartColours = Readonly<Record<(typeof NAMES)[number], string>>

/**
 * Returns the current colours of the page, in light or dark mode. Each colour is set on a temporary element, and the
 * element's computed style is read.
 */
export function readColours(within: HTMLElement): ChartColours {
  const probe = document.createElement('span')
  probe.hidden = true
  within.append(probe)
  try {
    const found = NAMES.map((name) => {
      probe.style.color = `var(--${name})`
      return [name, getComputedStyle(probe).color] as const
    })
    return Object.fromEntries(found) as ChartColours
  } finally {
    probe.remove()
  }
}

/**
 * Calls the listener when the system switches between light and dark mode. Returns a function that removes
 * the listener.
 */
export function onSchemeChange(listener: () => void): () => void {
  const scheme = matchMedia('(prefers-color-scheme: dark)')
  scheme.addEventListener('change', listener)
  return () => scheme.removeEventListener('change', listener)
}
