/**
 * Finds wallets with an EIP-1193 provider, by EIP-6963 or as `window.ethereum`. The devnet's Ethereum node can also act
 * as a provider, because it signs for its well-known accounts.
 */

import { signal } from '@preact/signals'

export type Provider = {
  request(call: { readonly method: string; readonly params?: readonly unknown[] }): Promise<unknown>
  on?(event: string, listener: (value: never) => void): unknown
  removeListener?(event: string, listener: (value: never) => void): unknown
}

export type Wallet = {
  /** Id of the wallet, which stays the same at the next visit. */
  readonly id: string
  readonly name: string
  /** Icon of the wallet as a data URL; '' if it has none. */
  readonly icon: string
  readonly provider: Provider
}

type Announcement = {
  readonly info: { readonly rdns: string; readonly name: string; readonly icon: string }
  readonly provider: Provider
}

/** Maximum number of listed wallets, for browsers with many extensions. */
const WALLETS_MAX = 20
const NODE_TIMEOUT_MS = 10_000

export const wallets = signal<readonly Wallet[]>([])

export function findWallets(): void {
  addEventListener('eip6963:announceProvider', (event) => {
    const { info, provider } = (event as CustomEvent<Announcement>).detail
    const icon = info.icon.startsWith('data:image/') ? info.icon : ''
    addWallet({ id: info.rdns, name: info.name, icon, provider })
  })
  dispatchEvent(new Event('eip6963:requestProvider'))
  const { ethereum } = globalThis as { ethereum?: Provider }
  if (ethereum !== undefined && wallets.value.length === 0) {
    addWallet({ id: 'injected', name: 'Browser wallet', icon: '', provider: ethereum })
  }
}

function addWallet(wallet: Wallet): void {
  if (wallets.value.length >= WALLETS_MAX) return
  if (wallets.value.some(({ id }) => id === wallet.id)) return
  wallets.value = [...wallets.value, wallet]
}

/** Makes a wallet provider that sends requests to an Ethereum node. */
export function nodeProvider(url: string): Provider {
  return {
    async request({ method, params = [] }) {
      let answer: { readonly result?: unknown; readonly error?: { readonly message: string } }
      try {
        const response = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
          signal: AbortSignal.timeout(NODE_TIMEOUT_MS),
        })
        answer = (await response.json()) as typeof answer
      } catch {
        throw new Error(`the chain's node at ${url} cannot be reached from this browser`)
      }
      if (answer.error !== undefined) throw new Error(answer.error.message)
      return answer.result
    },
  }
}
