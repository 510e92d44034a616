import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { recordWrites } from '../support/lost-power.ts'

test('a copied folder is synced to the disk with all of its files and subfolders', (t) => {
  const scratch = mkdtempSync(join(tmpdir(), 'sibyl-tree-'))
  t.after(() => rmSync(scratch, { recursive: true, force: true }))
  const tree = join(scratch, 'tree')
  const paths = [
    '.',
    'log',
    'log/partition-0.db',
    'log/partition-0.closed',
    'log/partition-0.closed/1',
  ]
  mkdirSync(join(tree, 'log/partition-0.closed'), { recursive: true })
  for (const file of ['log/partition-0.db', 'log/partition-0.closed/1']) {
    writeFileSync(join(tree, file), file)
  }
  const program = new URL('./synced-tree.ts', import.meta.url)
  const ops = recordWrites(program, [tree], { below: tree, scratch })
  if (ops === undefined) {
    t.skip('a C compiler and Linux are needed')
    return
  }
  const synced = ops.filter(({ kind }) => kind === 's').map(({ path }) => path)
  assert.deepEqual(synced.toSorted(), paths.map((path) => join(tree, path)).toSorted())
})
