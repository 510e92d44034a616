/** The colours of the page for what is drawn on a canvas, which knows no variables. */

const NAMES = ['panel', 'line', 'quiet', 'text', 'up', 'down', 'accent'] as const

export type ChartColours = Readonly<Record<(typeof NAMES)[number], string>>

/** As they are now, in light or dark: a probe wears each of them and tells what it came to. */
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
