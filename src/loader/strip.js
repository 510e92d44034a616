/**
 * A source without its types, from the cache or made now. What is cut is replaced by blanks, so that
 * lines and columns stay what they are. A cached text belongs to one time and size of its source.
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
  // Node runs types away by itself; only this way to ask for it is called experimental.
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return nodeModule.stripTypeScriptTypes(text)
  } finally {
    process.emitWarning = emitWarning
  }
}

/**
 * Writes it whole or not at all, and removes what an older source left. A folder that cannot be
 * written costs time at the next start, nothing else.
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
