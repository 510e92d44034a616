/**
 * Makes the wall clock of an exchange jump; it is loaded into the exchange before anything else. While the file named
 * by `JUMPING_CLOCK` exists, the wall clock is ahead by the number of milliseconds in the file. The monotonic clock is
 * not changed.
 */

import { existsSync, readFileSync } from 'node:fs'

const LOOK_MS = 20
const file = process.env.JUMPING_CLOCK
const now = Date.now
let aheadMs = 0
let lookedMs = Number.NEGATIVE_INFINITY

if (file !== undefined) {
  Date.now = () => {
    if (performance.now() - lookedMs > LOOK_MS) {
      lookedMs = performance.now()
      aheadMs = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0
    }
    return now() + aheadMs
  }
}
