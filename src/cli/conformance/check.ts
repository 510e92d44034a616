/** One line of the contract: what it says, and how it is tried. */

import type { World } from './world.ts'

export type Check = {
  /** Stable, for programs: `markets.list`. */
  readonly id: string
  /** What holds when it is ok. */
  readonly says: string
  /** Throws `Mismatch` where it does not hold, `Skipped` where it cannot be tried. */
  readonly run: (world: World) => Promise<void>
}
