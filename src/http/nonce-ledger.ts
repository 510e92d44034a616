/**
 * Records which tokens were used, for all front threads. A nonce is kept exactly until its token expires, in memory of
 * fixed size. If there is no room for a nonce, its token is refused, because an unrecorded token could be used twice.
 */

import { SharedTable, type SharedTableMemory } from './shared-table.ts'

export type NonceLedger = {
  /**
   * Records the use of a token. Returns `first` on success, `used` if the token was used before, `full` if there is no
   * room for another use.
   */
  use(keyId: string, nonce: string, untilSec: number, nowSec: number): 'first' | 'used' | 'full'
  /** Takes back a use whose request was not carried out, so that the token can be used again. */
  release(keyId: string, nonce: string): void
}

/**
 * Expiration that is written when a use is taken back. Records cannot be removed, but a record whose expiration is past
 * counts as unused.
 */
const EXPIRED_SEC = 1

export function makeNonceLedger(memory: SharedTableMemory): NonceLedger {
  const table = new SharedTable(memory)
  return {
    use(keyId, nonce, untilSec, nowSec) {
      let used = false
      const room = table.update(
        `${keyId}:${nonce}`,
        (keptUntilSec) => {
          used = keptUntilSec > nowSec
          return used ? undefined : untilSec
        },
        (keptUntilSec) => keptUntilSec <= nowSec,
      )
      return used ? 'used' : room ? 'first' : 'full'
    },
    release(keyId, nonce) {
      table.update(
        `${keyId}:${nonce}`,
        (keptUntilSec) => (keptUntilSec === 0 ? undefined : EXPIRED_SEC),
        () => false,
      )
    },
  }
}
