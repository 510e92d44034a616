/**
 * Shows a transaction: as a link to the block explorer if one is configured, otherwise as a hash that can be copied.
 */

import type { ComponentChildren } from 'preact'
import { trimEnd } from '#domain/trim-end.ts'
import { shortAddress } from '../format.ts'
import { chain } from '../state/exchange.ts'
import { showToast } from '../state/toasts.ts'

export function TransactionLink(props: {
  readonly txHash: string
  readonly children: ComponentChildren
  /** True if there is no room for the hash. The hash is then shown only in the tooltip. */
  readonly compact?: boolean
}) {
  const { txHash, children, compact = false } = props
  const hash = compact ? null : <span class="num quiet">{shortAddress(txHash)}</span>
  if (txHash === '') return <>{children}</>
  const explorer = chain.value?.blockExplorer
  if (explorer !== undefined) {
    const href = `${trimEnd(explorer, '/')}/tx/${txHash}`
    return (
      <a class="transaction" href={href} target="_blank" rel="noreferrer" title={txHash}>
        {children} {hash}
      </a>
    )
  }
  return (
    <button
      type="button"
      class="plain transaction"
      title={`${txHash}: copy`}
      onClick={() => void copy(txHash)}
    >
      {children} {hash}
      <span class="hidden-text">: copy the hash of the transaction</span>
    </button>
  )
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    showToast('news', 'The hash is copied.')
  } catch {
    // Browsers allow copying only on secure origins, so the hash is shown instead.
    showToast('news', text)
  }
}
