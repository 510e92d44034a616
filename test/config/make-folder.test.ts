import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeFolder } from '#config/make-folder.ts'
import { SettingsError } from '#config/settings.ts'

/** Returns the error line about a folder that cannot be used. */
function refusal(folder: string): string {
  try {
    makeFolder('SIBYL_DATA_DIR', folder)
  } catch (error) {
    assert(error instanceof SettingsError)
    return error.message
  }
  return ''
}

test('a folder is created with its parents, and an existing one is left unchanged', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'sibyl-folder-'))
  t.after(() => rmSync(root, { recursive: true }))
  const folder = join(root, 'a', 'b', 'c')
  makeFolder('SIBYL_DATA_DIR', folder)
  writeFileSync(join(folder, 'kept'), '')
  makeFolder('SIBYL_DATA_DIR', folder)
  assert(existsSync(join(folder, 'kept')))
})

test('a path that is a file, or is below a file, is refused with an explanation', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'sibyl-folder-'))
  t.after(() => rmSync(root, { recursive: true }))
  const file = join(root, 'file')
  writeFileSync(file, '')
  const expected = `SIBYL_DATA_DIR: ${file} is a file, not a folder`
  assert.equal(refusal(file), expected)
  assert.equal(refusal(join(file, 'a', 'b')), expected)
})

test('a folder that cannot be created is reported at once', (t) => {
  if (!existsSync('/proc/self')) return t.skip('there is no /proc here')
  const told = refusal('/proc/x/y')
  assert.match(told, /^SIBYL_DATA_DIR: \/proc\/x\/y cannot be used: [a-z ]+ in \/proc$/)
})

test('a folder without write permission for the user is refused with an explanation', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'sibyl-folder-'))
  t.after(() => rmSync(root, { recursive: true }))
  chmodSync(root, 0o500)
  assert.equal(statSync(root).mode & 0o777, 0o500)
  // Root may write everywhere.
  const expected =
    process.getuid?.() === 0
      ? /^$/
      : /cannot be used: the user of this process has no permission to write in /
  assert.match(refusal(join(root, 'a')), expected)
})
