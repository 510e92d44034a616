/** What the account has on the chain, and what it lets the exchange move. */

import { computed, effect, signal } from '@preact/signals'
import { type ChainFunds, readFunds } from '../wallet/token-reads.ts'
import { account, node } from './account.ts'
import { chain, onReconnect } from './exchange.ts'

const REFRESH_MS = 15_000

type Read = { readonly address: string; readonly funds: ChainFunds }

const read = signal<Read | undefined>(undefined)

/** Undefined until it is read, and where it cannot be. */
export const funds = computed(() =>
  read.value?.address === account.value?.address ? read.value?.funds : undefined,
)

/** After something that moved money; it is read again by itself once in a while. */
export async function refreshFunds(): Promise<void> {
  const chosen = account.value
  const where = chain.value
  if (chosen === undefined || where === undefined) return
  try {
    const found = await readFunds(node.value ?? chosen.provider, where, chosen.address)
    read.value = { address: chosen.address, funds: found }
  } catch {
    // A number that may be wrong is not shown; the wallet says what it lacks when it is asked to sign.
    read.value = undefined
  }
}

export function followFunds(): void {
  effect(() => {
    if (account.value !== undefined && chain.value !== undefined) void refreshFunds()
  })
  onReconnect(() => void refreshFunds())
  setInterval(() => {
    if (!document.hidden) void refreshFunds()
  }, REFRESH_MS)
}
