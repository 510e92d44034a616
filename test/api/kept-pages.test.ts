/**
 * Tests a front's cache of pages of the market list. The index of markets on the chain may change at any time, even
 * while a page is read.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keepPages } from '#api/markets/kept-pages.ts'
import type { ListedMarket } from '#api/markets/market-pages.ts'
import { marketNumbered } from '../support/seeded-markets.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

const START_MS = 1_800_000_000_000
const listed = (number: number): ListedMarket => ({
  ...{ market: marketNumbered(number), closed: undefined, shown: undefined, ended: false },
})

function fixture(keepMs = 250) {
  const clock = simulatedClock(START_MS)
  const board = { listVersion: 1 }
  let version = 1
  const markets = [listed(1)]
  const pages = keepPages({
    ...{ board, keepMs, nowMs: clock.nowMs, pagesMax: 2 },
    version: async () => String(version),
  })
  let reads = 0
  /** Called during a read of a page, before the rows are returned. */
  let meanwhile = () => {}
  return {
    ...{ board, clock },
    create(number: number): void {
      version++
      markets.push(listed(number))
    },
    setMeanwhile(work: () => void): void {
      meanwhile = work
    },
    /** Returns the number of markets on the page, and how many reads this request caused. */
    async ask(name: string): Promise<{ count: number; reads: number }> {
      reads = 0
      const page = await pages.page(name, async () => {
        reads++
        const rows = [...markets]
        meanwhile()
        return rows
      })
      return { count: page.markets.length, reads }
    },
    askTwice: (name: string) => {
      const read = async () => {
        reads++
        return markets
      }
      reads = 0
      return Promise.all([pages.page(name, read), pages.page(name, read)]).then(([a, b]) => ({
        ...{ same: a === b, reads },
      }))
    },
  }
}

test('a cached page of markets expires after one second, or when the market index or loaded markets change', async () => {
  const { ask, board, clock, create } = fixture()
  assert.deepEqual(await ask('a'), { count: 1, reads: 1 })
  assert.deepEqual(await ask('a'), { count: 1, reads: 0 })
  clock.advance(300)
  assert.deepEqual(await ask('a'), { count: 1, reads: 0 })
  board.listVersion++
  assert.deepEqual(await ask('a'), { count: 1, reads: 1 })
  create(2)
  // A front may use the version of the market index for 250 ms after it has read the version. This time is over now, so
  // the front reads the page again.
  clock.advance(250)
  assert.deepEqual(await ask('a'), { count: 2, reads: 1 })
  clock.advance(500)
  assert.deepEqual(await ask('a'), { count: 2, reads: 1 })
})

test('if the read of one page shows that the market index has changed, all cached pages expire', async () => {
  const { ask, create } = fixture()
  assert.equal((await ask('a')).count, 1)
  create(2)
  assert.equal((await ask('a')).count, 1, 'a page may be 250 ms old')
  assert.equal((await ask('b')).count, 2)
  assert.deepEqual(await ask('a'), { count: 2, reads: 1 })
})

test('a page that is read while the market index changes is read again before it is cached', async () => {
  const { ask, create, setMeanwhile } = fixture()
  let number = 2
  setMeanwhile(() => {
    if (number < 4) create(number++)
  })
  assert.deepEqual(await ask('a'), { count: 3, reads: 3 })
  assert.deepEqual(await ask('a'), { count: 3, reads: 0 })
  setMeanwhile(() => create(number++))
  const { reads } = await ask('b')
  assert.equal(reads, 3)
  setMeanwhile(() => {})
  assert.equal((await ask('b')).reads, 1)
})

test('simultaneous requests for a page share one read, and the number of cached pages is limited', async () => {
  const plain = fixture(0)
  assert.deepEqual(await plain.askTwice('a'), { same: true, reads: 1 })
  assert.deepEqual(await plain.askTwice('a'), { same: true, reads: 1 })
  const { ask } = fixture()
  for (const name of ['a', 'b', 'c']) await ask(name)
  assert.equal((await ask('c')).reads, 0)
  assert.equal((await ask('a')).reads, 1, 'it made room for another')
})
