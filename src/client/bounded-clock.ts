/**
 * The current time, from which expiries and deadlines are counted. It is this machine's clock, corrected by the
 * exchange's clock within a limit. Without the limit, an exchange could report a time far in the future, and get
 * signatures that stay valid until then.
 */

import { SibylError } from './sibyl-error.ts'

/** Clock differences up to this number of seconds are ignored, because they may only be the latency of the answer. */
const DIFFERENCE_SEC_MIN = 30
const CORRECTION_SEC_MAX = 300
/**
 * Chain id of the local chain. Tests can change the local chain's time by any amount, so the correction has no bound on
 * this chain. This is safe, because signatures for this chain are valid on no other chain.
 */
const DEVNET_CHAIN_ID = 31_337

/**
 * Returns the current Unix seconds, corrected by the exchange's clock. Throws `CLOCK_DIFFERS` if the difference exceeds
 * the allowed correction.
 */
export function boundedNowSec({
  chainId,
  ownSec,
  aheadSec,
  correctionSecMax = CORRECTION_SEC_MAX,
}: {
  readonly chainId: number
  readonly ownSec: number
  /** Seconds by which the exchange's clock is ahead of this machine's. */
  readonly aheadSec: number
  readonly correctionSecMax?: number | undefined
}): number {
  const differenceSec = Math.abs(aheadSec)
  if (differenceSec <= DIFFERENCE_SEC_MIN) return ownSec
  if (chainId === DEVNET_CHAIN_ID || differenceSec <= correctionSecMax) return ownSec + aheadSec
  const direction = aheadSec > 0 ? 'ahead of' : 'behind'
  throw new SibylError(
    'CLOCK_DIFFERS',
    `the exchange's clock is ${differenceSec} s ${direction} this machine's, but the client corrects at most ${correctionSecMax} s: ` +
      'set the clock of this machine, or give createClient a larger clockCorrectionSecondsMax',
    { field: 'clockCorrectionSecondsMax' },
  )
}
