import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventStreamReader } from '#domain/event-stream.ts'
import { randomFrom } from '../support/random.ts'

const TEXT = Buffer.from(
  ': a comment\r\nid: 7\r\ndata: one €\r\ndata:two\r\n\r\nevent: news\rdata: three\r\rretry: 250\n' +
    'data\n\nid\ndata:  four\n\n\ndata: cut off',
)

const EVENTS = [
  { id: '7', event: 'message', data: 'one €\ntwo' },
  { id: '7', event: 'news', data: 'three' },
  { id: '7', event: 'message', data: '' },
  { id: '', event: 'message', data: ' four' },
]

test('the parser of server-sent events returns the same events for every split of the text into chunks', () => {
  const random = randomFrom(11)
  for (let round = 0; round < 200; round++) {
    const reader = new EventStreamReader()
    const events: object[] = []
    for (let at = 0; at < TEXT.length; ) {
      const length = round === 0 ? TEXT.length : random.int(1, 9)
      events.push(...reader.take(TEXT.subarray(at, at + length)))
      at += length
    }
    assert.deepEqual(events, EVENTS, `round ${round}`)
    assert.equal(reader.retryMs, 250)
  }
})

test('the parser of server-sent events limits its buffer for an unfinished event', () => {
  const reader = new EventStreamReader()
  assert.throws(() => {
    const line = Buffer.from(`data: ${'x'.repeat(50_000)}\n`)
    for (let piece = 0; piece < 100; piece++) reader.take(line)
  }, RangeError)
})
