/** Tests the rules of quick markets one by one, with ports that the test controls. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PRICE_SOURCES } from '#domain/price-providers.ts'
import { START_SEC, world } from './quick-world.ts'

test('a quick market takes its start and end prices from the price source that is active at its start', async () => {
  const { until, speaker, market, events, calls } = world()
  await speaker('pyth')
  await until(-1, { pyth: 100, binance: 100.1 })
  assert.equal(market(), undefined)
  await until(0, { pyth: 101, binance: 100.5 })
  assert.equal(market()?.strike.price, 101e8)
  assert.equal(market()?.strike.exact, true)
  await until(899, { pyth: 150, binance: 150 })
  await speaker('binance')
  await until(900, { pyth: 101, binance: 100.9 })
  const { source, start, end, outcome } = market()!.resolution!
  // The end price equals the start price, so the outcome is YES. The market keeps its source Pyth, although Binance has
  // become active.
  assert.deepEqual([source, start.price, end.price, outcome], ['pyth', 101e8, 101e8, 0])
  await until(905, { pyth: 1, binance: 1 })
  assert.equal(market()?.onChain, 'reported')
  assert.deepEqual(
    new Set(events.map(({ type, quickMarket }) => `${type} ${quickMarket.startSec - START_SEC}`)),
    new Set(['QuickMarketOpened 0', 'QuickMarketResolved 0', 'QuickMarketOpened 900']),
  )
  assert.equal(events.length, 3)
  assert.ok(!calls.some((call) => call.startsWith('history')), 'nobody had to be asked')
})

test('a quick market keeps its matching mode when the setting for new markets changes', async () => {
  const { until, speaker, broken, rules, restart, market } = world()
  restart({ matching: 'complementary' })
  broken.add('create')
  await speaker('pyth')
  await until(1, { pyth: 100 })
  assert.deepEqual(rules, ['book complementary'])
  assert.equal(market()?.matching, 'complementary')
  // The exchange restarts before the market is created on the chain. New markets now get another matching rule.
  restart({ matching: 'same-outcome' })
  broken.delete('create')
  await speaker('pyth')
  await until(5, { pyth: 100 })
  assert.deepEqual(rules, ['book complementary', 'book complementary', 'chain complementary'])
  await until(905, { pyth: 100 })
  assert.deepEqual(new Set(rules.slice(3)), new Set(['book same-outcome', 'chain same-outcome']))
})

test('a market whose end price is just below its start price resolves to NO', async () => {
  const { until, speaker, market } = world()
  await speaker('coinbase')
  await until(0, { coinbase: 100 })
  await until(899, { coinbase: 100 })
  await until(903, { coinbase: 99.99999999 })
  assert.equal(market()?.resolution?.outcome, 1)
})

test('if no price arrives at a quick market’s start, the start price comes from the source’s history', async () => {
  const { until, speaker, market, past, say, pass } = world()
  past.set('pyth 0', 100.25)
  await speaker('pyth')
  await until(-6, { pyth: 100 })
  await pass(8)
  await say('pyth', 100.9)
  await pass(2)
  const { price, via, exact } = market()!.strike
  assert.deepEqual([price, via, exact], [100.25e8, 'history', true])
})

test('if a source reconnects at a quick market’s start, the start price comes from the source’s history', async () => {
  const { until, speaker, market, past, say, pass } = world()
  past.set('pyth 0', 100.25)
  await speaker('pyth')
  await until(-1, { pyth: 100 })
  await pass(1)
  await say('pyth', 100.9, { line: 2 })
  assert.equal(market(), undefined)
  await pass(3)
  assert.equal(market()?.strike.price, 100.25e8)
})

for (const usd of [undefined, 150]) {
  const what = usd === undefined ? 'an unreadable report' : 'a report that is refused'
  test(`after ${what} at a quick market’s start, the start price comes from the source’s history`, async () => {
    const { until, speaker, market, past, say, miss, pass } = world()
    past.set('pyth 0', 100.5)
    await speaker('pyth')
    await until(-1, { pyth: 100 })
    await pass(1)
    await miss('pyth', usd)
    await say('pyth', 101)
    assert.equal(market(), undefined)
    await pass(3)
    assert.equal(market()?.strike.price, 100.5e8)
  })
}

test('an old price repeated at a quick market’s start is ignored in favour of the next price', async () => {
  const { until, speaker, market, say, miss, pass } = world()
  await speaker('pyth')
  await until(-1, { pyth: 100 })
  await pass(1)
  await miss('pyth', 99, { atMs: (START_SEC - 4) * 1_000 })
  await say('pyth', 101)
  assert.equal(market()?.strike.exact, true)
})

test('if a source has no history, a quick market uses its next price and marks it inexact', async () => {
  const { until, speaker, market, say, pass } = world()
  await speaker('pyth')
  await until(-6, { pyth: 100 })
  await pass(10)
  await say('pyth', 100.9)
  await pass(50)
  assert.equal(market(), undefined)
  await pass(10)
  assert.deepEqual([market()?.strike.price, market()?.strike.exact], [100.9e8, false])
})

test('a quick market is not opened if its start price becomes known only shortly before its end', async () => {
  const { until, speaker, market, past, pass } = world()
  await speaker('pyth')
  await until(-6, { pyth: 100 })
  await pass(6 + 845)
  past.set('pyth 0', 100)
  await pass(60)
  assert.equal(market(), undefined)
})

test('if a market’s source has no end price, a fallback source with start and end prices decides', async () => {
  const { until, speaker, market, past, pass } = world()
  past.set('pyth 900', 'away')
  await speaker('pyth')
  await until(0, { pyth: 100, coinbase: 101 })
  await until(890, { pyth: 100, coinbase: 101 })
  await until(910, { coinbase: 100.5 })
  await pass(580)
  assert.equal(market()?.resolution, null, 'its own source is waited for')
  await pass(30)
  const { source, start, end, outcome } = market()!.resolution!
  assert.deepEqual([source, start.price, end.price, outcome], ['coinbase', 101e8, 100.5e8, 1])
  assert.equal(market()?.strike.price, 100e8, 'the strike is what it was')
})

test('a quick market without an end price waits, and is decided once a source’s end price is known', async () => {
  const { until, speaker, market, past, pass, restart } = world()
  await speaker('pyth')
  await until(0, { pyth: 100 })
  await until(10, { pyth: 100 })
  for (const source of PRICE_SOURCES) past.set(`${source} 900`, 'away')
  await pass(4_000)
  assert.equal(market()?.resolution, null)
  restart()
  await pass(4_000)
  assert.equal(market()?.resolution, null)
  past.set('pyth 900', 99)
  await pass(60)
  assert.equal(market()?.resolution?.outcome, 1)
  assert.equal(market()?.onChain, 'reported')
})

test('an end price that two other sources contradict does not decide a market', async () => {
  const { until, speaker, market, past, pass } = world()
  await speaker('pyth')
  await until(899, { pyth: 100, binance: 100.1, coinbase: 100.2 })
  await until(901, { pyth: 137, binance: 100.1, coinbase: 100.2 })
  past.set('pyth 900', 137)
  await pass(30)
  assert.equal(market()?.resolution, null)
  // Later, Pyth's history has the right price.
  past.set('pyth 900', 99.9)
  await pass(120)
  assert.deepEqual(
    [market()?.resolution?.source, market()?.resolution?.end.price],
    ['pyth', 99.9e8],
  )
})

test('if two sources contradict a market’s own source throughout the wait, a fallback source decides the market', async () => {
  const { until, speaker, market, past, pass } = world()
  await speaker('pyth')
  await until(899, { pyth: 100, binance: 100.1, coinbase: 100.2 })
  await until(901, { pyth: 137, binance: 100, coinbase: 100.2 })
  past.set('pyth 900', 137)
  await pass(700)
  const { source, outcome } = market()!.resolution!
  assert.deepEqual([source, outcome], ['binance', 1])
})

test('every step of a quick market is retried until it succeeds, and continues after a restart', async () => {
  const { until, speaker, market, broken, pass, calls, restart, past } = world()
  for (const step of ['record', 'place', 'create', 'decide', 'close', 'report', 'note']) {
    broken.add(step)
  }
  past.set('pyth 0', 100)
  past.set('pyth 900', 101)
  await speaker('pyth')
  await until(30, { pyth: 100 })
  assert.equal(market(), undefined)
  const count = (name: string) => calls.filter((call) => call === name).length
  for (const step of ['record', 'place', 'create']) {
    assert.ok(count(step) > 1 || step !== 'record', step)
    broken.delete(step)
    restart()
    await speaker('pyth')
    await pass(40)
  }
  assert.equal(market()?.strike.price, 100e8)
  await pass(900)
  for (const step of ['decide', 'close', 'report', 'note']) {
    broken.delete(step)
    restart()
    await pass(70)
  }
  assert.equal(market()?.resolution?.outcome, 0)
  assert.equal(market()?.onChain, 'reported')
  assert.equal(market()?.id, 1)
})

test('if the answer to a quick market’s first database write is lost, the market still opens and resolves', async () => {
  const { until, speaker, market, unanswered, pass, past } = world()
  past.set('pyth 0', 100)
  past.set('pyth 900', 101)
  await until(838, {})
  unanswered.add('record')
  await speaker('pyth')
  await pass(2)
  assert.equal(market()?.strike.price, 100e8)
  unanswered.delete('record')
  await pass(180)
  assert.equal(market()?.resolution?.outcome, 0)
  assert.equal(market()?.onChain, 'reported')
})

test('an end price read from a source’s history is compared with other sources before it decides a quick market', async () => {
  const { until, speaker, market, past, pass, restart } = world()
  await speaker('pyth')
  await until(0, { pyth: 100 })
  await until(10, { pyth: 100 })
  await pass(1_000)
  restart()
  // No source reported at the market's end, so end prices come from histories only. Pyth, the source of the strike, has
  // an absurd price in its history.
  past.set('pyth 900', 1_000)
  past.set('binance 0', 100)
  past.set('binance 900', 99)
  past.set('coinbase 900', 99)
  await pass(60)
  assert.equal(market()?.resolution, null)
  await pass(700)
  assert.deepEqual([market()?.resolution?.source, market()?.resolution?.outcome], ['binance', 1])
})
