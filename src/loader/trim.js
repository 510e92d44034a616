/**
 * Removes from a production install (`npm ci --omit=dev`) what its programs never load: native parts for other systems,
 * and what only a compiler or a debugger reads. That is half of the installation. An installation with the developers'
 * packages stays as it is. It is only about room: if a file cannot be removed, it says so in one line.
 */

import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './cache.js'

const FOLDER = `${ROOT}node_modules/`
const { platform, arch, versions } = process
/** The compiler: npm installs it because viem names it as an optional peer. */
const COMPILER = ['typescript', '@typescript', '.bin/tsc']
/** Folders with one native part for each system, and how the ones for this system and this Node are named. */
const NATIVE = [
  { folder: 'uWebSockets.js/dist/bin/', ours: `uws_${platform}_${arch}_${versions.modules}.node` },
  { folder: 'better-sqlite3/prebuilds/', ours: `${platform}-${arch}.node` },
]
/** Declarations, source maps, and the sources and headers of native parts, which are built by now. */
const NEVER_LOADED = /\.(d\.[cm]?ts|map|h|c|cc|cpp)$/

try {
  if (isProduction()) {
    for (const name of COMPILER) rmSync(FOLDER + name, { recursive: true, force: true })
    for (const { folder, ours } of NATIVE) keepOnly(FOLDER + folder, ours)
    for (const entry of readdirSync(FOLDER, { recursive: true, withFileTypes: true })) {
      if (entry.isFile() && NEVER_LOADED.test(entry.name)) {
        rmSync(join(entry.parentPath, entry.name))
      }
    }
  }
} catch (error) {
  const { message } = /** @type {Error} */ (error)
  process.stderr.write(`sibyl: node_modules stays larger than needed: ${message}\n`)
}

/** Whether npm has left out the packages that only developers need. */
function isProduction() {
  const { packages } = JSON.parse(readFileSync(`${FOLDER}.package-lock.json`, 'utf8'))
  return !Object.values(packages).some(({ dev }) => dev === true)
}

/**
 * If the file is there; else the files are named in another way, or a compiler has made it.
 * @param {string} folder
 * @param {string} ours
 */
function keepOnly(folder, ours) {
  if (!existsSync(folder + ours)) return
  for (const name of readdirSync(folder)) {
    if (name.endsWith('.node') && name !== ours) rmSync(folder + name)
  }
}
