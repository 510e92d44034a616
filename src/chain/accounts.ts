/** The exchange's own keys as accounts that sign. */

import type { Hex, LocalAccount } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'

export function accountsOf(keys: readonly string[]): LocalAccount[] {
  return [...new Set(keys.map((key) => key.toLowerCase()))].map((key) =>
    privateKeyToAccount(key as Hex),
  )
}
