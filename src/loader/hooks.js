/**
 * Makes modules load faster, in the main thread and in every worker. Node loads this file with a flag: `node --import
 * ./src/loader/hooks.js src/main.cjs`. The sources are read from a cache in which their types are already stripped.
 * Large libraries are loaded from a few files instead of hundreds. Without this flag everything works the same, only
 * slower and with more memory.
 */

import './node-version.js'
import { existsSync, readFileSync } from 'node:fs'
import nodeModule from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isMainThread } from 'node:worker_threads'
import { CACHE, FOLDED, foldedFile, foldedFolder, ROOT } from './cache.js'
import { strippedSource } from './strip.js'

// Do not import these functions by name. An older Node does not have them: it would refuse to load this file
// before `node-version.js` can print the reason.
const { enableCompileCache, registerHooks } = nodeModule
const ROOT_URL = pathToFileURL(ROOT).href
const LIBRARIES_URL = pathToFileURL(`${ROOT}node_modules/`).href
const CACHE_URL = pathToFileURL(CACHE).href
// Node also caches the code that V8 has compiled. It writes this cache when the process ends.
enableCompileCache(`${CACHE}compiled`)
const folded = foldedLibraries()
const rooms = roomFolders()

registerHooks({
  resolve(name, context, next) {
    if (name === 'node:http' || name === 'http') lightenHttp()
    const { parentURL: from = '' } = context
    const url = isOurs(from) ? urlOf(name, from) : undefined
    return url === undefined ? next(name, context) : { url, format: 'module', shortCircuit: true }
  },
  load(url, context, next) {
    if (url.startsWith(CACHE_URL)) {
      // Reading as Latin-1 is correct, because `prepare.js` writes only ASCII, and it is faster than decoding UTF-8.
      const source = readFileSync(fileURLToPath(url), 'latin1')
      return { format: 'module', source, shortCircuit: true }
    }
    if (!url.endsWith('.ts') || !isOurs(url)) return next(url, context)
    return { format: 'module', source: strippedSource(fileURLToPath(url)), shortCircuit: true }
  },
})

/**
 * Removes `WebSocket` and two related exports from `node:http`. An import of `node:http` reads every export. Reading
 * these three would make Node load its `fetch` implementation, which takes 60 ms.
 */
function lightenHttp() {
  const http = process.getBuiltinModule('node:http')
  for (const name of ['WebSocket', 'CloseEvent', 'MessageEvent']) Reflect.deleteProperty(http, name)
}

/**
 * Returns the URL of an import in a project file; undefined if Node must resolve the import. Node reads `package.json`
 * files for each import that it resolves, which takes a third of the loading time.
 * @param {string} name
 * @param {string} from
 */
function urlOf(name, from) {
  // A module that bundled libraries share.
  const isPart = name.endsWith('.mjs') && from.startsWith(CACHE_URL)
  if (!isPart && !name.endsWith('.ts')) return folded.get(name)
  if (name.startsWith('.')) return new URL(name, from).href
  const folder = rooms.get(name.slice(0, name.indexOf('/') + 1))
  return folder === undefined ? undefined : folder + name.slice(name.indexOf('/') + 1)
}

/** Returns the folders of imports such as `#domain/`, from `package.json`. */
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
 * Returns whether a file belongs to the project or to a bundled ("folded") library. Imports in such files may lead to
 * bundled libraries.
 * @param {string} url
 */
function isOurs(url) {
  if (!url.startsWith(ROOT_URL)) return false
  return !url.startsWith(LIBRARIES_URL) || url.startsWith(CACHE_URL)
}

/** Returns the files of the bundled libraries by name; none if the libraries cannot be bundled here. */
function foldedLibraries() {
  try {
    const folder = foldedFolder()
    // The installation normally makes this folder. Make it now if npm did not run the installation's scripts.
    if (!existsSync(folder) && isMainThread) {
      // Load `node:child_process` only here: every thread loads this file, but almost no thread starts another process.
      const { spawnSync } = process.getBuiltinModule('node:child_process')
      spawnSync(process.execPath, [fileURLToPath(new URL('./prepare.js', import.meta.url))])
    }
    if (existsSync(folder)) {
      return new Map(FOLDED.map((name) => [name, pathToFileURL(folder + foldedFile(name)).href]))
    }
  } catch {
    // If the libraries cannot be bundled, each is loaded from its own files.
  }
  return new Map()
}
