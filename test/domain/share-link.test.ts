import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventPath, marketPath, parseEventLink, shortIdOf } from '#domain/share-link.ts'

const id = `0x3FA9C1D2E4B5${'0'.repeat(52)}`

test('a market’s share link contains the words of its question and the first digits of its id', () => {
  const cases = {
    'Will it rain in Delphi?': '/m/will-it-rain-in-delphi-3fa9c1d2e4b5',
    'Ça va — 5 %?': '/m/ca-va-5-3fa9c1d2e4b5',
    天気: '/m/3fa9c1d2e4b5',
    [`${'long '.repeat(30)}`]: `/m/${'long-'.repeat(11)}long-3fa9c1d2e4b5`,
  }
  for (const [question, path] of Object.entries(cases)) {
    assert.equal(marketPath({ id, question }), path)
    assert.equal(shortIdOf(path.slice('/m/'.length)), '3fa9c1d2e4b5')
  }
})

test('a text that is not a market’s share link yields no market id', () => {
  for (const name of ['', 'will-it-rain', '3fa9c1d2e4b', '3fa9c1d2e4b5-', 'x-3fa9c1d2e4bg']) {
    assert.equal(shortIdOf(name), undefined, name)
  }
})

test('a share link of an event has its slug and the first digits of its hash', () => {
  const hash = `0x3fa9c1d2e4b5${'0'.repeat(52)}`
  assert.equal(eventPath({ slug: 'who-wins', hash }), '/e/who-wins-3fa9c1d2e4b5')
  assert.deepEqual(parseEventLink('who-wins-3fa9c1d2e4b5'), {
    ...{ slug: 'who-wins', hashStart: '0x3fa9c1d2e4b5' },
  })
  // Only the last group is the hash, even if the slug ends with hex digits.
  assert.equal(parseEventLink('a-abababababab-3fa9c1d2e4b5')?.slug, 'a-abababababab')
  for (const name of ['', 'who-wins', '3fa9c1d2e4b5', '-3fa9c1d2e4b5', 'who-wins-3FA9C1D2E4B']) {
    assert.equal(parseEventLink(name)?.slug || undefined, undefined, name)
  }
})
