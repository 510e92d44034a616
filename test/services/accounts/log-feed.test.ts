import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import { makeLogFeed } from '#services/accounts/thread/log-feed.ts'

/**
 * Makes a feed that reads a log, and the read fails with this fault. Returns the scheduled turns and the number of
 * deliveries.
 */
function unreadable(fault: Fault) {
  const turns: (() => void)[] = []
  let delivered = 0
  const kit = {
    log: { warn() {} },
    clock: { nowMs: () => 1 },
    timers: { soon: (turn: () => void) => void turns.push(turn) },
  } as unknown as Parameters<typeof makeLogFeed>[0]
  const reader = {
    read() {
      throw fault
    },
  } as unknown as Parameters<typeof makeLogFeed>[1]['reader']
  const feed = makeLogFeed(kit, {
    ...{ reader, logEnds: undefined, isStopped: () => false },
    deliver: () => void delivered++,
  })
  feed.foldedTo(0, 7)
  feed.read()
  return { turns, delivered: () => delivered }
}

test('an accounts thread fails if the log no longer contains the next record to read', () => {
  const truncated = new Fault('LOG_TRUNCATED', 'the log begins later', { retryable: false })
  const { turns, delivered } = unreadable(truncated)
  assert.throws(() => turns.shift()?.(), truncated)
  assert.equal(delivered(), 0)
})

test('while the log is temporarily unreadable, an accounts thread does not count as up to date', () => {
  const busy = new Fault('LOG_READ_FAILED', 'the file is busy', { retryable: true })
  const { turns, delivered } = unreadable(busy)
  turns.shift()?.()
  assert.equal(delivered(), 0)
})
