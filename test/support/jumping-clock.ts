/**
 * Loaded into an exchange before anything else: its wall clock shows so many milliseconds more as long as
 * the file that `JUMPING_CLOCK` names says so. The monotonic clock goes on as ever.
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
