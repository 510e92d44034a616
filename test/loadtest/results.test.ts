import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { BENCHES } from '../../loadtest/commands.ts'
import { resultsPage } from '../../loadtest/results.ts'

const page = (name: string): string =>
  readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')

test('every benchmark that RESULTS.md names exists', () => {
  const names = [...page('loadtest/RESULTS.md').matchAll(/^\| `([^`]+)`/gm)]
  assert(names.length > 10)
  for (const [, name = ''] of names) {
    assert(BENCHES[name] !== undefined, `npm run bench -- ${name}`)
  }
})

test('RESULTS.md marks each benchmark result below its required value and each benchmark command that failed', () => {
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
})
