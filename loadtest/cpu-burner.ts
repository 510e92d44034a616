/**
 * Uses as much CPU time as the attackers of `hostile-soak.ts` did, at the same times, and does nothing else. So it
 * shows how much delay this CPU time alone causes.
 */

import { once } from 'node:events'

/** CPU time (`usedMs`) that a process had used `atMs` milliseconds after its work began. */
export type CpuMark = { readonly atMs: number; readonly usedMs: number }

export type BurnerWork = { readonly marks: readonly CpuMark[] }

/** Interval between two bursts, the same as that of the attackers. */
const PERIOD_MS = 20

const [{ marks }] = (await once(process, 'message')) as [BurnerWork]
const usedMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
const [fromMs, startedMs] = [usedMs(), performance.now()]
const endMs = startedMs + (marks.at(-1)?.atMs ?? 0)
let next = 0
/**
 * Returns whether this process has used less CPU time than the measured process had at the same time of its run. The
 * CPU time is compared because bursts of a fixed length would get less of it on a busy machine.
 */
function isBehind(): boolean {
  const nowMs = performance.now()
  while (next < marks.length && marks[next]!.atMs <= nowMs - startedMs) next++
  return nowMs < endMs && usedMs() - fromMs < (marks[next]?.usedMs ?? 0)
}
while (performance.now() < endMs) {
  while (isBehind()) for (let turn = 0; turn < 1_000; turn++) Math.sqrt(turn)
  await new Promise((resolve) => setTimeout(resolve, PERIOD_MS))
}
process.exit(0)
