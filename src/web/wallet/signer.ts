/** An account of an EIP-1193 provider as the SDK's signer: orders, relayed operations, and plain texts. */

import type { AccountSigner } from '#client/sign-order.ts'
import type { Provider } from './provider.ts'
import { type SignedData, typedPayload } from './typed-payload.ts'

export type WalletSigner = AccountSigner & {
  readonly signMessage: (text: { readonly message: string }) => Promise<string>
}

/** `ready` is waited for before each signature: wallets refuse what is for another chain than theirs. */
export function walletSigner(
  provider: Provider,
  address: string,
  ready: () => Promise<void>,
): WalletSigner {
  return {
    address,
    async signTypedData(data) {
      await ready()
      const params = [address, typedPayload(data as unknown as SignedData)]
      return String(await provider.request({ method: 'eth_signTypedData_v4', params }))
    },
    async signMessage({ message }) {
      const params = [hexOf(message), address]
      return String(await provider.request({ method: 'personal_sign', params }))
    },
  }
}

function hexOf(text: string): string {
  const bytes = [...new TextEncoder().encode(text)]
  return `0x${bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
}
