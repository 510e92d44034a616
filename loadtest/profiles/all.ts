/** The profiles by name, and the workload that results from a profile and the command line. */

import type { WorkloadOptions } from '../workload.ts'
import { mixed } from './mixed.ts'
import { orders } from './orders.ts'
import type { Profile } from './profile.ts'
import { smoke } from './smoke.ts'
import { soak } from './soak.ts'
import { spike } from './spike.ts'
import { stream } from './stream.ts'

export const PROFILES: Readonly<Record<string, Profile>> = {
  smoke,
  orders,
  stream,
  mixed,
  soak,
  spike,
}

/** A workload as plain data, so that other threads can make the same plan. */
export type PlannedRun = {
  readonly profile: string
  readonly seed: number
  readonly rate: number
  readonly seconds: number
  readonly markets: number
  readonly traders: number
}

export function workloadOf({ profile: name, ...numbers }: PlannedRun): WorkloadOptions {
  const profile = PROFILES[name]
  if (profile === undefined) throw new Error(`no profile ${name}`)
  const { mix, surge } = profile
  return { ...numbers, mix, ...(surge === undefined ? {} : { surge }) }
}
