/**
 * If a regular expression takes more than linear time, a short text can block the event loop for seconds. This test
 * checks every pattern in the code, even if only the exchange itself writes the input.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ts } from '@ts-morph/common'
import { sourceFiles, textOf } from './support/imports.ts'

/**
 * The only function of the checker that this test uses. The checker's own types need dependencies that are not
 * installed.
 */
type Checker = { analyse(pattern: RegExp): { readonly reports: readonly unknown[] } }
const CHECKER = 'scslre'
const { analyse } = (await import(CHECKER)) as Checker

type Patterns = { readonly patterns: RegExp[]; readonly built: string[] }

/**
 * Returns whether a string is a regular expression, for a schema or for `new RegExp`. Such a string begins with the
 * anchor `^`.
 */
const isPatternText = (text: string): boolean => text.startsWith('^') && text.length > 1

/** Returns the patterns of a file: literals, anchored strings, and calls that build a pattern from parts. */
function patternsOf(name: string, text: string): Patterns {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true)
  const patterns: RegExp[] = []
  const built: string[] = []
  const visit = (node: import('@ts-morph/common').ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/')
      patterns.push(new RegExp(node.text.slice(1, end), node.text.slice(end + 1)))
    } else if (ts.isStringLiteralLike(node) && isPatternText(node.text)) {
      patterns.push(new RegExp(node.text))
    } else if (ts.isNewExpression(node) && node.expression.getText() === 'RegExp') {
      const [argument] = node.arguments ?? []
      if (argument !== undefined && !ts.isIdentifier(argument)) built.push(argument.getText())
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return { patterns, built }
}

const isOurs = (file: string): boolean => /^(src|workers|config)\//.test(file)

/** Returns whether the pattern needs n² steps or more for some text of n characters. */
const isSlow = (pattern: RegExp): boolean => analyse(pattern).reports.length > 0

test('no regular expression in the source takes more than linear time for any text', () => {
  const wrong: string[] = []
  let checked = 0
  for (const file of sourceFiles().filter(isOurs)) {
    const { patterns, built } = patternsOf(file, textOf(file))
    checked += patterns.length
    for (const pattern of patterns) if (isSlow(pattern)) wrong.push(`${file}: ${pattern}`)
    for (const argument of built) wrong.push(`${file}: new RegExp(${argument}) cannot be checked`)
  }
  assert.ok(checked > 100, `${checked} patterns were found`)
  assert.deepEqual(wrong, [])
})

test('the check of regular expressions finds quadratic and exponential patterns', () => {
  const slow = patternsOf('a.ts', String.raw`const [a, b, c] = [/^a\s*;?\s*$/, /\/+$/, '^(a+)+$']`)
  assert.deepEqual(slow.patterns.map(isSlow), [true, true, true])
  const { patterns, built } = patternsOf(
    'b.ts',
    String.raw`const a = [/^a\s*;/, new RegExp('^' + a)]`,
  )
  assert.deepEqual(patterns.map(isSlow), [false])
  assert.equal(built.length, 1)
})
