import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  NEEDS,
  needOf,
  selectTests,
  shareProcesses,
  sharesProcess,
} from './support/select-tests.ts'

test('the test runner determines from a test file’s imports whether it needs a browser or an exchange', () => {
  assert.equal(needOf('test/web/browser/page.test.ts'), 'browser')
  assert.equal(needOf('test/scenario/trading.test.ts'), 'exchange')
  // Through a fixture.
  assert.equal(needOf('test/scenario/settlement.test.ts'), 'exchange')
  assert.equal(needOf('test/chain/sender/sender.test.ts'), 'chain')
  assert.equal(needOf('test/log/damage.test.ts'), 'process')
  assert.equal(needOf('test/simulate/simulate.test.ts'), 'simulation')
  assert.equal(needOf('test/book/match.test.ts'), 'nothing')
  // `tidy.test.ts` reads all sources as text, but imports no source that needs a service.
  assert.equal(needOf('test/tidy.test.ts'), 'nothing')
})

test('the test runner starts files that need services first, and a fast run runs only the other files', () => {
  const all = selectTests([])
  assert.equal(new Set(all).size, all.length)
  const fast = selectTests([], { fast: true })
  assert.deepEqual(all.slice(-fast.length), fast)
  assert.deepEqual(new Set(fast.map(needOf)), new Set(['nothing']))
  assert.equal(needOf(all[0] ?? ''), 'browser')
})

test('the test runner runs only the files and folders that are named', () => {
  assert.deepEqual(selectTests(['test/book/match.test.ts']), ['test/book/match.test.ts'])
  const book = selectTests(['test/book/'])
  assert.ok(book.includes('test/book/book.test.ts'))
  assert.ok(book.every((file) => file.startsWith('test/book/')))
  assert.throws(() => selectTests(['test/nowhere']), /no test files in test\/nowhere/)
})

test('a test file shares a process with others only if it changes no global state', () => {
  assert.ok(sharesProcess('test/book/match.test.ts'))
  // It only reads a seed.
  assert.ok(sharesProcess('test/services/settlement/turns.test.ts'))
  // `damage.test.ts` only reads the arguments with which Node was started, and changes no global state. So it may share
  // a process with other tests.
  assert.ok(sharesProcess('test/log/damage.test.ts'))
  assert.ok(!sharesProcess('test/client/retries.test.ts'))
  assert.ok(!sharesProcess('test/web/browser/page.test.ts'))
})

test('only test files with the same needs share a process, and processes with the most needs start first', () => {
  const all = selectTests([])
  const processes = shareProcesses(all, 3)
  assert.deepEqual(processes.flat().toSorted(), all.toSorted())
  const needs = processes.map((files) => new Set(files.map(needOf)))
  assert.ok(needs.every((each) => each.size === 1))
  const order = needs.map(([need]) => NEEDS.indexOf(need ?? 'nothing'))
  assert.deepEqual(
    order,
    order.toSorted((a, b) => a - b),
  )
  assert.ok(processes.every((files) => files.length === 1 || files.every(sharesProcess)))
  // Even a few files are spread over several processes, so that all cores are used.
  const few = ['test/book/match.test.ts', 'test/book/book.test.ts', 'test/tidy.test.ts']
  assert.ok(shareProcesses(few, 3).length > 1)
})
