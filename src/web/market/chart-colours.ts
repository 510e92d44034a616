/** The colours of the page for a canvas, which does not support CSS variables. */

const NAMES = ['panel', 'line', 'quiet', 'text', 'up', 'down', 'accent'] as const

export type ChartColours = Readonly<Record<(typeof NAMES)[number], string>>

/** Returns the current colours, light or dark: a probe element gets each of them and reports its computed value. */
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

/** Called when the system changes between light and dark. */
export function onSchemeChange(listener: () => void): () => void {
  const scheme = matchMedia('(prefers-color-scheme: dark)')
  scheme.addEventListener('change', listener)
  return () => scheme.removeEventListener('change', listener)
}
