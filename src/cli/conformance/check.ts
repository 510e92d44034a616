/** One line of the contract: its statement and its check. */

import type { World } from './world.ts'

export type Check = {
  /** Stable, for programs: `markets.list`. */
  readonly id: string
  /** Statement that holds if the check passes. */
  readonly says: string
  /** Throws `Mismatch` if the statement is false, `Skipped` if it cannot be checked. */
  readonly run: (world: World) => Promise<void>
}
