/**
 * A dead-man switch: the exchange cancels all orders of an address at `dueAtMs`. Each renewal by the switch's
 * API key sets a later `dueAtMs`.
 */

import type { Address } from './ids.ts'

export type DeadmanSwitch = {
  readonly keyId: string
  /**
   * Account whose orders are cancelled: the address of the key, or an account that appointed the key's address as a
   * delegate.
   */
  readonly address: Address
  /** The address of the key, if it is a delegate of the account. */
  readonly delegate?: Address
  readonly dueAtMs: number
}
