/** One line of the conformance report: a statement about the API, and the check of it. */

import type { World } from './world.ts'

export type Check = {
  /** Stable id, for programs: `markets.list`. */
  readonly id: string
  /** Statement that is true if the check passes. */
  readonly says: string
  /** Throws `Mismatch` if the statement is false, `Skipped` if it cannot be checked. */
  readonly run: (world: World) => Promise<void>
}
