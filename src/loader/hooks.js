/**
 * Loads modules quickly: `node --import ./src/loader/hooks.js src/main.cjs`, and the same for every
 * thread of that process. Sources come stripped from a cache, and large libraries as few files instead
 * of hundreds. Without this flag everything works the same, only slower and with more memory.
 */

import './node-version.js'
import { existsSync, readFileSync } from 'node:fs'
import nodeModule from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isMainThread } from 'node:worker_threads'
import { CACHE, FOLDED, foldedFile, foldedFolder, ROOT } from './cache.js'
import { strippedSource } from './strip.js'

// By name, an older Node would refuse to load this file before it can say why.
const { enableCompileCache, registerHooks } = nodeModule
const ROOT_URL = pathToFileURL(ROOT).href
const LIBRARIES_URL = pathToFileURL(`${ROOT}node_modules/`).href
const CACHE_URL = pathToFileURL(CACHE).href
// What V8 made of the modules is kept too, when the process ends.
enableCompileCache(`${CACHE}compiled`)
const folded = foldedLibraries()
const rooms = roomFolders()

registerHooks({
  resolve(name, context, next) {
    const { parentURL: from = '' } = context
    const url = isOurs(from) ? urlOf(name, from) : undefined
    return url === undefined ? next(name, context) : { url, format: 'module', shortCircuit: true }
  },
  load(url, context, next) {
    if (url.startsWith(CACHE_URL)) {
      // One byte for each character: `prepare.js` writes no others.
      const source = readFileSync(fileURLToPath(url), 'latin1')
      return { format: 'module', source, shortCircuit: true }
    }
    if (!url.endsWith('.ts') || !isOurs(url)) return next(url, context)
    return { format: 'module', source: strippedSource(fileURLToPath(url)), shortCircuit: true }
  },
})

/**
 * Where a name leads that one of our files imports, if that can be told without a search. Node looks
 * for a `package.json` around each of them and reads it anew, which is a third of what loading costs.
 * @param {string} name
 * @param {string} from
 */
function urlOf(name, from) {
  // Of a folded library, what several share.
  const isPart = name.endsWith('.mjs') && from.startsWith(CACHE_URL)
  if (!isPart && !name.endsWith('.ts')) return folded.get(name)
  if (name.startsWith('.')) return new URL(name, from).href
  const folder = rooms.get(name.slice(0, name.indexOf('/') + 1))
  return folder === undefined ? undefined : folder + name.slice(name.indexOf('/') + 1)
}

/** The folders that `#room/` stands for, as `package.json` has them. */
function roomFolders() {
  const { imports } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8'))
  return new Map(
    Object.entries(/** @type {Record<string, string>} */ (imports)).map(([name, folder]) => [
      name.slice(0, -1),
      new URL(folder.slice(0, -1), ROOT_URL).href,
    ]),
  )
}

/**
 * Whether a file is the project's own, or a folded library: those find each other folded too.
 * @param {string} url
 */
function isOurs(url) {
  if (!url.startsWith(ROOT_URL)) return false
  return !url.startsWith(LIBRARIES_URL) || url.startsWith(CACHE_URL)
}

/** The files of the folded libraries by name; none when they cannot be folded here. */
function foldedLibraries() {
  try {
    const folder = foldedFolder()
    // Made when the project was installed; now, if it was installed without its scripts.
    if (!existsSync(folder) && isMainThread) {
      // Asked for here alone: every thread loads this file, and nearly none needs another process.
      const { spawnSync } = process.getBuiltinModule('node:child_process')
      spawnSync(process.execPath, [fileURLToPath(new URL('./prepare.js', import.meta.url))])
    }
    if (existsSync(folder)) {
      return new Map(FOLDED.map((name) => [name, pathToFileURL(folder + foldedFile(name)).href]))
    }
  } catch {
    // Nothing is folded then, and everything is loaded as it lies.
  }
  return new Map()
}
