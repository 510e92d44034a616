/** Tests which quick market of an asset the page shows. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { QuickMarket } from '#protocol/shapes/prices.ts'
import type { QuickMarketMessage } from '#protocol/shapes/stream.ts'
import { shownAfter } from '#web/state/quick-markets.ts'

const market = (marketId: string, resolved = false) => ({ marketId, resolved }) as QuickMarket
const told = (quickMarket: QuickMarket | null) => ({ quickMarket }) as QuickMarketMessage

test('the verdict on the previous quick market does not replace the current quick market on the page', () => {
  const now = market('b')
  assert.equal(shownAfter(undefined, told(now)), now)
  assert.equal(shownAfter(now, told(market('a', true))), now)
  assert.deepEqual(shownAfter(now, told(market('b', true))), market('b', true))
  const next = market('c')
  assert.equal(shownAfter(now, told(next)), next)
  assert.equal(shownAfter(now, told(null)), undefined)
})
