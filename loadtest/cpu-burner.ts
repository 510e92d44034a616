/**
 * A process that uses a share of one core, in short bursts, and does nothing else: the control of `hostile-soak.ts`.
 */

import { once } from 'node:events'

export type BurnerWork = { readonly share: number; readonly seconds: number }

/** Interval between two bursts, the same as that of the attackers. */
const PERIOD_MS = 20

const [{ share, seconds }] = (await once(process, 'message')) as [BurnerWork]
const spentMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
const [fromMs, startedMs] = [spentMs(), performance.now()]
const endMs = startedMs + seconds * 1_000
/**
 * Returns whether this process has used less CPU time than its share. The duration of a burst cannot be used
 * instead, because bursts take longer on a busy machine.
 */
const isBehind = (): boolean => {
  const nowMs = performance.now()
  return nowMs < endMs && spentMs() - fromMs < share * (nowMs - startedMs)
}
while (performance.now() < endMs) {
  while (isBehind()) for (let turn = 0; turn < 1_000; turn++) Math.sqrt(turn)
  await new Promise((resolve) => setTimeout(resolve, PERIOD_MS))
}
process.exit(0)
