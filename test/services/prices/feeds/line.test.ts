/** Tests the connection to a price provider when the wall clock jumps. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FeedPorts } from '#services/prices/feeds/feed.ts'
import { makeLine } from '#services/prices/feeds/line.ts'
import { simulatedClock } from '../../../support/simulated-clock.ts'

test('a price feed polls and closes silent connections on time even after the clock is set back', () => {
  const time = simulatedClock(1_800_000_000_000)
  let offsetMs = 0
  const troubles: string[] = []
  let polls = 0
  const line = makeLine({
    ports: {
      clock: { nowMs: () => time.nowMs() + offsetMs, after: time.after },
      troubled: (trouble: string) => troubles.push(trouble),
      timing: { silenceMs: 5_000, pollMs: 1_000 },
    } as unknown as FeedPorts,
    open(hooks) {
      hooks.alive()
      return () => hooks.over('closed')
    },
    async poll() {
      polls++
    },
  })
  line.start()
  offsetMs = -60_000
  time.advance(2_000)
  assert.equal(polls, 1)
  time.advance(4_000)
  assert.ok(troubles.includes('silent'))
  line.stop()
})
