/** Uses a share of one core in a process of its own, in short bursts, and does nothing else. */

import { once } from 'node:events'

export type BurnerWork = { readonly share: number; readonly seconds: number }

/** As often as the attackers wake up. */
const PERIOD_MS = 20

const [{ share, seconds }] = (await once(process, 'message')) as [BurnerWork]
const spentMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
const [fromMs, startedMs] = [spentMs(), performance.now()]
const endMs = startedMs + seconds * 1_000
/** By CPU time: on a busy machine a burst takes longer by the clock. */
const isBehind = (): boolean => {
  const nowMs = performance.now()
  return nowMs < endMs && spentMs() - fromMs < share * (nowMs - startedMs)
}
while (performance.now() < endMs) {
  while (isBehind()) for (let turn = 0; turn < 1_000; turn++) Math.sqrt(turn)
  await new Promise((resolve) => setTimeout(resolve, PERIOD_MS))
}
process.exit(0)
