import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { BENCHES } from '../../loadtest/commands.ts'
import { resultsPage, tableOf, withTable } from '../../loadtest/results.ts'

const page = (name: string): string =>
  readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')

test('the table of the README is that of the results', () => {
  const table = tableOf(page('loadtest/RESULTS.md'))
  assert(table !== undefined)
  assert.equal(tableOf(page('README.md')), table)
  for (const [, name = ''] of table.matchAll(/^\| `([^`]+)`/gm)) {
    assert(BENCHES[name] !== undefined, `npm run bench -- ${name}`)
  }
})

test('a result that misses its bar, and a command that failed, are plain to see', () => {
  const result = {
    bench: 'x',
    figure: 12_345.6,
    unit: 'things/s',
    peer: 'a | b',
    peerFigure: 0.5,
    ratio: 0.4,
    bar: 0.6,
  }
  const head = { machine: 'm', commit: 'c', date: 'd', quick: false, loadAverage: 0.1 }
  const written = resultsPage(
    [
      { command: 'x', results: [result], notes: ['so it is'], failure: '' },
      { command: 'y', results: [], notes: [], failure: 'ended with 1: no' },
    ],
    head,
  )
  assert(written.includes('| `x` | 12,346 things/s | 0.5: a \\| b | 0.4 | 0.6, missed |'))
  assert(written.includes('| `y` | ended with 1: no | | | |'))
  assert(written.includes('- so it is'))
  const table = tableOf(written)
  assert(table !== undefined)
  const old =
    'before\n<!-- results: npm run bench -- all writes this -->\n<!-- end of results -->\nafter'
  assert.equal(withTable(old, table), `before\n${table}\nafter`)
  assert.equal(withTable('no table', table), 'no table')
})
