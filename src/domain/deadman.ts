/** A dead-man switch: unless its API key renews it in time, all orders of an address are cancelled. */

import type { Address } from './ids.ts'

export type DeadmanSwitch = {
  readonly keyId: string
  /** Account whose orders are cancelled: the key's own address, or one that appointed it as a delegate. */
  readonly address: Address
  /** The key's own address, if it is a delegate of the account. */
  readonly delegate?: Address
  readonly dueAtMs: number
}
