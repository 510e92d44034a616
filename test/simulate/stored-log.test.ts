import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { encodeRow, logReaderOf, PartitionCopy, StoredPartition } from './stored-log.ts'

test('the simulated log reader refuses to read from an offset that was removed from the log', () => {
  const stored = new StoredPartition(0, () => undefined)
  const copy = new PartitionCopy(stored)
  stored.file = copy
  const marketId = `0x${'1'.repeat(64)}` as MarketId
  for (let seq = 1; seq <= 3; seq++) {
    const event: MarketEvent = {
      type: 'MarketClosed',
      marketId,
      seq,
      atMs: seq,
      reason: 'resolved',
    }
    assert(stored.store(encodeRow(0, seq, { nowMs: seq, events: [event] }), 0))
  }
  copy.follow()
  copy.retire(marketId)
  assert.equal(copy.truncate(3, 3).firstOffset, 3)
  const reader = logReaderOf([stored])
  assert.throws(
    () => reader.read(0, 2, 10),
    (error) => error instanceof Fault && error.code === 'LOG_TRUNCATED' && !error.retryable,
  )
  assert.deepEqual(
    reader.read(0, 3, 10).map(({ offset }) => offset),
    [3],
  )
})
