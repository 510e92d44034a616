/** One check of the conformance report: a statement about the API, and the function that tests the statement. */

import type { World } from './world.ts'

export type Check = {
  /** Stable id for programs, such as `markets.list`. */
  readonly id: string
  /** Statement that is true if the check passes. */
  readonly says: string
  /** Throws `Mismatch` if the statement is false; throws `Skipped` if the check cannot run. */
  readonly run: (world: World) => Promise<void>
}
