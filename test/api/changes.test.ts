import assert from 'node:assert/strict'
import { test } from 'node:test'
import { apiChanges } from '#api/service/changes.ts'

const CHANGELOG = `# Changelog

Words before the first version.

## 0.3.0

- API: a field is
  new.
- Something else.

## 0.2.0 (2026-11-16)

- API: the first.
- Not the API: nothing.
- API: the second.

### Another group

- Not the API either.
`

test('each change in the changelog becomes one item of the list of API changes, newest first', () => {
  assert.deepEqual(apiChanges(CHANGELOG), [
    { version: '0.3.0', text: 'a field is new.' },
    { version: '0.2.0', day: '2026-11-16', text: 'the second.' },
    { version: '0.2.0', day: '2026-11-16', text: 'the first.' },
  ])
  assert.deepEqual(apiChanges(''), [])
})
