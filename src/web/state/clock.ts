/** The exchange's time. It may differ from this machine's time, because the devnet's time can be moved. */

import { signal } from '@preact/signals'

const TICK_MS = 1_000
/**
 * Smallest difference between the exchange's clock and this machine's clock that is corrected. Latency can cause
 * smaller differences, so they are ignored.
 */
const DIFFERENCE_MS_MIN = 2_000

let aheadMs = 0

/** The exchange's time in Unix seconds; it changes once a second. */
export const nowSec = signal(Math.floor(Date.now() / 1_000))

export function setExchangeTime(serverSec: number): void {
  const ahead = serverSec * 1_000 - Date.now()
  aheadMs = Math.abs(ahead) < DIFFERENCE_MS_MIN ? 0 : ahead
  tick()
}

function tick(): void {
  nowSec.value = Math.floor((Date.now() + aheadMs) / 1_000)
}

export function startClock(): void {
  setInterval(tick, TICK_MS)
}

/** Returns the seconds until `atSec`, by the exchange's clock. */
export function secondsUntil(atSec: number): number {
  return atSec - nowSec.value
}
