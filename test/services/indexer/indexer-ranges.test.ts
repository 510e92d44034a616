/** Tests how many blocks and events the indexer requests in one range. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChainEvent } from '#domain/chain-event.ts'
import { CHAIN_EVENTS_PER_RANGE_MAX } from '#domain/limits.ts'
import { serve } from '#runtime/serve.ts'
import {
  type IndexerEvent,
  type IndexerProtocol,
  type IndexerState,
  indexer,
  newIndexer,
} from '#services/indexer/indexer.ts'
import { mark } from '../../store/chain-index/chain-events.ts'
import { eventually } from '../../support/eventually.ts'

test('the indexer halves a block range that has too many events, unless it is a single block', async () => {
  const asked: [first: number, last: number][] = []
  const written: number[] = []
  const never = () => assert.fail('nothing is undone here')
  const busyBlock = 6
  const state = newIndexer({
    chainId: 1,
    confirmations: 0,
    rangeBlocksMax: 1_000,
    chain: {
      head: async () => mark(busyBlock),
      async range(after, last) {
        asked.push([after.number + 1, last])
        const events = last === busyBlock ? CHAIN_EVENTS_PER_RANGE_MAX + 1 : 0
        return {
          kind: 'read',
          upTo: mark(last),
          marks: [mark(last)],
          events: Array.from({ length: events }, () => ({}) as ChainEvent),
          setAside: [],
        }
      },
      ancestor: never,
    },
    store: {
      claim: async () => ({ indexed: mark(0), marks: [mark(0)] }),
      async write({ upTo }) {
        written.push(upTo.number)
        return { written: 'applied', withdrawn: [], setAside: [] }
      },
      rewind: never,
      marketsDue: async () => ({ open: [], close: [], cancel: [] }),
    },
  })
  const served = serve<IndexerState, IndexerProtocol, IndexerEvent>({
    behaviour: indexer,
    select: () => ({ state }),
    clock: { nowMs: () => 1, after: () => () => {} },
    mailboxMax: 1_000,
    batchMax: 1_000,
    full: undefined,
    say: () => {},
  })
  served.hear('Tick', {}, 0, undefined)
  await eventually(() => assert.equal(written.at(-1), busyBlock))
  assert.deepEqual(asked, [
    [1, 6],
    [1, 3],
    [4, 6],
    [4, 4],
    [5, 6],
    [5, 5],
    [6, 6],
  ])
})
