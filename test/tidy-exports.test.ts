/** Rules for files: no file is unused, no imports form a cycle, and no file is too long. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandFiles } from '../loadtest/commands.ts'
import { exportsOf, importCircles, importedNames } from './support/exports.ts'
import { importsOf, sourceFiles, targetOf, textOf } from './support/imports.ts'

const sources = sourceFiles()

const isOurs = (file: string): boolean => /^(src|workers|config)\//.test(file)

/** Programs that are started only by hand. The header of each file states when to start it. */
const BY_HAND = ['test/domain/make-order-vectors.ts']

/**
 * Files whose exports are used without an import in this repository. Other threads call exports of workers by name.
 * Users import the SDK and the API's types (`src/protocol/shapes`). The bundler of the page replaces a module of the
 * SDK by `absent.ts`.
 */
const CALLED_FROM_OUTSIDE =
  /^(workers\/|src\/client\/|src\/protocol\/shapes\/|src\/web\/absent\.ts$|src\/runtime\/pool-thread\.ts$)/

/** Maximum lines of a file that does not state why it is long. */
const LINES_MAX = 500

/** Matches a sentence of a header that gives the reason for the file's length. */
const WHY_LONG = /\blong\b[^.]*\b(because|since)\b|\b(because|since)\b[^.]*\blong\b/

test('every source file is imported, started by a script, or named in another file', () => {
  const reached = new Set([...commandFiles(), ...BY_HAND])
  for (const file of sources) {
    for (const { from } of importsOf(file)) reached.add(targetOf(file, from))
    // Threads and processes are started by file name, so a file name in quotes counts as a use.
    for (const [, named = ''] of textOf(file).matchAll(/['"`]([\w./-]+\.tsx?)['"`]/g)) {
      reached.add(targetOf(file, named.startsWith('.') ? named : `./${named}`)).add(named)
    }
  }
  const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> }
  for (const [named] of Object.values(scripts)
    .join(' ')
    .matchAll(/\S+\.ts\b/g))
    reached.add(named)
  const isEntry = (file: string): boolean => /\.test\.ts$|^workers\//.test(file)
  const wrong = sources.filter((file) => !isEntry(file) && !reached.has(file))
  assert.deepEqual(wrong, [])
})

test('every export is imported, and an export that only tests import is also used in its own file', () => {
  const byUs = importedNames(isOurs)
  const byAll = importedNames(() => true)
  const wrong: string[] = []
  for (const file of sources.filter(isOurs)) {
    if (CALLED_FROM_OUTSIDE.test(file)) continue
    const text = textOf(file)
    for (const name of new Set(exportsOf(file))) {
      if (byUs.get(file)?.has(name) || byUs.get(file)?.has('*')) continue
      const isUsedHere = text.split(new RegExp(`\\b${name}\\b`)).length > 2
      if (!(byAll.get(file)?.has(name) && isUsedHere)) wrong.push(`${file}: ${name}`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('no imports form a cycle, not even imports of types', () => {
  const circles = importCircles(sources.filter(isOurs))
  assert.deepEqual(
    circles.map((files) => files.join(' → ')),
    [],
  )
})

test('a file of more than 500 lines explains its length in its header', () => {
  const wrong = sources.filter((file) => {
    if (!/^(src|workers)\//.test(file)) return false
    const text = textOf(file)
    if (text.split('\n').length - 1 <= LINES_MAX) return false
    return !WHY_LONG.test(/^\/\*\*.*?\*\//s.exec(text)?.[0] ?? '')
  })
  assert.deepEqual(wrong, [])
})

test('package scripts refer only to programs that exist', () => {
  assert.deepEqual(
    commandFiles().filter((file) => !sources.includes(file)),
    [],
  )
})
