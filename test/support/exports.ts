/** Reads the exports of this repository's files, and the uses of the exports, from the text of the files. */

import { importsOf, sourceFiles, targetOf, textOf } from './imports.ts'

/** Returns the names that a file exports: values and types. */
export function exportsOf(file: string): string[] {
  const names: string[] = []
  const text = textOf(file)
  const declared =
    /^export\s+(?:declare\s+)?(?:async\s+)?(?:abstract\s+)?(?:function\*?|const|let|class|type|interface|enum)\s+(\w+)/gm
  for (const [, name = ''] of text.matchAll(declared)) names.push(name)
  for (const [, list = ''] of text.matchAll(/^export\s+(?:type\s+)?\{([^}]*)\}/gm)) {
    for (const part of list.split(',')) {
      const name =
        part
          .trim()
          .split(/\s+as\s+/)
          .at(-1) ?? ''
      if (name !== '') names.push(name.replace(/^type /, ''))
    }
  }
  return names
}

/**
 * Returns the imported names of each file, by the file's path. Counts imports in files that `from` accepts. `*` means
 * all names.
 */
export function importedNames(from: (file: string) => boolean): Map<string, Set<string>> {
  const used = new Map<string, Set<string>>()
  const note = (file: string, name: string): void => {
    used.set(file, (used.get(file) ?? new Set()).add(name))
  }
  for (const file of sourceFiles().filter(from)) {
    const text = textOf(file)
    const named = /^import\s+(?:type\s+)?([^'"]*?)\s+from\s+['"]([^'"]+)['"]/gms
    for (const [, clause = '', path = ''] of text.matchAll(named)) {
      const target = targetOf(file, path)
      if (clause.includes('*')) note(target, '*')
      for (const part of /\{([^}]*)\}/s.exec(clause)?.[1]?.split(',') ?? []) {
        const name =
          part
            .trim()
            .replace(/^type\s+/, '')
            .split(/\s+as\s+/)[0] ?? ''
        if (name !== '') note(target, name)
      }
    }
    // For `await import(…)` and `typeof import(…)`, all exports count as used.
    for (const [, path = ''] of text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]/g)) {
      note(targetOf(file, path), '*')
    }
  }
  return used
}

/** Returns the import cycles among these files, each as a list of its files. Imports of types count, too. */
export function importCircles(files: readonly string[]): string[][] {
  const known = new Set(files)
  const targets = new Map(
    files.map((file) => [
      file,
      [...new Set(importsOf(file).map(({ from }) => targetOf(file, from)))].filter((target) =>
        known.has(target),
      ),
    ]),
  )
  const circles: string[][] = []
  const done = new Set<string>()
  const visit = (file: string, way: readonly string[]): void => {
    const at = way.indexOf(file)
    if (at >= 0) {
      circles.push([...way.slice(at), file])
      return
    }
    if (done.has(file)) return
    for (const target of targets.get(file) ?? []) visit(target, [...way, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
  return circles
}
