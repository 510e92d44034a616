/** The views for addresses after `#`. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventLink, marketLink, readRoute } from '#web/state/router.ts'

const ID = `0x${'ab'.repeat(32)}`

test('each path of the page leads to its view', () => {
  assert.deepEqual(readRoute(''), { view: 'markets' })
  assert.deepEqual(readRoute('#/'), { view: 'markets' })
  assert.deepEqual(readRoute('#/?search=rain&sort=ends'), { view: 'markets' })
  assert.deepEqual(readRoute('#/portfolio/'), { view: 'portfolio' })
  assert.deepEqual(readRoute(eventLink('who-wins')), { view: 'event', slug: 'who-wins' })
  assert.deepEqual(readRoute(marketLink(ID)), { view: 'market', marketId: ID })
  assert.deepEqual(readRoute(`#/m/${ID.toUpperCase().replace('0X', '0x')}`), {
    view: 'market',
    marketId: ID,
  })
})

test('a link to a market can prefill the side and outcome of a trade, and nothing else', () => {
  const intent = { side: 'sell', outcome: 'NO' } as const
  assert.deepEqual(readRoute(marketLink(ID, intent)), { view: 'market', marketId: ID, intent })
  for (const query of ['buy=no', 'buy=YES&size=1', 'sell', '']) {
    assert.deepEqual(readRoute(`${marketLink(ID)}?${query}`), { view: 'market', marketId: ID })
  }
})

test('an unknown path of the page shows that nothing was found', () => {
  for (const text of [
    '#/m/',
    '#/m/0x12',
    `#/m/${ID}0`,
    '#/elsewhere',
    '#main',
    '#/e/',
    '#/e/A',
    '#/e/a/b',
  ]) {
    assert.deepEqual(readRoute(text), { view: 'nowhere' }, text)
  }
})
