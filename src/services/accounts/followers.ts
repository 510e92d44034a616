/** What accounts tell the fronts. */

import type { Address } from '#domain/ids.ts'

export type AccountsFollowerProtocol = {
  FundsChanged: {
    takes: { accounts: readonly { readonly chainId: number; readonly trader: Address }[] }
    answers: undefined
  }
}
