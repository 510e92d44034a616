/** A load profile. Its values apply unless the command line sets others. */

import type { Mix } from '../workload.ts'

export type Profile = {
  /** One line for `--help`. */
  readonly about: string
  readonly rate: number
  readonly seconds: number
  readonly markets: number
  readonly traders: number
  /** WebSockets that follow books and trades. */
  readonly sockets: number
  /** HTTP connections; each carries one request at a time. */
  readonly connections: number
  readonly mix: Mix
  readonly surge?: (second: number) => number
}
