/** Signs for an account with another key: a delegate that the account has appointed at the exchange's contract. */

import type { Hex } from '#domain/typed-data.ts'
import type { AccountSigner } from './sign-order.ts'

/** Returns a signer for orders of `account`, signed by the private key of its delegate. */
export function delegateSigner(account: string, privateKey: Hex): AccountSigner {
  return {
    address: account,
    isDelegated: true,
    async signTypedData(typedData) {
      const { accountOf } = await import('./local-key.ts')
      return accountOf(privateKey).signTypedData(typedData)
    },
  }
}
