/** The attackers of `hostile-soak.ts`, in a process of their own: every attack at the same time, from each address. */

import { once } from 'node:events'
import type { CpuMark } from './cpu-burner.ts'
import { largeFiles, longContentTypes, marketLists, misfitBodies } from './hostile-http.ts'
import { conflatedSnapshots, tickerTopics } from './hostile-stream.ts'

const ATTACKS = {
  ...{ longContentTypes, misfitBodies, marketLists, largeFiles },
  ...{ tickerTopics, conflatedSnapshots },
}

export type HostileWork = {
  readonly url: string
  readonly addresses: readonly string[]
  readonly seconds: number
  /** All attacks by default. */
  readonly only?: readonly string[] | undefined
}

export type HostileResult = {
  /** Counts of each attack, one entry per address, by the name of the attack. */
  readonly attacks: Readonly<Record<string, readonly object[]>>
  /** CPU time of this process in the course of the attack. */
  readonly cpuMarks: readonly CpuMark[]
}

const MARK_MS = 100

// Waits for the message with the attacks to run. Loading this program takes half a second of a core, which must not
// count as part of the attack.
process.send?.('loaded')
const [work] = (await once(process, 'message')) as [HostileWork]
const { url, addresses, seconds, only } = work
const chosen = Object.entries(ATTACKS).filter(([name]) => only === undefined || only.includes(name))
const [before, startedMs] = [process.cpuUsage(), performance.now()]
const cpuMarks: CpuMark[] = []
const marking = setInterval(() => {
  const { user, system } = process.cpuUsage(before)
  cpuMarks.push({ atMs: performance.now() - startedMs, usedMs: (user + system) / 1_000 })
}, MARK_MS)
const told = await Promise.all(
  chosen.map(async ([name, attack]) => [
    name,
    await Promise.all(addresses.map((address) => attack(url, address, seconds))),
  ]),
)
clearInterval(marking)
const result: HostileResult = {
  attacks: Object.fromEntries(told) as HostileResult['attacks'],
  cpuMarks,
}
process.send?.(result, () => process.exit(0))
