/**
 * A dead-man switch: the exchange cancels all orders of an address at `dueAtMs`. Each renewal by the switch's
 * API key sets a later `dueAtMs`.
 */

import type { Address } from './ids.ts'

export type DeadmanSwitch = {
  readonly keyId: string
  /**
   * Account whose orders are cancelled. It is the wallet address of the API key, or an account that appointed this
   * wallet address as its delegate.
   */
  readonly address: Address
  /** Wallet address of the API key. Set only if the wallet is a delegate of the account `address`. */
  readonly delegate?: Address
  readonly dueAtMs: number
}
