/**
 * Returns a TypeScript source without its types, from the cache if possible. Types are replaced by blanks, so lines and
 * columns do not change. A cached text is valid for one modification time and size of its source.
 */

import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import nodeModule from 'node:module'
import { basename, dirname } from 'node:path'
import { ROOT, STRIPPED } from './cache.js'

/** @param {string} path */
export function strippedSource(path) {
  const { mtimeMs, size } = statSync(path)
  const kept = `${STRIPPED}${path.slice(ROOT.length)}@${size}-${mtimeMs}.js`
  try {
    return readFileSync(kept, 'utf8')
  } catch {
    const text = strip(readFileSync(path, 'utf8'))
    keep(kept, text)
    return text
  }
}

/** @param {string} text */
function strip(text) {
  // Hides Node's warning about an experimental feature during this call. Node strips types itself by default; only the
  // function for it is marked experimental.
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return nodeModule.stripTypeScriptTypes(text)
  } finally {
    process.emitWarning = emitWarning
  }
}

/**
 * Writes the text atomically, and removes the text of an older source. If the folder cannot be written, only the next
 * start is slower.
 * @param {string} kept
 * @param {string} text
 */
function keep(kept, text) {
  const folder = dirname(kept)
  const name = basename(kept)
  const source = name.slice(0, name.lastIndexOf('@') + 1)
  try {
    mkdirSync(folder, { recursive: true })
    for (const old of readdirSync(folder)) {
      if (old.startsWith(source) && old !== name) rmSync(`${folder}/${old}`, { force: true })
    }
    const draft = `${folder}/.${process.pid}-${Math.random()}`
    writeFileSync(draft, text)
    renameSync(draft, kept)
  } catch {
    return
  }
}
