/** Keyboard shortcuts, and a dialog that lists them. The key `?` opens the dialog. */

import { useEffect, useRef } from 'preact/hooks'
import { marketsLink, PORTFOLIO_LINK } from '../state/router.ts'
import { nextTheme } from '../state/theme.ts'

type Shortcut = {
  readonly key: string
  readonly words: string
  /** Called when the key is pressed; undefined if another part of the page handles the key. */
  readonly run?: () => void
}

/** Clicks the first button whose text starts with `name` in the part of the page that `place` selects. */
function press(place: string, name: string): void {
  const buttons = [...document.querySelectorAll<HTMLButtonElement>(`${place} button`)]
  buttons.find(({ textContent }) => textContent?.trim().startsWith(name))?.click()
}

const SHORTCUTS: readonly Shortcut[] = [
  { key: '/', words: 'Search the list of markets' },
  { key: 'm', words: 'All markets', run: () => location.assign(marketsLink.value) },
  { key: 'p', words: 'Portfolio', run: () => location.assign(PORTFOLIO_LINK) },
  { key: 'b', words: 'Buy in the order ticket', run: () => press('.ticket-sides', 'Buy') },
  { key: 's', words: 'Sell in the order ticket', run: () => press('.ticket-sides', 'Sell') },
  { key: 'y', words: 'YES', run: () => press('.ticket-outcomes', 'YES') },
  { key: 'n', words: 'NO', run: () => press('.ticket-outcomes', 'NO') },
  { key: 't', words: 'Light or dark', run: nextTheme },
  { key: '↑ ↓', words: 'Another price, in the book and in the price field' },
]

/** Handles the keyboard shortcuts. No shortcut sends an order, so an accidental key press does no harm. */
export function Shortcuts() {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const keyPressed = (event: KeyboardEvent) => {
      const { target } = event
      const isTyping = target instanceof Element && target.matches('input, select, textarea')
      const isOpen = document.querySelector('dialog[open]') !== null
      if (isTyping || isOpen || event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === '?') dialog.current?.showModal()
      else SHORTCUTS.find(({ key }) => key === event.key)?.run?.()
    }
    addEventListener('keydown', keyPressed)
    return () => removeEventListener('keydown', keyPressed)
  }, [])
  return (
    <>
      <button
        type="button"
        class="plain theme"
        aria-label="Keyboard shortcuts"
        aria-keyshortcuts="?"
        aria-haspopup="dialog"
        onClick={() => dialog.current?.showModal()}
      >
        ?
      </button>
      <dialog ref={dialog} class="dialog" aria-labelledby="shortcuts-title">
        <div class="dialog-head">
          <h2 id="shortcuts-title">Keyboard shortcuts</h2>
          <button
            type="button"
            class="plain"
            aria-label="Close"
            onClick={() => dialog.current?.close()}
          >
            ×
          </button>
        </div>
        <dl class="figures shortcuts">
          {SHORTCUTS.map(({ key, words }) => (
            <div key={key}>
              <dt>{words}</dt>
              <dd>
                <kbd>{key}</kbd>
              </dd>
            </div>
          ))}
        </dl>
      </dialog>
    </>
  )
}
