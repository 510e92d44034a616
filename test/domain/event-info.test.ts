import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkEventInfo, type EventInfo, eventText, readEventInfo } from '#domain/event-info.ts'
import { EVENT_BYTES_MAX } from '#domain/limits.ts'

const INFO: EventInfo = {
  slug: 'who-wins-2027',
  title: 'Who wins the Pythian Games?',
  category: 'general',
  tags: ['sport', 'delphi-2027'],
  image: '🏆',
  description: 'One market per athlete.\nAt most one wins.',
  end: 1_900_000_000,
  exclusive: true,
}

const bytes = (text: string) => new TextEncoder().encode(text)

/** Changes one field of a valid event, and returns the reason why the event is invalid. */
function why(field: string, value: unknown): string {
  const read = checkEventInfo({ ...INFO, [field]: value })
  return 'why' in read ? read.why : 'nothing'
}

test('event metadata is read back unchanged from its signed text', () => {
  assert.deepEqual(readEventInfo(bytes(eventText(INFO))), INFO)
  const hash = { ...INFO, image: `0x${'ab'.repeat(32)}` }
  assert.deepEqual(readEventInfo(bytes(eventText(hash))), hash)
  assert.deepEqual(checkEventInfo({ ...INFO, image: '', tags: [], description: '' }), {
    ...INFO,
    ...{ image: '', tags: [], description: '' },
  })
})

test('event metadata that is not JSON, not UTF-8 or too long is refused', () => {
  assert.deepEqual(readEventInfo(bytes('{')), { why: 'the metadata must be JSON in UTF-8' })
  assert.deepEqual(readEventInfo(Uint8Array.of(0x22, 0xff, 0x22)), {
    why: 'the metadata must be JSON in UTF-8',
  })
  assert.deepEqual(readEventInfo(bytes('[]')), { why: 'the metadata must be a JSON object' })
  assert.deepEqual(readEventInfo(bytes('null')), { why: 'the metadata must be a JSON object' })
  assert.deepEqual(readEventInfo(new Uint8Array(EVENT_BYTES_MAX + 1)), {
    why: `the metadata must have at most ${EVENT_BYTES_MAX} bytes`,
  })
})

test('the error about invalid event metadata names each wrong field', () => {
  for (const slug of [
    '',
    'Who',
    'a--b',
    '-a',
    'a-',
    'a b',
    'a/b',
    '../a',
    'ä',
    'a'.repeat(65),
    7,
  ]) {
    assert.match(why('slug', slug), /^slug must be 1 to 64/, String(slug))
  }
  const lines = ['', ' ', 'two\nlines', 'x'.repeat(201), 'turn \u202e round', '\ud800', null]
  // Titles with invisible characters or direction marks are refused, because they could look like another title.
  for (const hidden of ['\u200b', '\u200e', '\u200f', '\u061c', '\u2060', '\ufeff', '\u00ad']) {
    lines.push(`Who wins${hidden}?`)
  }
  lines.push(`Who wins\u{e0041}?`)
  for (const title of lines) assert.match(why('title', title), /^title must be one line/)
  assert.match(why('category', 'sport'), /^category must be one of defi/)
  for (const tags of ['a', ['A'], ['a', 'a'], Array.from('abcdefghi'), ['x'.repeat(33)], [1]]) {
    assert.match(why('tags', tags), /^tags must be at most 8/, String(tags))
  }
  for (const image of ['<b>', 'ab', '0x12', `0x${'AB'.repeat(32)}`, '🏆🏆🏆🏆🏆🏆🏆🏆🏆', 5]) {
    assert.match(why('image', image), /^image must be/, String(image))
  }
  assert.match(why('description', 'x'.repeat(4_001)), /^description must be text/)
  assert.match(why('description', 'a\u0000b'), /^description must be text/)
  assert.match(why('description', 'a\u200bb'), /^description must be text/)
  assert.equal(why('title', '👩‍🚀 first?'), 'nothing')
  assert.equal(why('title', '<script>alert(1)</script> & "quotes"'), 'nothing', 'it is only text')
  for (const end of [0, -1, 1.5, 2 ** 60, '1900000000', undefined]) {
    assert.match(why('end', end), /^end must be Unix seconds/, String(end))
  }
  assert.match(why('exclusive', 1), /^exclusive must be true or false/)
  assert.match(why('markets', []), /^markets is not a field of an event/)
})
