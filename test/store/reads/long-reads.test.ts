import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLongRead } from '#store/reads/queries.ts'

test('market searches, candles and later history pages are classed as long reads; first pages are not', () => {
  const place = { seq: 7, fillIndex: 0 }
  assert.equal(isLongRead('listChainMarkets', { limit: 100, search: 'rain' }), true)
  assert.equal(isLongRead('listChainMarkets', { limit: 100, category: 'defi' }), false)
  assert.equal(isLongRead('recentTrades', { limit: 100, before: place }), true)
  assert.equal(isLongRead('recentTrades', { limit: 100, before: undefined }), false)
  assert.equal(isLongRead('candles', {}), true)
})
