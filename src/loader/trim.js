/**
 * Removes files from a production install (`npm ci --omit=dev`) that its programs never load: native modules for other
 * systems, and files for a compiler or a debugger. These files are half of the installation. An installation with
 * developer packages is not changed. If a file cannot be removed, this script prints one line.
 */

import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './cache.js'

const FOLDER = `${ROOT}node_modules/`
const { platform, arch, versions } = process
/**
 * Packages that only developers need. npm installs them in production too, because viem and ws name them as optional
 * peers.
 */
const DEVELOPERS = ['typescript', '@typescript', '.bin/tsc', 'bufferutil']
/** Folders that have one native module per system. `ours` is the file of the module for this system. */
const NATIVE = [
  { folder: 'uWebSockets.js/dist/bin/', ours: `uws_${platform}_${arch}_${versions.modules}.node` },
  { folder: 'better-sqlite3/prebuilds/', ours: `${platform}-${arch}.node` },
]
/**
 * Files that are never loaded: type declarations, source maps, and sources and headers of native modules. The native
 * modules are already built.
 */
const NEVER_LOADED = /\.(d\.[cm]?ts|map|h|c|cc|cpp)$/

try {
  if (isProduction()) {
    for (const name of DEVELOPERS) rmSync(FOLDER + name, { recursive: true, force: true })
    for (const { folder, ours } of NATIVE) keepOnly(FOLDER + folder, ours)
    for (const entry of readdirSync(FOLDER, { recursive: true, withFileTypes: true })) {
      if (entry.isFile() && NEVER_LOADED.test(entry.name)) {
        rmSync(join(entry.parentPath, entry.name))
      }
    }
  }
} catch (error) {
  const { message } = /** @type {Error} */ (error)
  process.stderr.write(`sibyl: unneeded files of node_modules could not be deleted: ${message}\n`)
}

/** Returns whether npm has left out the developer packages. */
function isProduction() {
  const { packages } = JSON.parse(readFileSync(`${FOLDER}.package-lock.json`, 'utf8'))
  return !Object.values(packages).some(({ dev }) => dev === true)
}

/**
 * Removes the native modules of a folder except `ours`. If `ours` does not exist, removes nothing: the files may have
 * other names, or a compiler may have built the module.
 * @param {string} folder
 * @param {string} ours
 */
function keepOnly(folder, ours) {
  if (!existsSync(folder + ours)) return
  for (const name of readdirSync(folder)) {
    if (name.endsWith('.node') && name !== ours) rmSync(folder + name)
  }
}
