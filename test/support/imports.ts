/** Reads the imports between the files of this repository from their text. */

import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** The folders with sources of ours. */
const FOLDERS = ['config', 'contracts', 'loadtest', 'packages', 'src', 'test', 'workers']

export type Import = { readonly from: string; readonly typeOnly: boolean }

export const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8')

/** Returns every TypeScript file of the repository, by its path from the root. */
export function sourceFiles(): string[] {
  const files: string[] = []
  for (const folder of FOLDERS) {
    for (const entry of readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })) {
      const file = `${folder}/${entry.replaceAll('\\', '/')}`
      if (/\/(artifacts|node_modules)\//.test(file)) continue
      if (/\.tsx?$/.test(file)) files.push(file)
    }
  }
  return files.sort()
}

export function importsOf(file: string): Import[] {
  const found: Import[] = []
  const text = textOf(file)
  const statement = /^(?:import|export)\s+(type\s)?(?:([^'"]*?)\s+from\s+)?['"]([^'"]+)['"]/gms
  for (const match of text.matchAll(statement)) {
    const names = (match[2] ?? '').trim()
    const inner = /^\{([^}]*)\}$/s.exec(names)?.[1]
    const allTypes = inner
      ?.split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '')
      .every((name) => name.startsWith('type '))
    found.push({ from: match[3] ?? '', typeOnly: match[1] !== undefined || allTypes === true })
  }
  for (const match of text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]/g)) {
    found.push({ from: match[1] ?? '', typeOnly: false })
  }
  return found
}

const subpaths = Object.entries(
  (JSON.parse(textOf('package.json')) as { imports: Record<string, string> }).imports,
).map(([name, path]) => [name.replace('*', ''), path.replace('*', '')] as const)

/** Returns the file that an import leads to, or the name of the library. */
export function targetOf(file: string, from: string): string {
  if (from.startsWith('.')) return normalize(join(dirname(file), from))
  const [name, path] = subpaths.find(([name]) => from.startsWith(name)) ?? ['', '']
  return name === '' ? from : normalize(join(path, from.slice(name.length)))
}

const loadedBy = new Map<string, readonly string[]>()

/**
 * Returns the direct imports of a file, except type-only imports. The result is cached, because many tests reach the
 * same files.
 */
function loads(file: string): readonly string[] {
  const known = loadedBy.get(file)
  if (known !== undefined) return known
  const found = importsOf(file).filter(({ typeOnly }) => !typeOnly)
  const targets = found.map(({ from }) => targetOf(file, from))
  loadedBy.set(file, targets)
  return targets
}

/** Returns everything that is loaded together with this file: source files, and libraries by their names. */
export function reachedFrom(file: string): Set<string> {
  const reached = new Set([file])
  for (const each of reached) {
    for (const target of /\.tsx?$/.test(each) ? loads(each) : []) reached.add(target)
  }
  return reached
}
