/**
 * Finds the functions in a file that have more than `linesMax` lines of code. The lines of inner functions count, too.
 */

import { ts } from '@ts-morph/common'

type Node = import('@ts-morph/common').ts.Node

export type LongFunction = { readonly name: string; readonly lines: number }

export function longFunctions(file: string, text: string, linesMax: number): LongFunction[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const lineOf = (at: number): number => source.getLineAndCharacterOfPosition(at).line
  const hasCode = linesOfCode(source, lineOf)
  const found: LongFunction[] = []
  const visit = (node: Node): void => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
      const first = lineOf(node.getStart())
      const lines = [...hasCode].filter((line) => line >= first && line <= lineOf(node.end)).length
      if (lines > linesMax) found.push({ name: nameOf(node), lines })
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/** Returns the numbers of the lines with code. Blank lines, and lines with only a comment, do not count. */
function linesOfCode(source: Node, lineOf: (at: number) => number): Set<number> {
  const lines = new Set<number>()
  const visit = (node: Node): void => {
    if (ts.isJSDoc(node)) return
    const parts = node.getChildren()
    parts.forEach(visit)
    if (parts.length > 0 || node.end === node.getStart()) return
    for (let line = lineOf(node.getStart()); line <= lineOf(node.end); line++) lines.add(line)
  }
  visit(source)
  return lines
}

/** Returns the function's own name, or the name that it is assigned to; otherwise that of the enclosing function. */
function nameOf(node: Node): string {
  if ('name' in node && node.name !== undefined) return (node.name as Node).getText()
  const { parent } = node
  if (parent !== undefined && 'name' in parent && parent.name !== undefined) {
    return (parent.name as Node).getText()
  }
  return parent === undefined ? '' : nameOf(parent)
}
