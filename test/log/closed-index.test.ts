/** Tests that the index of closed orders returns the same rows as a plain map. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClosedIndex } from '#log/closed/closed-index.ts'
import { withSeeds } from '../support/random.ts'

test('after random additions and removals, the index of closed orders returns the same rows as a map', () => {
  withSeeds([1, 2], (random) => {
    const index = new ClosedIndex()
    const model = new Map<number, number[]>()
    const added: [number, number][] = []
    for (let step = 0; step < 60_000; step++) {
      if (random.chance(step < 40_000 ? 0.75 : 0.3) || added.length === 0) {
        // One fingerprint in five is a number from 0 to 50, so that many entries of the index collide. Some row numbers
        // exceed 32 bits.
        const fingerprint = random.chance(0.2) ? random.int(0, 50) : random.int(0, 2 ** 32 - 1)
        const row = random.chance(0.1) ? 2 ** 32 * random.int(1, 255) : random.int(1, 2 ** 32)
        index.add(fingerprint, row)
        model.set(fingerprint, [...(model.get(fingerprint) ?? []), row])
        added.push([fingerprint, row])
      } else {
        const at = random.int(0, added.length - 1)
        const [fingerprint, row] = added[at]!
        added[at] = added.at(-1)!
        added.pop()
        index.remove(fingerprint, row)
        const rows = model.get(fingerprint)!
        rows.splice(rows.indexOf(row), 1)
      }
      if (step % 10_000 === 0) {
        for (const [fingerprint, rows] of model) {
          assert.deepEqual(index.rows(fingerprint).toSorted(), rows.toSorted())
        }
      }
    }
    assert.equal(index.size, added.length)
    for (const [fingerprint, row] of added) index.remove(fingerprint, row)
    assert.equal(index.size, 0)
  })
})
