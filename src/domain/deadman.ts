/** A dead-man switch: unless its API key renews it in time, all orders of the key's address are cancelled. */

import type { Address } from './ids.ts'

export type DeadmanSwitch = {
  readonly keyId: string
  readonly address: Address
  readonly dueAtMs: number
}
