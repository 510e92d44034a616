/** Copies the link to a market or event. */

import { showToast } from './state/toasts.ts'

export function ShareButton({ path }: { readonly path: string }) {
  return (
    <button type="button" class="plain small" onClick={() => void share(path)}>
      Share
    </button>
  )
}

async function share(path: string): Promise<void> {
  const link = `${location.origin}${path}`
  try {
    await navigator.clipboard.writeText(link)
    showToast('news', `The link is copied: ${link}`)
  } catch {
    // Browsers allow copying only on secure origins, so the link is shown instead.
    showToast('news', link)
  }
}
