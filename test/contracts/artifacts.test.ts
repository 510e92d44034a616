import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileContracts, readArtifacts } from '../../contracts/compile.ts'

test('the committed artifacts are what the sources compile to (npm run contracts)', () => {
  const fresh = compileContracts()
  const committed = readArtifacts()
  assert.deepEqual([...committed.keys()], [...fresh.keys()])
  for (const [name, text] of fresh) {
    assert.ok(committed.get(name) === text, `${name} is not fresh: run npm run contracts`)
  }
})
