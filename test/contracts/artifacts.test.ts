import assert from 'node:assert/strict'
import { test } from 'node:test'
import { manifestOf, readArtifacts, readManifest } from '../../contracts/compile.ts'

// This test compares only hashes. `npm run contracts -- --check` compiles the sources. Compiling takes long, so that
// check runs only before a release.
test('the committed contract artifacts equal those compiled from the sources', () => {
  const { sources, artifacts } = manifestOf(readArtifacts())
  const committed = readManifest()
  assert.equal(sources, committed.sources, 'the sources have changed: run npm run contracts')
  assert.equal(artifacts, committed.artifacts, 'an artifact was changed by hand')
})
